package openai_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/llm"
	"rally/internal/session"
)

// data is an event with a chunk whose only choice has this delta.
func data(delta string) string {
	return `data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n"
}

func end(reason string) string {
	return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
}

const done = "data: [DONE]\n\n"

func finish(r session.Finish, raw string) llm.Event { return llm.Finish{Reason: r, Raw: raw} }

// TestDialects is the table of what servers in the field send: bytes in,
// events out. Connected, which comes first each time, is left out.
func TestDialects(t *testing.T) {
	stop := finish(session.FinishStop, "stop")
	usage := func(tokens session.Tokens) llm.Event { return llm.Usage{Tokens: tokens} }
	for _, tt := range []struct {
		name  string
		body  string
		think bool
		ctype string
		want  []llm.Event
		class llm.Class // of the error after the events
	}{
		{name: "plain", body: data(`{"content":"A"}`) + end("stop") + done, want: []llm.Event{say("A"), stop}},
		{name: "comments", body: ": OPENROUTER PROCESSING\n\n: keepalive\n" + data(`{"content":"A"}`) + end("stop") + done, want: []llm.Event{say("A"), stop}},
		{name: "CRLF and no space", body: strings.NewReplacer("\n", "\r\n", "data: ", "data:").Replace(data(`{"content":"A"}`) + end("stop") + done), want: []llm.Event{say("A"), stop}},
		{name: "CR only", body: strings.ReplaceAll(data(`{"content":"A"}`)+end("stop")+done, "\n", "\r"), want: []llm.Event{say("A"), stop}},
		{name: "byte order mark", body: "\xef\xbb\xbf" + data(`{"content":"A"}`) + end("stop") + done, want: []llm.Event{say("A"), stop}},
		{name: "no blank line at the end", body: data(`{"content":"A"}`) + strings.TrimSuffix(end("stop"), "\n\n"), want: []llm.Event{say("A"), stop}},
		{name: "several data lines", body: "data: {\"choices\":[\ndata: {\"delta\":{\"content\":\"A\"}}]}\n\n" + end("stop"), want: []llm.Event{say("A"), stop}},
		{name: "event and id fields", body: "id: 7\nevent: chunk\nretry: 10\n" + data(`{"content":"A"}`) + end("stop"), want: []llm.Event{say("A"), stop}},
		{name: "text/plain", ctype: "text/plain", body: data(`{"content":"A"}`) + end("stop") + done, want: []llm.Event{say("A"), stop}},
		{name: "application/json with a stream", ctype: "application/json", body: data(`{"content":"A"}`) + end("stop") + done, want: []llm.Event{say("A"), stop}},
		{name: "no stream at all", ctype: "application/json", body: `{"choices":[{"index":0,"message":{"role":"assistant","content":"A"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`, want: []llm.Event{say("A"), usage(session.Tokens{Total: 4, Input: 3, Output: 1}), stop}},
		{name: "whole message in a stream", body: `data: {"choices":[{"message":{"content":"A"},"finish_reason":"stop"}]}` + "\n\n", want: []llm.Event{say("A"), stop}},
		{name: "empty choices first", body: `data: {"choices":[],"prompt_filter_results":[{}]}` + "\n\n" + data(`{"content":"A"}`) + end("stop"), want: []llm.Event{say("A"), stop}},
		{name: "choice without delta", body: data(`{"content":"A"}`) + `data: {"choices":[{"index":0,"finish_reason":"stop"}]}` + "\n\n" + done, want: []llm.Event{say("A"), stop}},
		{name: "delta null", body: data(`null`) + data(`{"content":null}`) + data(`{"content":"A"}`) + end("stop"), want: []llm.Event{say("A"), stop}},
		{name: "second choice is left out", body: `data: {"choices":[{"index":1,"delta":{"content":"B"}},{"index":0,"delta":{"content":"A"}}]}` + "\n\n" + end("stop"), want: []llm.Event{say("A"), stop}},
		{name: "error null", body: `data: {"error":null,"choices":[{"delta":{"content":"A"},"finish_reason":"stop"}]}` + "\n\n" + done, want: []llm.Event{say("A"), stop}},
		{name: "numbers where texts belong", body: `data: {"object":5,"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":null}],"usage":7}` + "\n\n" + end("stop"), want: []llm.Event{say("A"), stop}},
		{name: "list of parts", body: data(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"T"}]},{"type":"text","text":"A"}]}`) + end("stop"), want: []llm.Event{thought(0, "content", "T"), say("A"), stop}},
		{name: "refusal", body: data(`{"refusal":"no"}`) + end("stop"), want: []llm.Event{say("no"), stop}},

		{name: "finish unknown", body: data(`{"content":"A"}`) + end("weird") + done, want: []llm.Event{say("A"), finish(session.FinishUnknown, "weird")}},
		{name: "finish empty", body: data(`{"content":"A"}`) + end("") + done, want: []llm.Event{say("A"), finish(session.FinishUnknown, "")}},
		{name: "finish missing, DONE", body: data(`{"content":"A"}`) + done, want: []llm.Event{say("A"), finish(session.FinishUnknown, "")}},
		{name: "finish missing, end", body: data(`{"content":"A"}`), want: []llm.Event{say("A")}, class: llm.Incomplete},
		{name: "nothing at all", body: "", class: llm.Incomplete},
		{name: "cut in a chunk", body: data(`{"content":"A"}`) + `data: {"choices":[{"del`, want: []llm.Event{say("A")}, class: llm.Incomplete},
		{name: "length", body: data(`{"content":"A"}`) + end("length"), want: []llm.Event{say("A"), finish(session.FinishLength, "length")}},
		{name: "filter", body: end("content_filter"), want: []llm.Event{finish(session.FinishContentFilter, "content_filter")}},
		{name: "finish error", body: end("error"), want: []llm.Event{finish(session.FinishError, "error")}},
		{name: "Gemini's finish", body: end("MALFORMED_FUNCTION_CALL"), want: []llm.Event{finish(session.FinishError, "MALFORMED_FUNCTION_CALL")}},

		{name: "error in a chunk", body: `data: {"error":{"code":502,"message":"upstream busy"},"choices":[]}` + "\n\n", class: llm.Server},
		{name: "error as a string", body: `data: {"error":"model crashed"}` + "\n\n", class: llm.Server},
		{name: "error event", body: "event: error\ndata: {\"message\":\"boom\"}\n\n", class: llm.Server},
		{name: "error object of old vLLM", body: `data: {"object":"error","message":"maximum context length is 10 tokens","code":400}` + "\n\n", class: llm.Overflow},
		{name: "error body with 200", ctype: "application/json", body: `{"error":{"message":"no such key","type":"authentication_error","code":401}}`, class: llm.Auth},
		{name: "error after text", body: data(`{"content":"A"}`) + `data: {"error":{"type":"overloaded_error","message":"busy"}}` + "\n\n", want: []llm.Event{say("A")}, class: llm.Server},
		{name: "bare error line", body: ": ping\n\n{\"error\":{\"code\":429,\"message\":\"slow\"}}\n", class: llm.RateLimit},
		{name: "error in a choice", body: `data: {"choices":[{"error":{"code":429,"message":"slow"},"delta":{}}]}` + "\n\n", class: llm.RateLimit},
		{name: "web page", ctype: "text/html", body: "<html><head><title>Login</title></head><body>Please log in</body></html>", class: llm.BadRequest},

		{
			name: "calls without an index", body: data(`{"tool_calls":[{"id":"a","function":{"name":"read","arguments":"{}"}},{"id":"b","function":{"name":"glob","arguments":"{}"}}]}`) + end("tool_calls"),
			want: []llm.Event{call(-1, "a", "read", "{}"), call(-1, "b", "glob", "{}"), finish(session.FinishToolCalls, "tool_calls")},
		},
		{name: "arguments as an object", body: data(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":{"p":1}}}]}`) + end("stop"), want: []llm.Event{call(0, "a", "read", `{"p":1}`), stop}},
		{name: "arguments null", body: data(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":null}}]}`) + end("stop"), want: []llm.Event{call(0, "a", "read", ""), stop}},
		{name: "old function call", body: data(`{"function_call":{"name":"read","arguments":"{}"}}`) + end("function_call"), want: []llm.Event{call(0, "", "read", "{}"), finish(session.FinishToolCalls, "function_call")}},
		{
			name: "opaque members of a call", body: data(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]}`) + end("stop"),
			want: []llm.Event{withExtra(call(0, "a", "read", "{}"), "extra_content", `{"google":{"thought_signature":"s"}}`), stop},
		},

		{name: "reasoning_content", body: data(`{"reasoning_content":"T"}`) + data(`{"reasoning_content":"U"}`) + data(`{"content":"A"}`) + end("stop"), want: []llm.Event{thought(0, "reasoning_content", "T"), thought(0, "", "U"), say("A"), stop}},
		{name: "reasoning twice the same", body: data(`{"reasoning":"T","reasoning_content":"T"}`) + data(`{"content":"A"}`) + end("stop"), want: []llm.Event{thought(0, "reasoning_content", "T"), say("A"), stop}},
		{name: "reasoning after text is a new block", body: data(`{"reasoning":"T"}`) + data(`{"content":"A"}`) + data(`{"reasoning":"U"}`) + end("stop"), want: []llm.Event{thought(0, "reasoning", "T"), say("A"), thought(1, "reasoning", "U"), stop}},
		{
			name: "reasoning_details", body: data(`{"reasoning":"T","reasoning_details":[{"type":"reasoning.text","index":0,"text":"T"}]}`) +
				data(`{"reasoning":"U","reasoning_details":[{"type":"reasoning.text","index":0,"text":"U"}]}`) +
				data(`{"reasoning_details":[{"type":"reasoning.text","index":0,"signature":"s"}]}`) + data(`{"content":"A"}`) + end("stop"),
			want: []llm.Event{thought(0, "reasoning", "T"), thought(0, "", "U"), say("A"), llm.ReasoningDelta{Metadata: session.Metadata{
				"field": json.RawMessage(`"reasoning_details"`), "reasoning_details": json.RawMessage(`[{"index":0,"signature":"s","text":"TU","type":"reasoning.text"}]`),
			}}, stop},
		},
		{name: "think block", think: true, body: data(`{"content":"<thi"}`) + data(`{"content":"nk>a<b</th"}`) + data(`{"content":"ink>\n\nA <think>"}`) + end("stop"), want: []llm.Event{thought(0, "think", "a<b"), say("A <think>"), stop}},
		{name: "think block that stays open", think: true, body: data(`{"content":"\n<think>a</thi"}`) + end("stop"), want: []llm.Event{thought(0, "think", "a"), thought(0, "", "</thi"), stop}},
		{name: "text that begins like a tag", think: true, body: data(`{"content":"<th"}`) + data(`{"content":"ree>"}`) + end("stop"), want: []llm.Event{say("<three>"), stop}},
		{name: "text that is half a tag", think: true, body: data(`{"content":"<thi"}`) + end("stop"), want: []llm.Event{say("<thi"), stop}},
		{name: "tags are text where not wanted", body: data(`{"content":"<think>a</think>b"}`) + end("stop"), want: []llm.Event{say("<think>a</think>b"), stop}},

		{
			name: "usage in a chunk of its own", body: end("stop") + `data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":1,"total_tokens":101,"prompt_tokens_details":{"cached_tokens":60}}}` + "\n\n" + done,
			want: []llm.Event{usage(session.Tokens{Total: 101, Input: 40, Output: 1, Cache: session.Cache{Read: 60}}), stop},
		},
		{
			name: "usage grows, the last counts", body: `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n" + `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\n\n" + end("stop"),
			want: []llm.Event{usage(session.Tokens{Input: 5, Output: 2}), stop},
		},
		{name: "usage of zeros is none", body: `data: {"choices":[{"delta":{"content":"A"}}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}` + "\n\n" + end("stop"), want: []llm.Event{say("A"), stop}},
		{
			name: "usage of DeepSeek", body: `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_cache_hit_tokens":8,"completion_tokens_details":{"reasoning_tokens":3}}}` + "\n\n" + end("stop"),
			want: []llm.Event{usage(session.Tokens{Input: 2, Output: 1, Reasoning: 3, Cache: session.Cache{Read: 8}}), stop},
		},
		{
			name: "reasoning beside the completion", body: `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":3}}}` + "\n\n" + end("stop"),
			want: []llm.Event{usage(session.Tokens{Total: 17, Input: 10, Output: 4, Reasoning: 3}), stop},
		},
		{name: "usage in a choice", body: `data: {"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":2,"completion_tokens":1}}]}` + "\n\n" + done, want: []llm.Event{usage(session.Tokens{Input: 2, Output: 1}), stop}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctype := tt.ctype
			if ctype == "" {
				ctype = "text/event-stream"
			}
			req := request("go")
			req.Model.Reasoning.ThinkTags = tt.think
			got, err := collect(t.Context(), chat(wire(t, ctype, tt.body)), req)
			want := append([]llm.Event{llm.Connected{}}, tt.want...)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
			if class := llm.ClassOf(err); class != tt.class {
				t.Errorf("class %q, want %q: %v", class, tt.class, err)
			}
			var e *llm.Error
			if errors.As(err, &e) && (e.Provider != "test" || e.Message == "") {
				t.Errorf("error without provider or message: %+v", e)
			}
		})
	}
}

func withExtra(e llm.Event, key, value string) llm.Event {
	c, _ := e.(llm.CallDelta)
	c.Extra = session.Metadata{key: json.RawMessage(value)}
	return c
}
