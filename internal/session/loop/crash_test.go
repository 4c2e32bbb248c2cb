//go:build crashtest

package loop

import (
	"fmt"
	"strings"
	"testing"

	"rally/internal/session"
)

// crashScript is a turn with text, a failed attempt, two parallel calls and a
// second step. It tells requests apart by what they hold, so any process may
// make any of them.
const crashScript = `
replies:
  - {when: {user: first}, text: one}
  - {when: {user: too long}, error: {status: 400, code: context_length_exceeded, message: too long}}
  - {when: {user: <conversation>}, text: summed up, repeat: true}
  - {when: {user: too long}, text: the answer, repeat: true}
  - {when: {user: Continue if}, text: the answer, repeat: true}
  - {error: {status: 503, message: busy, headers: {retry-after-ms: "5"}}}
  - {when: {tool: out-b}, text: the answer, repeat: true}
  - {when: {tool: aborted}, text: the answer, repeat: true}
default:
  repeat: true
  text: looking
  calls:
    - {name: bash, args: {command: "echo out-a"}}
    - {name: bash, args: {command: "echo out-b"}}
`

// Invariants 4 and 8: a process that dies at any write of a turn leaves a
// session that the next one loads, repairs and brings to its answer.
func TestCrashAtEveryWrite(t *testing.T) {
	for _, tt := range []struct {
		name  string
		order order
		prior bool // a session with an answer is there
		id    string
		when  []string // what the file holds is the same before a write as after the one before
	}{
		{"prompt", order{Verb: "prompt", New: true, Text: "go"}, false, "ses_1", []string{"BEFORE", "AFTER"}},
		{"shell", order{Verb: "shell", Text: "echo out-b"}, true, "ses_1", []string{"BEFORE", "AFTER"}},
		{"fork", order{Verb: "fork", Text: "go"}, true, "ses_1_fork", []string{"AFTER"}},
		// Invariant 12: the old context or the complete new one.
		{"compaction", order{Verb: "prompt", Text: "too long"}, true, "ses_1", []string{"AFTER"}},
	} {
		for _, when := range tt.when {
			t.Run(tt.name+" "+strings.ToLower(when), func(t *testing.T) {
				t.Parallel()
				crashed := 0
				for n := 1; ; n++ {
					w := newWorld(t, crashScript)
					if tt.prior {
						w.prompt(Input{Text: "first" + strings.Repeat(" word", 5000), NewSessionID: "ses_1"})
					}
					o := tt.order
					o.Session = "ses_1"
					_, ended := w.start(o, fmt.Sprintf("RALLY_CRASH_%s_WRITE=%d", when, n)).wait()
					w.recovers(tt.id, tt.prior)
					if ended {
						break
					}
					crashed++
				}
				t.Logf("crashed at %d writes", crashed)
				if crashed < 2 {
					t.Errorf("only %d writes were found: is the hook built in?", crashed)
				}
			})
		}
	}
}

// recovers continues what a dead process left and checks that all is well. A
// process that died before its first write was acknowledged left nothing.
func (w *world) recovers(id string, prior bool) {
	t := w.t
	t.Helper()
	if _, err := w.store.Session(t.Context(), id); err != nil {
		if prior && id == "ses_1" {
			t.Errorf("the session is gone: %v", err)
		}
		return
	}
	r, err := w.engine.Continue(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[bool]string{true: "one", false: "the answer"}; r.Reason != session.ReasonCompleted || r.Text != "the answer" && r.Text != want[prior] {
		t.Errorf("continue ended %s with %q: %+v", r.Reason, r.Text, r.Error)
	}
	assertSettled(t, w.store, id)
	w.validRequests()
	turns, err := w.store.Turns(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range turns {
		if row.State != session.TurnClosed || row.Reason == "" {
			t.Errorf("turn %+v is not closed", row)
		}
	}
}

// An abort that dies at a write of its own leaves a turn that ends all the
// same: its owner saw the mark, or the next abort sets it.
func TestCrashOfAnAbort(t *testing.T) {
	for n := 1; n <= 3; n++ {
		w := newWorld(t, `replies: [{calls: [{name: bash, args: {command: "sleep 300.79"}}]}]`)
		owner := w.start(order{Verb: "prompt", New: true, Session: "ses_1", Text: "go"})
		w.eventually("the session", func() bool { _, err := w.store.Session(t.Context(), "ses_1"); return err == nil })
		w.running("ses_1")
		w.start(order{Verb: "abort", Session: "ses_1"}, fmt.Sprintf("RALLY_CRASH_AFTER_WRITE=%d", n)).wait()
		if r := owner.result(); r.Reason != session.ReasonAborted {
			t.Errorf("write %d: the owner ended %s", n, r.Reason)
		}
		assertSettled(t, w.store, "ses_1")
	}
}
