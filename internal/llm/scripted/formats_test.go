package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/llm"
	"rally/internal/llm/anthropic"
	"rally/internal/llm/openai"
	"rally/internal/llm/scripted"
	"rally/internal/session"
)

// providers are the three adapters on one server.
func providers(url string) map[string]llm.Provider {
	timeouts := llm.Timeouts{FirstByte: 5 * time.Second, Idle: 5 * time.Second}
	o := openai.Options{Provider: "p", BaseURL: url, Key: "k", Client: &http.Client{}, Timeouts: timeouts, Errors: llm.Classifier{Provider: "p"}}
	return map[string]llm.Provider{
		"chat":      openai.NewChat(o),
		"responses": openai.NewResponses(o),
		"messages": anthropic.New(anthropic.Options{
			Provider: "p", BaseURL: url, Key: "k", Client: &http.Client{}, Timeouts: timeouts, Errors: llm.Classifier{Provider: "p"},
		}),
	}
}

// summary is what an answer amounts to, whatever the format.
type summary struct {
	Text, Thought string
	Calls         []string
	Tokens        session.Tokens
	Finish        session.Finish
}

func play(ctx context.Context, p llm.Provider, req *llm.Request) (summary, error) {
	var s summary
	var calls llm.Calls
	for e, err := range p.Stream(ctx, req) {
		if err != nil {
			return s, err
		}
		switch e := e.(type) {
		case llm.TextDelta:
			s.Text += e.Text
		case llm.ReasoningDelta:
			s.Thought += e.Text
		case llm.CallDelta:
			calls.Add(e)
		case llm.Usage:
			s.Tokens = e.Tokens
		case llm.Finish:
			s.Finish = e.Reason
		case llm.Connected:
		}
	}
	for _, c := range calls.Done() {
		s.Calls = append(s.Calls, c.ID+" "+c.Name+" "+c.Args())
	}
	s.Tokens.Total = 0 // not every format says it
	return s, nil
}

func ask(text string) *llm.Request {
	return &llm.Request{
		Model:    llm.Model{Provider: "p", ID: "m"},
		System:   "be brief",
		Messages: []llm.Message{{Role: llm.User, Content: []llm.Content{llm.Text{Text: text}}}},
		Tools:    []llm.Tool{{Name: "read", Description: "Reads", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}},
	}
}

const story = `
replies:
  - when: {user: go}
    reasoning: think first
    text: reading
    calls: [{name: read, args: {filePath: a b}}, {name: read, args: "{broken"}]
    chunk: 3
    usage: {input: 10, output: 4, cached: 6}
  - when: {tool: contents}
    text: done
    usage: {input: 20, output: 1}
  - text: cut here
    cut: 3
    chunk: 2
  - error: {status: 429, type: rate_limit_error, message: slow down, headers: {Retry-After: "3"}}
  - text: too long
    finish: length
default: {text: never}
`

func TestSameStoryInEachFormat(t *testing.T) {
	s, err := scripted.Parse("story", []byte(story))
	if err != nil {
		t.Fatal(err)
	}
	for format := range providers("") {
		t.Run(format, func(t *testing.T) {
			srv, err := s.Serve(t.Context(), scripted.ServeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close() //nolint:errcheck // the test is over
			p := providers(srv.URL)[format]

			req := ask("go")
			got, err := play(t.Context(), p, req)
			want := summary{
				Text: "reading", Thought: "think first", Finish: session.FinishToolCalls,
				Calls:  []string{`call_1_1 read {"filePath":"a b"}`, "call_1_2 read {broken"},
				Tokens: session.Tokens{Input: 4, Output: 4, Cache: session.Cache{Read: 6}},
			}
			if d := cmp.Diff(want, got); d != "" || err != nil {
				t.Fatalf("first answer: %v\n%s", err, d)
			}

			req.Messages = append(req.Messages,
				llm.Message{Role: llm.Assistant, Content: []llm.Content{
					llm.Text{Text: "reading"}, llm.Call{ID: "call_1_1", Name: "read", Args: json.RawMessage(`{"filePath":"a b"}`)},
				}},
				llm.Message{Role: llm.ToolRole, Content: []llm.Content{llm.Result{CallID: "call_1_1", Name: "read", Text: "the contents"}}},
			)
			got, err = play(t.Context(), p, req)
			want = summary{Text: "done", Finish: session.FinishStop, Tokens: session.Tokens{Input: 20, Output: 1}}
			if d := cmp.Diff(want, got); d != "" || err != nil {
				t.Fatalf("second answer: %v\n%s", err, d)
			}

			if _, err = play(t.Context(), p, ask("x")); llm.ClassOf(err) != llm.Incomplete {
				t.Errorf("cut stream: %v", err)
			}
			var e *llm.Error
			if _, err = play(t.Context(), p, ask("x")); !errors.As(err, &e) || e.Class != llm.RateLimit || e.RetryAfter == nil || *e.RetryAfter != 3*time.Second {
				t.Errorf("429: %+v", e)
			}
			if got, err = play(t.Context(), p, ask("x")); err != nil || got.Finish != session.FinishLength {
				t.Errorf("length: %+v, %v", got, err)
			}
			if got, err = play(t.Context(), p, ask("x")); err != nil || got.Text != "never" {
				t.Errorf("default: %+v, %v", got, err)
			}
			if n := len(srv.Requests()); n != 6 {
				t.Errorf("%d requests: an adapter retries by itself", n)
			}
		})
	}
}
