package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
	"rally/internal/session/store"
)

// childEnv makes the test binary a process that does one verb: other
// processes are real ones here.
const childEnv = "RALLY_LOOP_TEST_CHILD"

// order is what a child process is to do.
type order struct {
	Verb     string // prompt, continue, shell, abort, fork
	DB       string
	URL      string
	Dir      string
	Session  string
	New      bool // the session is to be made
	Text     string
	WhenBusy WhenBusy
}

// child does the order in childEnv and prints the result as JSON.
func child() int {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx := context.Background()
	s, err := store.Open(ctx, o.DB, store.Options{Version: "test", Now: now, NewID: newID()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	opts := options(s, o.URL, func(session.Event) {})
	if o.WhenBusy != "" {
		opts.WhenBusy = o.WhenBusy
	}
	r, err := o.do(ctx, New(opts))
	if err = errors.Join(err, s.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 2
	}
	return r.ExitCode
}

func (o order) do(ctx context.Context, e *Engine) (session.Result, error) {
	switch o.Verb {
	case "continue":
		return e.Continue(ctx, o.Session)
	case "shell":
		return e.Shell(ctx, ShellInput{SessionID: o.Session, Command: o.Text, Output: io.Discard})
	case "abort":
		_, err := e.Abort(ctx, o.Session)
		return session.Result{}, err
	case "fork":
		return e.Prompt(ctx, Input{SessionID: o.Session, Fork: true, NewSessionID: o.Session + "_fork", Text: o.Text})
	}
	in := Input{Text: o.Text, SessionID: o.Session}
	if o.New {
		in.SessionID, in.NewSessionID, in.Directory = "", o.Session, o.Dir
	}
	return e.Prompt(ctx, in)
}

// process is a child that runs.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

func (w *world) start(o order, env ...string) *process {
	w.t.Helper()
	o.DB, o.URL, o.Dir = w.db, w.server.URL, w.dir
	b, err := json.Marshal(o)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{t: w.t, cmd: exec.CommandContext(context.Background(), os.Args[0], "-test.run=^$")}
	p.cmd.Env = append(append(os.Environ(), childEnv+"="+string(b)), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// wait is the child's result and whether it had one: a child that was killed
// has none.
func (p *process) wait() (session.Result, bool) {
	p.t.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	var r session.Result
	if json.Unmarshal(p.out.Bytes(), &r) != nil {
		return r, false
	}
	return r, true
}

// result is wait for a child that must have one.
func (p *process) result() session.Result {
	p.t.Helper()
	r, ok := p.wait()
	if !ok {
		p.t.Fatalf("the child gave no result: %s", p.err.String())
	}
	return r
}

// running waits until a call of the session runs.
func (w *world) running(sessionID string) {
	w.t.Helper()
	w.eventually("a call that runs", func() bool {
		history, err := w.store.History(w.t.Context(), sessionID)
		if err != nil {
			w.t.Fatal(err)
		}
		for i := range history {
			for _, call := range history[i].ToolCalls() {
				if call.State.Status == session.ToolRunning {
					return true
				}
			}
		}
		return false
	})
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatalf("%s did not come", what)
}

// The four states a session can be in and what each verb of another process
// does to it (the seeds' Idle, Running, Shell and ShellThenRun). Invariant 5:
// one process serves a session at a time.
func TestStatesAcrossProcesses(t *testing.T) {
	const script = `
replies:
  - {when: {user: first}, text: one}
  - {when: {tool: Exit code}, text: A done, repeat: true}
  - {when: {user: task-A}, calls: [{name: bash, args: {command: "while [ ! -e go ]; do sleep 0.02; done"}}]}
default: {text: B done, repeat: true}
`
	setup := map[string]func(*world) (a, pending *process){
		"idle": func(*world) (a, p *process) { return nil, nil },
		"running": func(w *world) (a, p *process) {
			a = w.start(order{Verb: "prompt", Session: "ses_1", Text: "task-A"})
			w.running("ses_1")
			return a, nil
		},
		"shell": func(w *world) (a, p *process) {
			a = w.start(order{Verb: "shell", Session: "ses_1", Text: "while [ ! -e go ]; do sleep 0.02; done"})
			w.running("ses_1")
			return a, nil
		},
		"shell then run": func(w *world) (a, p *process) {
			a = w.start(order{Verb: "shell", Session: "ses_1", Text: "while [ ! -e go ]; do sleep 0.02; done"})
			w.running("ses_1")
			p = w.start(order{Verb: "prompt", Session: "ses_1", Text: "task-P"})
			w.eventually("a pending turn", func() bool { _, err := w.store.NextTurn(t.Context(), "ses_1"); return err == nil })
			return a, p
		},
	}
	for _, tt := range []struct {
		state, verb string
		busy        WhenBusy
		now         bool // the verb ends while the state lasts
		want        string
		owner       session.Reason
		pending     session.Reason
	}{
		{"idle", "prompt", BusyInterrupt, true, "completed B done", "", ""},
		{"idle", "prompt", BusyFail, true, "completed B done", "", ""},
		{"idle", "continue", BusyInterrupt, true, "completed one", "", ""},
		{"idle", "shell", BusyInterrupt, true, "completed", "", ""},
		{"idle", "abort", BusyInterrupt, true, "0 aborted", "", ""},
		{"running", "prompt", BusyInterrupt, false, "completed B done", session.ReasonSuperseded, ""},
		{"running", "prompt", BusyWait, false, "completed B done", session.ReasonCompleted, ""},
		{"running", "prompt", BusyFail, true, "busy", session.ReasonCompleted, ""},
		{"running", "continue", BusyInterrupt, false, "completed A done", session.ReasonCompleted, ""},
		{"running", "shell", BusyInterrupt, true, "busy", session.ReasonCompleted, ""},
		{"running", "abort", BusyInterrupt, true, "1 aborted", session.ReasonAborted, ""},
		{"shell", "prompt", BusyInterrupt, false, "completed B done", session.ReasonCompleted, ""},
		{"shell", "prompt", BusyFail, true, "busy", session.ReasonCompleted, ""},
		{"shell", "shell", BusyInterrupt, true, "busy", session.ReasonCompleted, ""},
		{"shell", "abort", BusyInterrupt, true, "0 aborted", session.ReasonCompleted, ""},
		{"shell then run", "prompt", BusyWait, false, "completed B done", session.ReasonCompleted, session.ReasonCompleted},
		{"shell then run", "shell", BusyInterrupt, true, "busy", session.ReasonCompleted, session.ReasonCompleted},
		{"shell then run", "continue", BusyInterrupt, false, "completed B done", session.ReasonCompleted, session.ReasonCompleted},
		{"shell then run", "abort", BusyInterrupt, true, "1 aborted", session.ReasonCompleted, session.ReasonAborted},
	} {
		t.Run(fmt.Sprintf("%s, %s %s", tt.state, tt.verb, tt.busy), func(t *testing.T) {
			w := newWorld(t, script)
			w.prompt(Input{Text: "first", NewSessionID: "ses_1"})
			owner, pending := setup[tt.state](w)
			w.engine.WhenBusy = tt.busy
			if tt.now {
				if got := w.verb(tt.verb); got != tt.want {
					t.Errorf("%s: %q, want %q", tt.verb, got, tt.want)
				}
			}
			release := func() {
				if err := os.WriteFile(w.dir+"/go", nil, 0o600); err != nil {
					t.Error(err)
				}
			}
			if !tt.now {
				got := make(chan string, 1)
				go func() { got <- w.verb(tt.verb) }()
				time.Sleep(300 * time.Millisecond) // it is waiting now, or will wait: both orders must do
				release()
				if answer := <-got; answer != tt.want {
					t.Errorf("%s: %q, want %q", tt.verb, answer, tt.want)
				}
			}
			release()
			for p, want := range map[*process]session.Reason{owner: tt.owner, pending: tt.pending} {
				if p == nil {
					continue
				}
				if r := p.result(); r.Reason != want {
					t.Errorf("the other process ended %s, want %s: %+v", r.Reason, want, r.Error)
				}
			}
			assertSettled(t, w.store, "ses_1")
			w.validRequests()
		})
	}
}

// verb does a verb in this process and sums up what came of it.
func (w *world) verb(verb string) string {
	if verb == "abort" {
		n, err := w.engine.Abort(context.Background(), "ses_1")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d aborted", n)
	}
	text := "task-B"
	if verb == "shell" {
		text = "true"
	}
	r, err := order{Verb: verb, Session: "ses_1", Text: text}.do(context.Background(), w.engine)
	switch {
	case errors.Is(err, ErrBusy):
		return "busy"
	case err != nil:
		return err.Error()
	case verb == "shell":
		return string(r.Reason)
	}
	return fmt.Sprintf("%s %s", r.Reason, r.Text)
}

// The lost wake-up: prompts that arrive while a loop is returning are answered,
// each once and by the process that asked.
func TestPromptsThatArriveAtTheEndOfATurnAreAnswered(t *testing.T) {
	w := newWorld(t, "default: {text: ok, repeat: true}")
	w.prompt(Input{Text: "first", NewSessionID: "ses_1"})
	const processes, rounds = 3, 4
	var group sync.WaitGroup
	for range processes {
		group.Add(1)
		go func() {
			defer group.Done()
			for range rounds {
				p := w.start(order{Verb: "prompt", Session: "ses_1", Text: "more", WhenBusy: BusyWait})
				if r := p.result(); r.Reason != session.ReasonCompleted || r.Text != "ok" {
					t.Errorf("ended %s with %q", r.Reason, r.Text)
				}
			}
		}()
	}
	group.Wait()
	if n := len(w.server.Requests()); n != 1+processes*rounds {
		t.Errorf("%d requests for %d prompts", n, 1+processes*rounds)
	}
	w.validRequests()
}

// Invariant 5: any number of continues on an unfinished session make one
// model call, and all get the same answer.
func TestTenContinuesMakeOneCall(t *testing.T) {
	w := newWorld(t, `
replies:
  - {calls: [{name: bash, args: {command: "sleep 300.78"}}]}
  - {text: the answer, wait: 300ms}
`)
	p := w.start(order{Verb: "prompt", Session: "ses_1", New: true, Text: "go"})
	w.eventually("the session", func() bool { _, err := w.store.Session(t.Context(), "ses_1"); return err == nil })
	w.running("ses_1")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	var ps []*process
	for range 10 {
		ps = append(ps, w.start(order{Verb: "continue", Session: "ses_1"}))
	}
	var answers []string
	for _, p := range ps {
		r := p.result()
		answers = append(answers, fmt.Sprint(r.Reason, " ", r.Text, " ", r.MessageID == ps[0].result0().MessageID))
	}
	want := make([]string, 10)
	for i := range want {
		want[i] = "completed the answer true"
	}
	if diff := cmp.Diff(want, answers); diff != "" {
		t.Error(diff)
	}
	if n := len(w.server.Requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
	w.validRequests()
}

// result0 is the result of a child that has ended.
func (p *process) result0() session.Result {
	var r session.Result
	_ = json.Unmarshal(p.out.Bytes(), &r)
	return r
}
