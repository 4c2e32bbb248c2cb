package scripted

import (
	"encoding/json"
	"fmt"
)

// responsesFormat is OpenAI's responses API.
type responsesFormat struct{}

func (responsesFormat) failure(f *Failure) any { return chatFormat{}.failure(f) }

func (f responsesFormat) stream(a *answer) [][]byte {
	var out [][]byte
	send := func(kind string, data object) {
		data["type"], data["sequence_number"] = kind, len(out)
		out = append(out, event(kind, data))
	}
	send("response.created", object{"response": object{"id": a.id(), "object": "response", "status": "in_progress", "model": a.model, "output": []any{}}})
	for i, item := range f.output(a) {
		kind, _ := item["type"].(string)
		switch kind {
		case "reasoning":
			send("response.output_item.added", object{"output_index": i, "item": object{"type": kind, "id": item["id"], "summary": []any{}}})
			for _, piece := range a.pieces(a.Reasoning) {
				send("response.reasoning_summary_text.delta", object{"output_index": i, "summary_index": 0, "delta": piece})
			}
		case "message":
			send("response.output_item.added", object{"output_index": i, "item": object{"type": kind, "id": item["id"], "role": "assistant", "content": []any{}}})
			for _, piece := range a.pieces(a.Text) {
				send("response.output_text.delta", object{"output_index": i, "content_index": 0, "delta": piece})
			}
		case "function_call":
			send("response.output_item.added", object{"output_index": i, "item": object{"type": kind, "id": item["id"], "call_id": item["call_id"], "name": item["name"], "arguments": ""}})
			text, _ := item["arguments"].(string)
			for _, piece := range a.pieces(text) {
				send("response.function_call_arguments.delta", object{"output_index": i, "delta": piece})
			}
		}
		send("response.output_item.done", object{"output_index": i, "item": item})
	}
	if a.Finish == "none" {
		return out
	}
	kind := "response.completed"
	if a.incomplete() != "" {
		kind = "response.incomplete"
	}
	send(kind, object{"response": f.object(a)})
	return out
}

// incomplete is the reason of an answer that stopped early, "" for others.
func (a *answer) incomplete() string {
	switch a.Finish {
	case "length":
		return "max_output_tokens"
	case "content_filter":
		return "content_filter"
	}
	return ""
}

func (f responsesFormat) object(a *answer) any {
	out := object{"id": a.id(), "object": "response", "created_at": 0, "status": "completed", "model": a.model, "output": f.output(a)}
	if reason := a.incomplete(); reason != "" {
		out["status"], out["incomplete_details"] = "incomplete", object{"reason": reason}
	}
	if u := a.usage(); u != nil {
		usage := object{
			"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
			"input_tokens_details":  object{"cached_tokens": u.Cached},
			"output_tokens_details": object{"reasoning_tokens": u.Reasoning},
		}
		if u.Cost != "" {
			usage["cost"] = json.Number(u.Cost)
		}
		out["usage"] = usage
	}
	return out
}

func (responsesFormat) output(a *answer) []object {
	out := []object{}
	if a.Reasoning != "" {
		out = append(out, object{
			"type": "reasoning", "id": fmt.Sprintf("rs_%d", a.number), "encrypted_content": fmt.Sprintf("sealed-%d", a.number),
			"summary": []any{object{"type": "summary_text", "text": a.Reasoning}},
		})
	}
	if a.Text != "" {
		out = append(out, object{
			"type": "message", "id": fmt.Sprintf("msg_%d", a.number), "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": a.Text, "annotations": []any{}}},
		})
	}
	for i := range a.Calls {
		out = append(out, object{
			"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", a.number, i+1), "status": "completed",
			"call_id": a.callID(i), "name": a.Calls[i].Name, "arguments": a.Calls[i].text(),
		})
	}
	return out
}
