package scripted

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// chatFormat is OpenAI's chat completions.
type chatFormat struct{}

type object = map[string]any

func (chatFormat) failure(f *Failure) any {
	return object{"error": object{"message": f.Message, "type": f.Type, "code": nullable(f.Code)}}
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (chatFormat) stream(a *answer) [][]byte {
	var out [][]byte
	send := func(choices []any, usage any) {
		c := object{"id": a.id(), "object": "chat.completion.chunk", "created": 0, "model": a.model, "choices": choices}
		if usage != nil {
			c["usage"] = usage
		}
		out = append(out, event("", c))
	}
	delta := func(d object) { send([]any{object{"index": 0, "delta": d, "finish_reason": nil}}, nil) }
	delta(object{"role": "assistant", "content": ""})
	for _, piece := range a.pieces(a.Reasoning) {
		delta(object{"reasoning_content": piece})
	}
	for _, piece := range a.pieces(a.Text) {
		delta(object{"content": piece})
	}
	for i := range a.Calls {
		c := &a.Calls[i]
		delta(object{"tool_calls": []any{object{
			"index": i, "id": a.callID(i), "type": "function", "function": object{"name": c.Name, "arguments": ""},
		}}})
		for _, piece := range a.pieces(c.text()) {
			delta(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": piece}}}})
		}
	}
	if reason := a.finish(); reason != "" {
		send([]any{object{"index": 0, "delta": object{}, "finish_reason": reason}}, nil)
	}
	if u := a.usage(); u != nil {
		send([]any{}, chatUsage(u))
	}
	return append(out, []byte("data: [DONE]\n\n"))
}

func (chatFormat) object(a *answer) any {
	m := object{"role": "assistant", "content": nullable(a.Text)}
	if a.Reasoning != "" {
		m["reasoning_content"] = a.Reasoning
	}
	var calls []any
	for i := range a.Calls {
		calls = append(calls, object{"id": a.callID(i), "type": "function", "function": object{"name": a.Calls[i].Name, "arguments": a.Calls[i].text()}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	out := object{
		"id": a.id(), "object": "chat.completion", "created": 0, "model": a.model,
		"choices": []any{object{"index": 0, "message": m, "finish_reason": nullable(a.finish())}},
	}
	if u := a.usage(); u != nil {
		out["usage"] = chatUsage(u)
	}
	return out
}

func chatUsage(u *Usage) object {
	out := object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.Cached},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
	if u.Cost != "" {
		out["cost"] = json.Number(u.Cost)
	}
	return out
}

func (a *answer) id() string { return "scripted-" + strconv.Itoa(a.number) }

// callID is stable: the same script gives the same ids.
func (a *answer) callID(i int) string {
	if id := a.Calls[i].ID; id != "" {
		return id
	}
	return fmt.Sprintf("call_%d_%d", a.number, i+1)
}

func (a *answer) finish() string {
	switch {
	case a.Finish == "none":
		return ""
	case a.Finish != "":
		return a.Finish
	case len(a.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// usage is nil where the script wants none; without a word of the script it
// is made up, so that a run has figures to show.
func (a *answer) usage() *Usage {
	switch {
	case a.Usage == nil:
		return &Usage{Input: 100, Output: int64(len(a.Text)+len(a.Reasoning))/4 + 1}
	case a.Usage.None:
		return nil
	}
	return a.Usage
}

// pieces cuts a text into chunks of whole characters; no text is no chunk.
func (a *answer) pieces(text string) []string {
	if text == "" {
		return nil
	}
	if a.Chunk == 0 {
		return []string{text}
	}
	var out []string
	start, count := 0, 0
	for i := range text {
		if count == a.Chunk {
			out = append(out, text[start:i])
			start, count = i, 0
		}
		count++
	}
	return append(out, text[start:])
}

func (c *Call) text() string {
	text, err := c.args()
	if err != nil { // Parse has looked
		return ""
	}
	return text
}

// event is one server-sent event.
func event(name string, data any) []byte {
	b, err := json.Marshal(data)
	if err != nil { // nothing here cannot be encoded but a cost that is no number
		b, _ = json.Marshal(object{"error": object{"message": err.Error()}})
	}
	out := make([]byte, 0, len(b)+32)
	if name != "" {
		out = append(out, "event: "+name+"\n"...)
	}
	out = append(out, "data: "...)
	return append(append(out, b...), "\n\n"...)
}
