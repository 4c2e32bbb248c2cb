package openai_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/llm"
	"rally/internal/llm/openai"
	"rally/internal/llm/scripted"
	"rally/internal/session"
)

func chat(url string) *openai.Chat {
	return openai.NewChat(openai.Options{
		Provider: "test", BaseURL: url, Key: "sk-test", Client: &http.Client{},
		Timeouts: llm.Timeouts{FirstByte: 5 * time.Second, Idle: 5 * time.Second},
		Errors:   llm.Classifier{Provider: "test", Secrets: []string{"sk-test"}},
	})
}

func collect(ctx context.Context, p llm.Provider, req *llm.Request) (events []llm.Event, err error) {
	for e, streamErr := range p.Stream(ctx, req) {
		if streamErr != nil {
			return events, streamErr
		}
		events = append(events, e)
	}
	return events, nil
}

func request(text string) *llm.Request {
	return &llm.Request{
		Model:    llm.Model{Provider: "test", ID: "m"},
		Messages: []llm.Message{{Role: llm.User, Content: []llm.Content{llm.Text{Text: text}}}},
	}
}

// wire serves body as a whole answer with this content type.
func wire(t *testing.T, contentType, body string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestStreamOfScriptedServer(t *testing.T) {
	s, err := scripted.Parse("test", []byte(`
replies:
  - reasoning: why
    text: héllo
    chunk: 3
    calls: [{name: read, args: {filePath: a, offset: 2}}]
    usage: {input: 10, output: 5, cached: 4, reasoning: 2, cost: "0.001"}
`))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := s.Serve(t.Context(), scripted.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close() //nolint:errcheck // the test is over
	got, err := collect(t.Context(), chat(srv.URL), request("go"))
	if err != nil {
		t.Fatal(err)
	}
	cost := session.Money(1e9)
	want := []llm.Event{
		llm.Connected{},
		thought(0, "reasoning_content", "why"), say("hél"), say("lo"),
		call(0, "call_1_1", "read", ""), call(0, "", "", `{"f`), call(0, "", "", "ile"), call(0, "", "", "Pat"), call(0, "", "", `h":`),
		call(0, "", "", `"a"`), call(0, "", "", `,"o`), call(0, "", "", "ffs"), call(0, "", "", `et"`), call(0, "", "", `:2}`),
		llm.Usage{Tokens: session.Tokens{Total: 15, Input: 6, Output: 3, Reasoning: 2, Cache: session.Cache{Read: 4}}, Cost: &cost},
		llm.Finish{Reason: session.FinishToolCalls, Raw: "tool_calls"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func say(s string) llm.Event { return llm.TextDelta{Text: s} }

func thought(block int, field, text string) llm.Event {
	e := llm.ReasoningDelta{Block: block, Text: text}
	if field != "" {
		e.Metadata = session.Metadata{"field": json.RawMessage(`"` + field + `"`)}
	}
	return e
}

func call(index int, id, name, args string) llm.Event {
	e := llm.CallDelta{ID: id, Name: name, Args: args}
	if index >= 0 {
		e.Index = &index
	}
	return e
}
