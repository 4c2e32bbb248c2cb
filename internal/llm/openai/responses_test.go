package openai_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/llm"
	"rally/internal/llm/openai"
	"rally/internal/session"
)

// event is an event of the responses API.
func event(kind, members string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"," + members + "}\n\n"
}

const completed = `"response":{"status":"completed","usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15,"input_tokens_details":{"cached_tokens":4},"output_tokens_details":{"reasoning_tokens":2}}}`

func TestResponsesDialects(t *testing.T) {
	usage := llm.Usage{Tokens: session.Tokens{Total: 15, Input: 6, Output: 3, Reasoning: 2, Cache: session.Cache{Read: 4}}}
	stop := finish(session.FinishStop, "completed")
	item := `{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":"{}","status":"completed","extra":1}`
	search := `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"go"}}`
	for _, tt := range []struct {
		name  string
		body  string
		want  []llm.Event
		class llm.Class
	}{
		{
			"text", event("response.created", `"response":{}`) + event("response.output_text.delta", `"output_index":0,"delta":"A"`) +
				event("response.output_item.done", `"output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"A"}]}`) + event("response.completed", completed),
			[]llm.Event{say("A"), usage, stop},
			"",
		},
		{
			"item without deltas", event("response.output_item.done", `"output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"A"}]}`) + event("response.completed", completed),
			[]llm.Event{say("A"), usage, stop},
			"",
		},
		{
			"call", event("response.output_item.added", `"output_index":1,"item":{"type":"function_call","call_id":"c1","name":"read"}`) +
				event("response.function_call_arguments.delta", `"output_index":1,"delta":"{}"`) + event("response.function_call_arguments.done", `"output_index":1,"arguments":"{}"`) +
				event("response.output_item.done", `"output_index":1,"item":`+item) + event("response.completed", completed),
			[]llm.Event{call(1, "c1", "read", ""), call(1, "", "", "{}"), withExtra(call(1, "c1", "read", ""), "extra", "1"), usage, finish(session.FinishToolCalls, "completed")},
			"",
		},
		{
			"call without deltas", event("response.output_item.done", `"output_index":0,"item":`+item) + event("response.completed", completed),
			[]llm.Event{withExtra(call(0, "c1", "read", "{}"), "extra", "1"), usage, finish(session.FinishToolCalls, "completed")},
			"",
		},
		{
			"reasoning", event("response.reasoning_summary_text.delta", `"output_index":0,"delta":"T"`) + event("response.reasoning_summary_part.added", `"output_index":0,"summary_index":1`) +
				event("response.reasoning_summary_text.delta", `"output_index":0,"summary_index":1,"delta":"U"`) +
				event("response.output_item.done", `"output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"text":"T"},{"text":"U"}],"encrypted_content":"x"}`) + event("response.completed", completed),
			[]llm.Event{
				thought(0, "", "T"), thought(0, "", "\n\n"), thought(0, "", "U"),
				llm.ReasoningDelta{Metadata: session.Metadata{"id": json.RawMessage(`"rs_1"`), "encrypted_content": json.RawMessage(`"x"`)}},
				usage, stop,
			},
			"",
		},
		{
			"call that the provider ran", event("response.output_item.done", `"output_index":0,"item":`+search) + event("response.completed", completed),
			[]llm.Event{executed(0, "ws_1", "web_search", `{"type":"search","query":"go"}`, search), usage, stop},
			"",
		},
		{
			"incomplete", event("response.output_text.delta", `"delta":"A"`) + event("response.incomplete", `"response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`),
			[]llm.Event{say("A"), finish(session.FinishLength, "max_output_tokens")},
			"",
		},
		{
			"filtered", event("response.incomplete", `"response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}`),
			[]llm.Event{finish(session.FinishContentFilter, "content_filter")},
			"",
		},
		{"failed", event("response.failed", `"response":{"status":"failed","error":{"code":"server_error","message":"boom"}}`), nil, llm.Server},
		{"failed for the rate", event("response.failed", `"response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}`), nil, llm.RateLimit},
		{"error event", event("error", `"code":"context_length_exceeded","message":"too long"`), nil, llm.Overflow},
		{"quota", event("error", `"error":{"type":"insufficient_quota","message":"no"}`), nil, llm.Quota},
		{"cut", event("response.output_text.delta", `"delta":"A"`), []llm.Event{say("A")}, llm.Incomplete},
		{"unknown events", event("response.something.new", `"x":1`) + event("response.completed", completed), []llm.Event{usage, stop}, ""},
		{
			"whole", `{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"A"}]},` + item + `]}`,
			[]llm.Event{say("A"), withExtra(call(1, "c1", "read", "{}"), "extra", "1"), finish(session.FinishToolCalls, "completed")},
			"",
		},
		{"whole error", `{"error":{"code":"invalid_api_key","message":"no"}}`, nil, llm.Auth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := openai.NewResponses(openai.Options{
				Provider: "test", BaseURL: wire(t, "", tt.body), Client: &http.Client{}, Timeouts: llm.Timeouts{Idle: 5 * time.Second},
			})
			got, err := collect(t.Context(), p, request("go"))
			if d := cmp.Diff(append([]llm.Event{llm.Connected{}}, tt.want...), got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			if class := llm.ClassOf(err); class != tt.class {
				t.Errorf("class %q, want %q: %v", class, tt.class, err)
			}
		})
	}
}

func executed(index int, id, name, args, result string) llm.Event {
	return llm.CallDelta{Index: &index, ID: id, Name: name, Args: args, Executed: true, Result: json.RawMessage(strings.TrimSpace(result))}
}
