package openai

import (
	"encoding/json"
	"strings"

	"rally/internal/llm"
	"rally/internal/session"
)

// responseEvent is what we read of an event of the responses API.
type responseEvent struct {
	Type         string          `json:"type"`
	OutputIndex  int             `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        any             `json:"delta"`
	Arguments    string          `json:"arguments"`
	Item         json.RawMessage `json:"item"`
	Response     *response       `json:"response"`
	Error        json.RawMessage `json:"error"`
}

// response is the whole answer, as the last event or a plain body holds it.
type response struct {
	Object     string            `json:"object"`
	Status     string            `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Error      json.RawMessage   `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Total   int64 `json:"total_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		Cost json.Number `json:"cost"`
	} `json:"usage"`
}

// outputItem is one piece of an answer.
type outputItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
	Sealed string `json:"encrypted_content"`
}

// responsesDecoder turns events of the responses API into ours. Items that
// came in deltas are not given again when they are done.
type responsesDecoder struct {
	sink   *llm.Sink
	errors *llm.Classifier
	names  map[string]string

	seen     map[int]bool // items of which text or arguments came
	called   bool
	usage    *llm.Usage
	reason   string
	finish   session.Finish
	finished bool
}

// Finished implements llm.Decoder.
func (d *responsesDecoder) Finished() bool { return d.finished }

// Flush implements llm.Decoder; nothing is held back.
func (d *responsesDecoder) Flush() {}

// Finish implements llm.Decoder.
func (d *responsesDecoder) Finish() {
	if d.usage != nil {
		d.sink.Emit(*d.usage)
	}
	if d.finish == "" {
		d.finish = session.FinishUnknown
	}
	d.sink.Emit(llm.Finish{Reason: d.finish, Raw: d.reason})
}

// Whole implements llm.Decoder.
func (d *responsesDecoder) Whole(raw []byte) error {
	var r response
	if err := llm.DecodeLoose(raw, &r); err != nil {
		return d.errors.BadChunk(err)
	}
	if r.Output == nil || present(r.Error) {
		return d.errors.Object(raw)
	}
	for i, item := range r.Output {
		d.item(i, item)
	}
	d.end(&r)
	return nil
}

// Event implements llm.Decoder.
func (d *responsesDecoder) Event(name string, raw []byte) (done bool, err error) {
	var e responseEvent
	if err := llm.DecodeLoose(raw, &e); err != nil {
		return false, d.errors.BadChunk(err)
	}
	if e.Type == "" {
		e.Type = name
	}
	text, _ := e.Delta.(string)
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		d.saw(e.OutputIndex)
		d.text(text)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		if text != "" {
			d.saw(e.OutputIndex)
			d.sink.Emit(llm.ReasoningDelta{Block: e.OutputIndex, Text: text})
		}
	case "response.reasoning_summary_part.added":
		if e.SummaryIndex > 0 {
			d.sink.Emit(llm.ReasoningDelta{Block: e.OutputIndex, Text: "\n\n"})
		}
	case "response.output_item.added":
		d.added(e.OutputIndex, e.Item)
	case "response.function_call_arguments.delta":
		d.saw(e.OutputIndex)
		d.sink.Emit(llm.CallDelta{Index: &e.OutputIndex, Args: text})
	case "response.function_call_arguments.done":
		if !d.seen[e.OutputIndex] && e.Arguments != "" {
			d.saw(e.OutputIndex)
			d.sink.Emit(llm.CallDelta{Index: &e.OutputIndex, Args: e.Arguments})
		}
	case "response.output_item.done":
		d.item(e.OutputIndex, e.Item)
	case "response.completed", "response.incomplete", "response.done":
		if e.Response != nil {
			d.end(e.Response)
		}
		return true, nil
	case "response.failed", "response.cancelled", "error":
		return false, d.failed(&e, raw)
	default:
		if present(e.Error) {
			return false, d.errors.Object(raw)
		}
	}
	return d.sink.Stopped(), nil
}

func (d *responsesDecoder) failed(e *responseEvent, raw []byte) error {
	if e.Response != nil && present(e.Response.Error) {
		return d.errors.Object(e.Response.Error)
	}
	return d.errors.Object(raw)
}

func (d *responsesDecoder) saw(index int) {
	if d.seen == nil {
		d.seen = map[int]bool{}
	}
	d.seen[index] = true
}

func (d *responsesDecoder) text(text string) {
	if text != "" {
		d.sink.Emit(llm.TextDelta{Text: text})
	}
}

// added announces a call as soon as its name is known.
func (d *responsesDecoder) added(index int, raw json.RawMessage) {
	var item outputItem
	if llm.DecodeLoose(raw, &item) != nil || item.Type != "function_call" {
		return
	}
	d.called = true
	d.sink.Emit(llm.CallDelta{Index: &index, ID: item.CallID, Name: d.tool(item.Name)})
}

func (d *responsesDecoder) tool(name string) string {
	if own, ok := d.names[name]; ok {
		return own
	}
	return name
}

// item takes an item that is done: what did not come in deltas, and what must
// go back with it.
func (d *responsesDecoder) item(index int, raw json.RawMessage) {
	var item outputItem
	if llm.DecodeLoose(raw, &item) != nil {
		return
	}
	seen := d.seen[index]
	switch {
	case item.Type == "message":
		for _, c := range item.Content {
			if !seen {
				d.text(c.Text + c.Refusal)
			}
		}
	case item.Type == "reasoning":
		d.reasoning(index, &item, seen)
	case item.Type == "function_call":
		e := llm.CallDelta{Index: &index, ID: item.CallID, Name: d.tool(item.Name), Extra: unknownMembers(raw)}
		if !seen {
			e.Args = item.Arguments
		}
		d.called = true
		d.sink.Emit(e)
	case strings.HasSuffix(item.Type, "_call") || item.Type == "mcp_list_tools":
		d.sink.Emit(llm.CallDelta{
			Index: &index, ID: item.ID, Name: strings.TrimSuffix(item.Type, "_call"), Args: executedArgs(raw),
			Executed: true, Result: raw,
		})
	}
}

func (d *responsesDecoder) reasoning(index int, item *outputItem, seen bool) {
	e := llm.ReasoningDelta{Block: index}
	if !seen {
		var texts []string
		for _, s := range item.Summary {
			texts = append(texts, s.Text)
		}
		for _, c := range item.Content {
			texts = append(texts, c.Text)
		}
		e.Text = strings.Join(texts, "\n\n")
	}
	if item.Sealed != "" {
		e.Metadata = session.Metadata{}
		e.Metadata.Set("id", item.ID)
		e.Metadata.Set("encrypted_content", item.Sealed)
	}
	if e.Text != "" || e.Metadata != nil {
		d.sink.Emit(e)
	}
}

// unknownMembers are those of a function call that must go back as they came.
func unknownMembers(raw json.RawMessage) session.Metadata {
	var all session.Metadata
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	for _, key := range []string{"type", "id", "call_id", "name", "arguments", "status"} {
		delete(all, key)
	}
	for key, value := range all {
		if string(value) == "null" {
			delete(all, key)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// executedArgs are what a call that the provider ran was about.
func executedArgs(raw json.RawMessage) string {
	var item map[string]json.RawMessage
	if json.Unmarshal(raw, &item) != nil {
		return "{}"
	}
	for _, key := range []string{"action", "arguments", "queries", "code"} {
		value := item[key]
		var text string
		switch {
		case len(value) == 0:
		case value[0] == '{':
			return string(value)
		case json.Unmarshal(value, &text) == nil && json.Valid([]byte(text)) && strings.HasPrefix(text, "{"):
			return text
		default:
			return `{"` + key + `":` + string(value) + `}`
		}
	}
	return "{}"
}

func (d *responsesDecoder) end(r *response) {
	d.finished, d.reason = true, r.Status
	d.finish = session.FinishStop
	if d.called {
		d.finish = session.FinishToolCalls
	}
	if r.Incomplete.Reason != "" {
		d.reason = r.Incomplete.Reason
	}
	if r.Status == "incomplete" || r.Incomplete.Reason != "" {
		d.finish = finishReason(d.reason)
	}
	if u := r.Usage; u != nil && u.Input+u.Output+u.Total > 0 {
		w := wireUsage{Prompt: u.Input, Completion: u.Output, Total: u.Total, Cost: u.Cost}
		w.PromptDetails.Cached = u.Details.Cached
		w.CompletionDetails.Reasoning = u.OutputDetails.Reasoning
		d.usage = w.usage()
	}
}
