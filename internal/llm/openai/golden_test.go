package openai_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/llm"
	"rally/internal/llm/openai"
	"rally/internal/llm/scripted"
	"rally/internal/session"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// full is a request with everything a request can hold.
func full() *llm.Request {
	temperature := 0.2
	return &llm.Request{
		Model:  llm.Model{Provider: "test", ID: "m", Input: []string{"image"}, Reasoning: llm.ReasoningMode{Replay: true}},
		System: "You are <careful> & brief.",
		Messages: []llm.Message{
			{Role: llm.User, Content: []llm.Content{llm.Text{Text: "look"}, llm.Text{Text: "closely"}}},
			{Role: llm.User, Content: []llm.Content{
				llm.Text{Text: "at this"}, llm.Media{Mime: "image/png", Data: "aGk="}, llm.Media{Mime: "application/pdf", Filename: "a.pdf", Data: "aGk="},
			}},
			{Role: llm.Assistant, Content: []llm.Content{
				llm.Thought{Text: "hm", Metadata: session.Metadata{"field": json.RawMessage(`"reasoning"`), "id": json.RawMessage(`"rs_1"`), "encrypted_content": json.RawMessage(`"sealed"`)}},
				llm.Text{Text: "I look."},
				llm.Call{ID: "c1", Name: "mcp.server/tool", Args: json.RawMessage(`{"b":1,"a":2}`), Extra: session.Metadata{
					"extra_content": json.RawMessage(`{"google":{"thought_signature":"s"}}`), "z": json.RawMessage(`1`), "a": json.RawMessage(`2`),
				}},
				llm.Call{ID: "c2", Name: "", Args: json.RawMessage(`[]`)},
				llm.Call{ID: "ws_1", Name: "web_search", Executed: true, Args: json.RawMessage(`{}`), Result: json.RawMessage(`{"type":"web_search_call","id":"ws_1","status":"completed"}`)},
			}},
			{Role: llm.ToolRole, Content: []llm.Content{
				llm.Result{CallID: "c1", Name: "mcp.server/tool", Text: "seen", Media: []llm.Media{{Mime: "image/png", Data: "aGk="}, {Mime: "audio/wav", Data: "aGk="}}},
				llm.Result{CallID: "c2", Text: "no such tool", Failed: true},
			}},
			{Role: llm.Assistant, Content: []llm.Content{llm.Thought{Text: "only thinking"}}},
			{Role: llm.Assistant, Content: []llm.Content{llm.Call{ID: "c3", Name: "read", Args: json.RawMessage(`null`)}}},
			{Role: llm.ToolRole, Content: []llm.Content{llm.Result{CallID: "c3", Name: "read", Text: "ok"}}},
		},
		Tools: []llm.Tool{
			{Name: "mcp.server/tool", Description: "Looks", Schema: json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"number"}},"required":["b"]}`)},
			{Name: "read", Schema: json.RawMessage(`{"type":"object"}`)},
		},
		ToolChoice:  "required",
		MaxOutput:   100,
		Temperature: &temperature,
		Options:     session.Metadata{"reasoning_effort": json.RawMessage(`"high"`)},
		CacheKey:    "ses_1",
	}
}

// sent is the body of the request an adapter sends.
func sent(t *testing.T, req *llm.Request, adapter func(openai.Options) llm.Provider, official bool) []byte {
	t.Helper()
	s, err := scripted.Parse("any", []byte("default: {text: ok}"))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := s.Serve(t.Context(), scripted.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close() //nolint:errcheck // the test is over
	p := adapter(openai.Options{
		Provider: "test", BaseURL: srv.URL, Client: &http.Client{}, Official: official, Timeouts: llm.Timeouts{FirstByte: 5 * time.Second},
	})
	if _, err := collect(t.Context(), p, req); err != nil {
		t.Fatal(err)
	}
	return srv.Requests()[0].Body
}

func newChat(o openai.Options) llm.Provider      { return openai.NewChat(o) }
func newResponses(o openai.Options) llm.Provider { return openai.NewResponses(o) }

func TestGoldenRequests(t *testing.T) {
	for _, tt := range []struct {
		name     string
		adapter  func(openai.Options) llm.Provider
		official bool
	}{{"chat", newChat, false}, {"chat_official", newChat, true}, {"responses", newResponses, true}} {
		t.Run(tt.name, func(t *testing.T) {
			body := sent(t, full(), tt.adapter, tt.official)
			for range 20 { // members from maps would come in another order now and then
				if again := sent(t, full(), tt.adapter, tt.official); !bytes.Equal(body, again) {
					t.Fatal("Invariant 6: the same request gave other bytes")
				}
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, body, "", "  "); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", tt.name+".json")
			if *update {
				if err := os.WriteFile(golden, pretty.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), pretty.String()); d != "" {
				t.Errorf("request (-golden +sent), -update rewrites it:\n%s", d)
			}
		})
	}
}

// Invariant 6: a request with more messages begins with the same messages.
func TestRequestOnlyGrows(t *testing.T) {
	for name, adapter := range map[string]func(openai.Options) llm.Provider{"chat": newChat, "responses": newResponses} {
		list := func(req *llm.Request) []json.RawMessage {
			var body struct{ Messages, Input []json.RawMessage }
			if err := json.Unmarshal(sent(t, req, adapter, false), &body); err != nil {
				t.Fatal(err)
			}
			return append(body.Messages, body.Input...)
		}
		whole := full()
		all := list(whole)
		part := full()
		part.Messages = part.Messages[:4]
		some := list(part)
		if len(some) >= len(all) {
			t.Fatalf("%s: %d of %d messages", name, len(some), len(all))
		}
		for i := range some {
			if !bytes.Equal(some[i], all[i]) {
				t.Errorf("%s: message %d changed:\n%s\n%s", name, i, some[i], all[i])
			}
		}
	}
}
