package loop

import (
	"encoding/json"
	"fmt"
	"strings"
)

// validRequests checks what strict providers refuse (invariant 7).
func (w *world) validRequests() {
	w.t.Helper()
	for n, received := range w.server.Requests() {
		if err := valid(received.Body); err != nil {
			w.t.Errorf("request %d: %v", n+1, err)
		}
	}
}

func valid(body []byte) error {
	var request struct {
		Messages []struct {
			Role      string `json:"role"`
			Content   any    `json:"content"`
			ID        string `json:"tool_call_id"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct{ Arguments string }
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return err
	}
	var open []string
	for i, m := range request.Messages {
		if m.Role == "tool" {
			if len(open) == 0 || open[0] != m.ID {
				return fmt.Errorf("message %d answers %q, open are %q", i, m.ID, open)
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("calls %q have no result before message %d", open, i)
		}
		if (m.Content == nil || m.Content == "") && len(m.ToolCalls) == 0 {
			return fmt.Errorf("message %d (%s) is empty", i, m.Role)
		}
		for _, c := range m.ToolCalls {
			open = append(open, c.ID)
			if !strings.HasPrefix(c.Function.Arguments, "{") {
				return fmt.Errorf("arguments %q are no object", c.Function.Arguments)
			}
		}
	}
	if last := request.Messages[len(request.Messages)-1].Role; len(open) > 0 || last == "assistant" {
		return fmt.Errorf("it ends with %s, open calls %q", last, open)
	}
	return nil
}
