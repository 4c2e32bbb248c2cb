package openai

import (
	"encoding/json"
	"strings"

	"rally/internal/llm"
	"rally/internal/session"
)

// chunk is what we read of a chat completion, whole or in pieces. Members that
// servers fill with different types are read as they come.
type chunk struct {
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Object  any             `json:"object"`
	Type    any             `json:"type"`
	Detail  json.RawMessage `json:"detail"`
}

type choice struct {
	Index   int             `json:"index"`
	Delta   *delta          `json:"delta"`
	Message *delta          `json:"message"` // of a whole completion
	Finish  *string         `json:"finish_reason"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type delta struct {
	Content          any               `json:"content"` // string, or parts
	Refusal          string            `json:"refusal"`
	ReasoningContent any               `json:"reasoning_content"`
	Reasoning        any               `json:"reasoning"`
	Details          []detail          `json:"reasoning_details"`
	ToolCalls        []json.RawMessage `json:"tool_calls"`
	FunctionCall     *function         `json:"function_call"` // before tools
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// chatDecoder turns chunks into events.
type chatDecoder struct {
	sink   *llm.Sink
	errors *llm.Classifier
	names  map[string]string // wire name → tool, where they differ

	like      likeness
	think     thinkFilter
	reasoning reasoning
	usage     *llm.Usage
	reason    string
	finished  bool // a finish reason came
}

// Finished implements llm.Decoder.
func (d *chatDecoder) Finished() bool { return d.finished }

// Whole implements llm.Decoder.
func (d *chatDecoder) Whole(raw []byte) error {
	_, err := d.Event("", raw)
	return err
}

// Event implements llm.Decoder.
func (d *chatDecoder) Event(name string, raw []byte) (done bool, err error) {
	if text, ok := d.like.match(raw); ok && name == "" {
		return !d.text(d.think.push(text)), nil
	}
	var c chunk
	if err := llm.DecodeLoose(raw, &c); err != nil {
		return false, d.errors.BadChunk(err)
	}
	if text, ok := c.textOnly(); ok {
		d.like.learn(raw, text)
	}
	if name == "error" || present(c.Error) || c.Choices == nil && (c.Object == "error" || c.Type == "error" || present(c.Detail)) {
		return false, d.errors.Object(raw)
	}
	d.takeUsage(c.Usage)
	for i := range c.Choices {
		ch := &c.Choices[i]
		if present(ch.Error) {
			return false, d.errors.Object(ch.Error)
		}
		if ch.Index != 0 {
			continue
		}
		d.takeUsage(ch.Usage)
		for _, m := range []*delta{ch.Delta, ch.Message} {
			if m != nil && !d.delta(m) {
				return true, nil
			}
		}
		if ch.Finish != nil && *ch.Finish != "" {
			d.reason, d.finished = *ch.Finish, true
			d.sink.Finished()
		}
	}
	return false, nil
}

// textOnly is the text of a chunk that says nothing else.
func (c *chunk) textOnly() (string, bool) {
	if len(c.Choices) != 1 || c.Choices[0].Delta == nil || len(c.Usage) > 0 && string(c.Usage) != "null" || present(c.Error) {
		return "", false
	}
	ch := &c.Choices[0]
	text, ok := ch.Delta.Content.(string)
	m := ch.Delta
	return text, ok && text != "" && ch.Index == 0 && ch.Message == nil && (ch.Finish == nil || *ch.Finish == "") &&
		!present(ch.Error) && !present(ch.Usage) && m.Refusal == "" && m.ReasoningContent == nil && m.Reasoning == nil &&
		len(m.Details) == 0 && len(m.ToolCalls) == 0 && m.FunctionCall == nil
}

// present reports whether an error member says anything: null, false, "" and
// {} do not.
func present(raw json.RawMessage) bool {
	switch strings.TrimSpace(string(raw)) {
	case "", "null", "false", `""`, "{}", "[]":
		return false
	}
	return true
}

func (d *chatDecoder) delta(m *delta) bool {
	if e, ok := d.reasoning.take(m); ok && !d.sink.Emit(e) {
		return false
	}
	text, thought := contentText(m.Content)
	if thought != "" && !d.sink.Emit(d.reasoning.delta("content", thought)) {
		return false
	}
	if !d.text(d.think.push(text + m.Refusal)) {
		return false
	}
	for _, raw := range m.ToolCalls {
		if e, ok := d.call(raw); ok && !d.sink.Emit(e) {
			return false
		}
	}
	if m.FunctionCall != nil {
		zero := 0
		return d.sink.Emit(llm.CallDelta{Index: &zero, Name: d.tool(m.FunctionCall.Name), Args: argsText(m.FunctionCall.Arguments)})
	}
	return true
}

func (d *chatDecoder) text(thought, text string) bool {
	if thought != "" && !d.sink.Emit(d.reasoning.delta("think", thought)) {
		return false
	}
	if text == "" {
		return true
	}
	d.reasoning.end()
	return d.sink.Emit(llm.TextDelta{Text: text})
}

func (d *chatDecoder) call(raw json.RawMessage) (llm.CallDelta, bool) {
	var known struct {
		Index    *int     `json:"index"`
		ID       string   `json:"id"`
		Function function `json:"function"`
	}
	if llm.DecodeLoose(raw, &known) != nil {
		return llm.CallDelta{}, false
	}
	e := llm.CallDelta{Index: known.Index, ID: known.ID, Name: d.tool(known.Function.Name), Args: argsText(known.Function.Arguments)}
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) == nil {
		for key, value := range all {
			switch key {
			case "index", "id", "type", "function":
				continue
			}
			if string(value) == "null" {
				continue
			}
			if e.Extra == nil {
				e.Extra = session.Metadata{}
			}
			e.Extra[key] = value
		}
	}
	if e.Index == nil && e.ID == "" && e.Name == "" && e.Args == "" && e.Extra == nil {
		return llm.CallDelta{}, false
	}
	d.reasoning.end()
	return e, true
}

func (d *chatDecoder) tool(name string) string {
	if own, ok := d.names[name]; ok {
		return own
	}
	return name
}

// argsText is a piece of the arguments' text; some servers send the object
// itself.
func argsText(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if raw[0] != '"' {
		return string(raw)
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// contentText is the text of a content member; Mistral sends a list of parts
// in which thinking stands too.
func contentText(content any) (text, thought string) {
	switch c := content.(type) {
	case string:
		return c, ""
	case []any:
		for _, part := range c {
			p, ok := part.(map[string]any)
			if !ok {
				continue
			}
			if s, ok := p["text"].(string); ok {
				text += s
			}
			inner, more := contentText(p["thinking"])
			thought += inner + more
		}
	}
	return text, thought
}

// Flush implements llm.Decoder.
func (d *chatDecoder) Flush() {
	if d.text(d.think.flush()) {
		if e, ok := d.reasoning.close(); ok {
			d.sink.Emit(e)
		}
	}
}

// Finish implements llm.Decoder.
func (d *chatDecoder) Finish() {
	d.Flush()
	if d.usage != nil {
		d.sink.Emit(*d.usage)
	}
	d.sink.Emit(llm.Finish{Reason: finishReason(d.reason), Raw: d.reason})
}

func finishReason(raw string) session.Finish {
	switch strings.ToLower(raw) {
	case "stop", "eos", "eos_token", "stop_sequence", "end_turn", "completed":
		return session.FinishStop
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return session.FinishLength
	case "tool_calls", "function_call", "tool_use", "tool-calls", "tool_call":
		return session.FinishToolCalls
	case "content_filter", "content-filter", "safety", "recitation", "prohibited_content", "blocklist", "spii", "sensitive":
		return session.FinishContentFilter
	case "error", "network_error", "insufficient_system_resource", "malformed_function_call", "abort":
		return session.FinishError
	}
	return session.FinishUnknown
}
