//go:build soak

package loop

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rally/internal/session"
)

// Invariants 4, 7 and 8 under 200 kills at random moments of turns of 100
// steps: each still reaches its answer, and no request was one that a strict
// provider refuses.
func TestSoakKills(t *testing.T) {
	const steps, kills = 100, 200
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it was killed while it sent
		}
		if err := valid(body); err != nil {
			t.Error(err)
		}
		n := requests.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, soakReply(strings.Count(string(body), `done-step\n`), steps, n))
	}))
	defer server.Close()
	w := newWorld(t, "default: {text: unused}")
	w.server.URL = server.URL
	killed := 0
	for turn := 0; killed < kills; turn++ {
		id := fmt.Sprintf("ses_%d", turn)
		killed += w.soak(id, kills-killed)
		assertSettled(t, w.store, id)
		t.Logf("turn %d answered: %d kills, %d requests so far", turn, killed, requests.Load())
	}
}

// soak brings a turn to its answer and kills its owner up to most times on the
// way; it returns how often.
func (w *world) soak(id string, most int) int {
	for killed := 0; ; {
		verb := order{Verb: "continue", Session: id}
		if _, err := w.store.Session(w.t.Context(), id); err != nil {
			verb = order{Verb: "prompt", New: true, Session: id, Text: "go"}
		}
		p := w.start(verb)
		ended := make(chan struct{})
		go func() {
			_ = p.cmd.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(time.Duration(20+rand.IntN(300)) * time.Millisecond):
			if killed < most {
				killed++
				_ = p.cmd.Process.Kill()
			}
			<-ended
		}
		if r := p.result0(); r.Reason == session.ReasonCompleted {
			if r.Text != "all done" {
				w.t.Errorf("the answer is %q", r.Text)
			}
			return killed
		}
	}
}

// soakReply is a step whose call no other one equals, or the answer.
func soakReply(done, steps int, n int64) string {
	delta := map[string]any{"content": "all done"}
	finish := "stop"
	if done < steps {
		args, _ := json.Marshal(map[string]string{"command": fmt.Sprintf("sleep 0.05; echo done-step; : %d", n)})
		delta = map[string]any{"content": "step", "tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprintf("c%d", n), "type": "function", "function": map[string]string{"name": "bash", "arguments": string(args)},
		}}}
		finish = "tool_calls"
	}
	var b strings.Builder
	for _, choice := range []map[string]any{{"index": 0, "delta": delta}, {"index": 0, "delta": map[string]any{}, "finish_reason": finish}} {
		line, _ := json.Marshal(map[string]any{"id": "x", "object": "chat.completion.chunk", "choices": []any{choice}})
		fmt.Fprintf(&b, "data: %s\n\n", line)
	}
	return b.String() + "data: [DONE]\n\n"
}
