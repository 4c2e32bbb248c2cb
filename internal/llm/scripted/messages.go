package scripted

import (
	"encoding/json"
	"fmt"
)

// messagesFormat is Anthropic's Messages API.
type messagesFormat struct{}

func (messagesFormat) failure(f *Failure) any {
	kind := f.Type
	if kind == "" {
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": f.Message, "code": nullable(f.Code)}}
}

func (f messagesFormat) stream(a *answer) [][]byte {
	var out [][]byte
	send := func(kind string, data object) {
		data["type"] = kind
		out = append(out, event(kind, data))
	}
	start := object{"id": a.id(), "type": "message", "role": "assistant", "model": a.model, "content": []any{}, "stop_reason": nil}
	u := a.usage()
	if u != nil {
		start["usage"] = object{"input_tokens": u.Input - u.Cached, "cache_read_input_tokens": u.Cached, "output_tokens": 0}
	}
	send("message_start", object{"message": start})
	for i, block := range f.content(a) {
		kind, _ := block["type"].(string)
		delta := func(d object) { send("content_block_delta", object{"index": i, "delta": d}) }
		switch kind {
		case "thinking":
			send("content_block_start", object{"index": i, "content_block": object{"type": kind, "thinking": "", "signature": ""}})
			for _, piece := range a.pieces(a.Reasoning) {
				delta(object{"type": "thinking_delta", "thinking": piece})
			}
			delta(object{"type": "signature_delta", "signature": block["signature"]})
		case "text":
			send("content_block_start", object{"index": i, "content_block": object{"type": kind, "text": ""}})
			for _, piece := range a.pieces(a.Text) {
				delta(object{"type": "text_delta", "text": piece})
			}
		case "tool_use":
			send("content_block_start", object{"index": i, "content_block": object{"type": kind, "id": block["id"], "name": block["name"], "input": object{}}})
			text, _ := block["raw"].(string)
			for _, piece := range a.pieces(text) {
				delta(object{"type": "input_json_delta", "partial_json": piece})
			}
		}
		send("content_block_stop", object{"index": i})
	}
	if a.Finish == "none" {
		return out
	}
	end := object{"delta": object{"stop_reason": a.stopReason(), "stop_sequence": nil}}
	if u != nil {
		end["usage"] = object{"output_tokens": u.Output}
	}
	send("message_delta", end)
	send("message_stop", object{})
	return out
}

// stopReason is the script's finish in this format's words.
func (a *answer) stopReason() string {
	switch reason := a.finish(); reason {
	case "stop":
		return "end_turn"
	case "tool_calls":
		return "tool_use"
	case "length":
		return "max_tokens"
	case "content_filter":
		return "refusal"
	default:
		return reason
	}
}

func (f messagesFormat) object(a *answer) any {
	var content []object
	for _, block := range f.content(a) {
		delete(block, "raw")
		content = append(content, block)
	}
	out := object{
		"id": a.id(), "type": "message", "role": "assistant", "model": a.model, "content": content, "stop_reason": a.stopReason(),
	}
	if u := a.usage(); u != nil {
		out["usage"] = object{"input_tokens": u.Input - u.Cached, "cache_read_input_tokens": u.Cached, "output_tokens": u.Output}
	}
	return out
}

func (messagesFormat) content(a *answer) []object {
	var out []object
	if a.Reasoning != "" {
		out = append(out, object{"type": "thinking", "thinking": a.Reasoning, "signature": fmt.Sprintf("signature-%d", a.number)})
	}
	if a.Text != "" {
		out = append(out, object{"type": "text", "text": a.Text})
	}
	for i := range a.Calls {
		text := a.Calls[i].text()
		input := json.RawMessage(text)
		if !json.Valid(input) { // only a stream can carry broken arguments
			input = json.RawMessage("{}")
		}
		out = append(out, object{"type": "tool_use", "id": a.callID(i), "name": a.Calls[i].Name, "input": input, "raw": text})
	}
	return out
}
