package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"rally/internal/llm"
	"rally/internal/llm/openai"
	"rally/internal/session"
)

// A variant's options win over the request's own figures, and no member
// stands twice.
func TestOptionsWin(t *testing.T) {
	half := 0.5
	req := request("go")
	req.Temperature, req.MaxOutput = &half, 7
	req.Options = session.Metadata{"temperature": json.RawMessage(`1`), "max_tokens": json.RawMessage(`9`), "max_output_tokens": json.RawMessage(`9`), "model": json.RawMessage(`"other"`)}
	for name, adapter := range map[string]func(openai.Options) llm.Provider{"chat": newChat, "responses": newResponses} {
		body := string(sent(t, req, adapter, false))
		for _, member := range []string{`"temperature":1`, `"model":"other"`} {
			key, _, _ := strings.Cut(member, ":")
			if strings.Count(body, key) != 1 || !strings.Contains(body, member) {
				t.Errorf("%s: %s in %s", name, member, body)
			}
		}
	}
}
