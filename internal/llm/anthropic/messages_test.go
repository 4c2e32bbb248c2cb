package anthropic_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/llm"
	"rally/internal/llm/anthropic"
	"rally/internal/session"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func event(kind, members string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + members + "}\n\n"
}

func start(index, block string) string {
	return event("content_block_start", `,"index":`+index+`,"content_block":`+block)
}

func delta(index, d string) string {
	return event("content_block_delta", `,"index":`+index+`,"delta":`+d)
}

func end(reason string) string {
	return event("message_delta", `,"delta":{"stop_reason":"`+reason+`"},"usage":{"output_tokens":7}`) + event("message_stop", "")
}

const opening = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":4,\"cache_creation_input_tokens\":2,\"output_tokens\":1}}}\n\n: ping\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n"

func request() *llm.Request {
	return &llm.Request{
		Model:    llm.Model{Provider: "test", ID: "m"},
		Messages: []llm.Message{{Role: llm.User, Content: []llm.Content{llm.Text{Text: "go"}}}},
	}
}

// exchange answers a request with body and returns what was asked.
func exchange(t *testing.T, req *llm.Request, body string) (events []llm.Event, asked []byte, header http.Header, err error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ = io.ReadAll(r.Body)
		header = r.Header.Clone()
		header.Set("Path", r.URL.Path)
		_, _ = io.WriteString(w, body)
	}))
	defer srv.Close()
	p := anthropic.New(anthropic.Options{
		Provider: "test", BaseURL: srv.URL, Key: "sk-ant", Client: &http.Client{}, Timeouts: llm.Timeouts{Idle: 5 * time.Second},
		Errors: llm.Classifier{Provider: "test"},
	})
	for e, streamErr := range p.Stream(t.Context(), req) {
		if streamErr != nil {
			return events, asked, header, streamErr
		}
		events = append(events, e)
	}
	return events, asked, header, nil
}

func call(index int, id, name, args string, executed bool) llm.Event {
	return llm.CallDelta{Index: &index, ID: id, Name: name, Args: args, Executed: executed}
}

func TestDialects(t *testing.T) {
	usage := llm.Usage{Tokens: session.Tokens{Input: 10, Output: 7, Cache: session.Cache{Read: 4, Write: 2}}}
	stop := llm.Finish{Reason: session.FinishStop, Raw: "end_turn"}
	result := `{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"url":"u"}]}`
	signed := func(s string) llm.Event {
		return llm.ReasoningDelta{Metadata: session.Metadata{"signature": json.RawMessage(`"` + s + `"`)}}
	}
	for _, tt := range []struct {
		name  string
		body  string
		want  []llm.Event
		class llm.Class
	}{
		{
			"text", opening + start("0", `{"type":"text","text":""}`) + delta("0", `{"type":"text_delta","text":"A"}`) + event("content_block_stop", `,"index":0`) + end("end_turn"),
			[]llm.Event{llm.TextDelta{Text: "A"}, usage, stop},
			"",
		},
		{
			"thinking with a signature in pieces", opening + start("0", `{"type":"thinking","thinking":"","signature":""}`) + delta("0", `{"type":"thinking_delta","thinking":"T"}`) +
				delta("0", `{"type":"signature_delta","signature":"a"}`) + delta("0", `{"type":"signature_delta","signature":"b"}`) + end("end_turn"),
			[]llm.Event{llm.ReasoningDelta{Text: "T"}, signed("a"), signed("ab"), usage, stop},
			"",
		},
		{
			"redacted thinking", opening + start("0", `{"type":"redacted_thinking","data":"x"}`) + end("end_turn"),
			[]llm.Event{llm.ReasoningDelta{Metadata: session.Metadata{"redacted": json.RawMessage(`"x"`)}}, usage, stop},
			"",
		},
		{
			"call", opening + start("1", `{"type":"tool_use","id":"c1","name":"read","input":{}}`) + delta("1", `{"type":"input_json_delta","partial_json":""}`) +
				delta("1", `{"type":"input_json_delta","partial_json":"{\"a\":1}"}`) + event("content_block_stop", `,"index":1`) + end("tool_use"),
			[]llm.Event{call(1, "c1", "read", "", false), call(1, "", "", `{"a":1}`, false), usage, llm.Finish{Reason: session.FinishToolCalls, Raw: "tool_use"}},
			"",
		},
		{
			"call with its input at once", opening + start("0", `{"type":"tool_use","id":"c1","name":"read","input":{"a":1}}`) + event("content_block_stop", `,"index":0`) + end("tool_use"),
			[]llm.Event{call(0, "c1", "read", "", false), call(0, "", "", `{"a":1}`, false), usage, llm.Finish{Reason: session.FinishToolCalls, Raw: "tool_use"}},
			"",
		},
		{
			"server tool", opening + start("0", `{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`) + delta("0", `{"type":"input_json_delta","partial_json":"{}"}`) +
				event("content_block_stop", `,"index":0`) + start("1", result) + end("pause_turn"),
			[]llm.Event{
				call(0, "s1", "web_search", "", true), call(0, "", "", "{}", false),
				llm.CallDelta{ID: "s1", Executed: true, Result: json.RawMessage(result)},
				usage,
				llm.Finish{Reason: session.FinishStop, Raw: "pause_turn", Continue: true},
			},
			"",
		},
		{"length", opening + end("max_tokens"), []llm.Event{usage, llm.Finish{Reason: session.FinishLength, Raw: "max_tokens"}}, ""},
		{"refusal", opening + end("refusal"), []llm.Event{usage, llm.Finish{Reason: session.FinishContentFilter, Raw: "refusal"}}, ""},
		{"new reason", opening + end("bored"), []llm.Event{usage, llm.Finish{Reason: session.FinishUnknown, Raw: "bored"}}, ""},
		{"unknown events and blocks", opening + event("new_event", `,"x":1`) + start("0", `{"type":"new_block"}`) + delta("0", `{"type":"new_delta"}`) + end("end_turn"), []llm.Event{usage, stop}, ""},
		{"cut", opening + start("0", `{"type":"text","text":"A"}`), []llm.Event{llm.TextDelta{Text: "A"}}, llm.Incomplete},
		{"overloaded", opening + event("error", `,"error":{"type":"overloaded_error","message":"Overloaded"}`), nil, llm.Server},
		{"too long", event("error", `,"error":{"type":"invalid_request_error","message":"prompt is too long: 5 tokens > 4 maximum"}`), nil, llm.Overflow},
		{"error object alone", `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, nil, llm.Auth},
		{
			"whole", `{"type":"message","content":[{"type":"text","text":"A"},{"type":"tool_use","id":"c1","name":"read","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`,
			[]llm.Event{
				llm.TextDelta{Text: "A"},
				call(1, "c1", "read", "", false), call(1, "", "", `{"a":1}`, false),
				llm.Usage{Tokens: session.Tokens{Input: 1, Output: 2}},
				llm.Finish{Reason: session.FinishToolCalls, Raw: "tool_use"},
			},
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, _, err := exchange(t, request(), tt.body)
			if d := cmp.Diff(append([]llm.Event{llm.Connected{}}, tt.want...), got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			if class := llm.ClassOf(err); class != tt.class {
				t.Errorf("class %q, want %q: %v", class, tt.class, err)
			}
		})
	}
}

func TestGoldenRequest(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-from-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://192.0.2.1")
	temperature := 0.5
	meta := func(key, value string) session.Metadata {
		return session.Metadata{key: json.RawMessage(`"` + value + `"`)}
	}
	req := &llm.Request{
		Model:  llm.Model{Provider: "test", ID: "m", Input: []string{"image", "pdf"}, Output: 999},
		System: "be brief",
		Messages: []llm.Message{
			{Role: llm.User, Content: []llm.Content{llm.Text{Text: "look"}, llm.Media{Mime: "image/png", Data: "aGk="}, llm.Media{Mime: "application/pdf", Filename: "a.pdf", Data: "aGk="}}},
			{Role: llm.Assistant, Content: []llm.Content{
				llm.Thought{Text: "hm", Metadata: meta("signature", "sig")},
				llm.Thought{Metadata: meta("redacted", "blob")},
				llm.Thought{Text: "unsigned"},
				llm.Text{Text: "I look."},
				llm.Call{ID: "s1", Name: "web_search", Args: json.RawMessage(`{"query":"go"}`), Executed: true, Result: json.RawMessage(`{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}`)},
				llm.Call{ID: "c1", Name: "read", Args: json.RawMessage(`{"b":1,"a":2}`)},
			}},
			{Role: llm.ToolRole, Content: []llm.Content{llm.Result{CallID: "c1", Name: "read", Text: "seen", Failed: true, Media: []llm.Media{{Mime: "image/png", Data: "aGk="}, {Mime: "audio/wav", Filename: "a.wav"}}}}},
			{Role: llm.Assistant, Content: []llm.Content{llm.Text{Text: "done"}, llm.Thought{Text: "last", Metadata: meta("signature", "sig2")}}},
			{Role: llm.Assistant, Content: []llm.Content{llm.Thought{Text: "alone", Metadata: meta("signature", "sig3")}}},
			{Role: llm.User, Content: []llm.Content{llm.Text{Text: "more"}, llm.Text{Text: " "}}},
		},
		Tools:       []llm.Tool{{Name: "read", Description: "Reads", Schema: json.RawMessage(`{"type":"object","properties":{"b":{},"a":{}}}`)}, {Name: "x.y"}},
		ToolChoice:  "required",
		Temperature: &temperature,
		Options:     session.Metadata{"metadata": json.RawMessage(`{"user_id":"u"}`)},
	}
	_, body, header, err := exchange(t, req, opening+end("end_turn"))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{header.Get("Path"), header.Get("X-Api-Key"), header.Get("Anthropic-Version"), header.Get("Authorization")}
	if d := cmp.Diff([]string{"/v1/messages", "sk-ant", "2023-06-01", ""}, got); d != "" {
		t.Errorf("headers: %s", d)
	}
	for range 20 {
		if _, again, _, _ := exchange(t, req, opening+end("end_turn")); !bytes.Equal(body, again) {
			t.Fatalf("Invariant 6: the same request gave other bytes:\n%s\n%s", body, again)
		}
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "messages.json")
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
}
