package openai

import (
	"encoding/json"
	"errors"
	"io"
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

// decoder turns chunks into events.
type decoder struct {
	yield  func(llm.Event, error) bool
	watch  *llm.Watch
	errors *llm.Classifier
	names  map[string]string // wire name → tool, where they differ

	think     thinkFilter
	reasoning reasoning
	usage     *llm.Usage
	reason    string
	finished  bool // a finish reason came
	done      bool // [DONE] came
	stopped   bool // the consumer broke off
}

func (d *decoder) emit(e llm.Event) bool {
	d.watch.Content()
	if !d.stopped && !d.yield(e, nil) {
		d.stopped = true
	}
	return !d.stopped
}

// stream reads until [DONE] or the end. An end without either finish reason
// or [DONE] is io.ErrUnexpectedEOF.
func (d *decoder) stream(sse *llm.SSE) error {
	for !d.stopped {
		ev, err := sse.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return err
			}
			if stray := sse.Stray(); !d.finished && json.Valid(stray) {
				return d.errors.Object(stray)
			}
			if !d.finished {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		data := strings.TrimSpace(string(ev.Data[:min(len(ev.Data), 16)]))
		if data == "[DONE]" {
			d.done = true
			return nil
		}
		if data == "" {
			continue
		}
		if err := d.chunk(ev.Data, ev.Name == "error"); err != nil {
			return err
		}
	}
	return nil
}

// whole reads a completion that came in one piece.
func (d *decoder) whole(raw []byte) error {
	if err := d.chunk(raw, false); err != nil {
		return err
	}
	d.done = true
	return nil
}

func (d *decoder) chunk(raw []byte, isError bool) error {
	var c chunk
	if err := json.Unmarshal(raw, &c); err != nil {
		var wrongType *json.UnmarshalTypeError
		if !errors.As(err, &wrongType) {
			return &llm.Error{
				Class: llm.Incomplete, Provider: d.errors.Provider,
				Message: "the stream holds a chunk that is not JSON: " + err.Error(), Err: err,
			}
		}
	}
	if isError || present(c.Error) || c.Choices == nil && (c.Object == "error" || c.Type == "error" || present(c.Detail)) {
		return d.errors.Object(raw)
	}
	d.takeUsage(c.Usage)
	for i := range c.Choices {
		ch := &c.Choices[i]
		if present(ch.Error) {
			return d.errors.Object(ch.Error)
		}
		if ch.Index != 0 {
			continue
		}
		d.takeUsage(ch.Usage)
		for _, m := range []*delta{ch.Delta, ch.Message} {
			if m != nil && !d.delta(m) {
				return nil
			}
		}
		if ch.Finish != nil && *ch.Finish != "" {
			d.reason, d.finished = *ch.Finish, true
			d.watch.Finished()
		}
	}
	return nil
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

func (d *decoder) delta(m *delta) bool {
	if e, ok := d.reasoning.take(m); ok && !d.emit(e) {
		return false
	}
	text, thought := contentText(m.Content)
	if thought != "" && !d.emit(d.reasoning.delta("content", thought)) {
		return false
	}
	if !d.text(d.think.push(text + m.Refusal)) {
		return false
	}
	for _, raw := range m.ToolCalls {
		if e, ok := d.call(raw); ok && !d.emit(e) {
			return false
		}
	}
	if m.FunctionCall != nil {
		zero := 0
		return d.emit(llm.CallDelta{Index: &zero, Name: d.tool(m.FunctionCall.Name), Args: argsText(m.FunctionCall.Arguments)})
	}
	return true
}

func (d *decoder) text(thought, text string) bool {
	if thought != "" && !d.emit(d.reasoning.delta("think", thought)) {
		return false
	}
	if text == "" {
		return true
	}
	d.reasoning.end()
	return d.emit(llm.TextDelta{Text: text})
}

func (d *decoder) call(raw json.RawMessage) (llm.CallDelta, bool) {
	var known struct {
		Index    *int     `json:"index"`
		ID       string   `json:"id"`
		Function function `json:"function"`
	}
	var wrongType *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, &known); err != nil && !errors.As(err, &wrongType) {
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

func (d *decoder) tool(name string) string {
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

// flush gives what the filters hold back.
func (d *decoder) flush() {
	if d.text(d.think.flush()) {
		if e, ok := d.reasoning.close(); ok {
			d.emit(e)
		}
	}
}

func (d *decoder) finish() {
	d.flush()
	if d.usage != nil {
		d.emit(*d.usage)
	}
	d.emit(llm.Finish{Reason: finishReason(d.reason), Raw: d.reason})
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
