package loop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"rally/internal/llm"
	"rally/internal/session"
)

// narrow is a provider with a small window: it counts a token for every four
// bytes, refuses what does not fit, and asks for steps until there were enough.
type narrow struct {
	mu        sync.Mutex
	window    int
	steps     int // still wanted
	summaries int
	refused   int
	problems  []string
}

func (n *narrow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := valid(body); err != nil {
		n.problems = append(n.problems, err.Error())
	}
	tokens := len(body) / 4
	if tokens > n.window {
		n.refused++
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"This model's maximum context length is %d tokens","code":"context_length_exceeded"}}`, n.window)
		return
	}
	delta, finish := map[string]any{"content": "THE ANSWER"}, "stop"
	switch {
	case strings.Contains(string(body), "earlier-summary") || !strings.Contains(string(body), `"tools"`):
		n.summaries++
		delta["content"] = "## Goal\nsummed up"
	case n.steps > 0:
		n.steps--
		if !strings.Contains(string(body), "KEEP-7731") {
			n.problems = append(n.problems, "the task is gone")
		}
		args, _ := json.Marshal(map[string]string{"command": fmt.Sprintf("echo %d; head -c 900 /dev/zero | tr '\\0' x", n.steps)})
		delta = map[string]any{"tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprint("c", n.steps), "type": "function", "function": map[string]string{"name": "bash", "arguments": string(args)},
		}}}
		finish = "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, chunk := range []map[string]any{
		{"choices": []any{map[string]any{"index": 0, "delta": delta}}},
		{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish}}},
		{"choices": []any{}, "usage": map[string]int{"prompt_tokens": tokens, "completion_tokens": 50}},
	} {
		line, _ := json.Marshal(chunk)
		fmt.Fprintf(w, "data: %s\n\n", line)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// A turn of 300 steps in a window of 16k tokens ends with its answer, and
// summarises no more often than the window demands.
func TestALongTurnInASmallWindow(t *testing.T) {
	const window, steps = 16_000, 300
	n := &narrow{window: window, steps: steps}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	w := newWorld(t, "default: {text: unused}")
	w.engine = New(options(w.store, server.URL, w.emit))
	provider := w.engine.Model
	w.engine.Model = func(m session.Model) (llm.Provider, llm.Model, error) {
		p, model, err := provider(m)
		model.Context, model.Output = window, 2000
		return p, model, err
	}
	w.engine.Compaction = Compaction{Auto: true, Prune: true, Reserve: 2000, TailTurns: 2}
	r := w.prompt(Input{Text: "do it KEEP-7731"})
	if r.Reason != session.ReasonCompleted || r.Text != "THE ANSWER" || r.Steps != steps+1 {
		t.Errorf("ended %s after %d steps with %q: %+v", r.Reason, r.Steps, r.Text, r.Error)
	}
	// A step adds about 350 tokens; after a summary at least a third of the
	// window is free again.
	if most := steps * 350 / (window / 3); n.summaries == 0 || n.summaries > most {
		t.Errorf("%d summaries, expected 1 to %d", n.summaries, most)
	}
	t.Logf("%d summaries, %d refusals", n.summaries, n.refused)
	for _, p := range n.problems {
		t.Error(p)
	}
	assertSettled(t, w.store, r.SessionID)
}

func TestCompactOnlySummarisesAndEnds(t *testing.T) {
	w := newWorld(t, `
replies:
  - {when: {user: first}, text: one}
  - {when: {user: <conversation>}, text: SUMMED-UP}
  - {when: {user: next}, text: two}
`)
	w.engine.Compaction = Compaction{Auto: false, TailTurns: 0}
	r := w.prompt(Input{Text: "first"})
	if c := w.prompt(Input{SessionID: r.SessionID, CompactOnly: true}); c.Reason != session.ReasonCompleted {
		t.Fatalf("compaction ended %s: %+v", c.Reason, c.Error)
	}
	if again := w.prompt(Input{SessionID: r.SessionID, Text: "next"}); again.Text != "two" {
		t.Errorf("result %+v", again)
	}
	if sent := strings.Join(w.request(2), "\n"); !strings.Contains(sent, "SUMMED-UP") || strings.Contains(sent, "user: first") {
		t.Errorf("sent %s", sent)
	}
	w.validRequests()
}
