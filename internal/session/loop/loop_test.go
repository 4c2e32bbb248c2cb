package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rally/internal/llm"
	"rally/internal/llm/openai"
	"rally/internal/llm/scripted"
	"rally/internal/session"
	"rally/internal/session/permission"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
	"rally/internal/tools"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// world is an engine on a fresh session file, a work directory and a scripted
// provider that speaks real HTTP.
type world struct {
	t      *testing.T
	dir    string
	db     string
	server *scripted.Server
	store  *store.Store
	engine *Engine

	mu     sync.Mutex
	events []session.Event
}

func newWorld(t *testing.T, script string) *world {
	t.Helper()
	s, err := scripted.Parse("test", []byte(script))
	if err != nil {
		t.Fatal(err)
	}
	server, err := s.Serve(t.Context(), scripted.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, db: filepath.Join(t.TempDir(), "rally.db"), server: server}
	w.store = openStore(t, w.db)
	w.engine = New(options(w.store, server.URL, w.emit))
	return w
}

func openStore(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), path, store.Options{Version: "test", Now: now, NewID: newID()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func now() int64 { return time.Now().UnixMilli() }

var ids atomic.Int64

// newID makes ids that are unique among the processes of a test.
func newID() func(string) string {
	return func(prefix string) string { return fmt.Sprintf("%s_%d_%d", prefix, os.Getpid(), ids.Add(1)) }
}

func options(s *store.Store, url string, emit func(session.Event)) Options {
	provider := openai.NewChat(openai.Options{
		Provider: "scripted", BaseURL: url, Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		Timeouts: llm.DefaultTimeouts(),
	})
	price := llm.Price{Input: 2_000_000, Output: 8_000_000}
	return Options{
		Store: s, Version: "test", Now: time.Now, NewID: newID(), Emit: emit,
		Model: func(m session.Model) (llm.Provider, llm.Model, error) {
			if m.Provider != "scripted" {
				return nil, llm.Model{}, fmt.Errorf("no provider %q", m.Provider)
			}
			return provider, llm.Model{Provider: m.Provider, ID: m.ID, Context: 100_000, Output: 4000, Price: &price, Reasoning: llm.ReasoningMode{ThinkTags: true}}, nil
		},
		Agent: func(name string) (session.Agent, error) {
			for _, a := range prompt.Agents() {
				if a.Name == name {
					return a, nil
				}
			}
			return session.Agent{}, fmt.Errorf("no agent %q", name)
		},
		Agents: func() []session.Agent { return prompt.Agents() },
		Default: func() (string, session.Model, error) {
			return "build", session.Model{Provider: "scripted", ID: "m"}, nil
		},
		Retry:   llm.Policy{Attempts: 3, MaxWait: time.Minute, OfflineWait: time.Second},
		Root:    func(dir string) string { return dir },
		Context: func(string, string) prompt.Context { return prompt.Context{} },
		Tools:   tools.New(tools.Options{}), Shell: "/bin/sh", Environ: tools.ChildEnviron(os.Environ(), nil),
		Rules: permission.Layers{Defaults: permission.Defaults()}, OnAsk: OnAskReject, WhenBusy: BusyInterrupt,
		SubagentDepth: 1, PID: os.Getpid(), Compaction: Compaction{Auto: true},
	}
}

func (w *world) emit(e session.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *world) prompt(in Input) session.Result {
	w.t.Helper()
	if in.SessionID == "" {
		in.Directory = w.dir
	}
	r, err := w.engine.Prompt(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// request is the n-th request's messages, without the system prompt, as
// "role: text" with calls and results.
func (w *world) request(n int) []string {
	w.t.Helper()
	received := w.server.Requests()
	if n >= len(received) {
		w.t.Fatalf("%d requests, wanted number %d", len(received), n+1)
	}
	var body struct {
		Messages []struct {
			Role      string `json:"role"`
			Content   any    `json:"content"`
			ToolCalls []struct {
				Function struct{ Name, Arguments string } `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(received[n].Body, &body); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, m := range body.Messages[1:] {
		line := fmt.Sprintf("%s: %v", m.Role, m.Content)
		for _, c := range m.ToolCalls {
			line += " " + c.Function.Name + c.Function.Arguments
		}
		out = append(out, line)
	}
	return out
}

func TestATurnCallsToolsAndAnswers(t *testing.T) {
	w := newWorld(t, `
replies:
  - text: let me look
    calls: [{name: bash, args: {command: "echo out-1"}}, {name: bash, args: {command: "echo out-2"}}]
    usage: {input: 100, output: 10}
  - text: done
    usage: {input: 200, output: 20}
`)
	r := w.prompt(Input{Text: "go"})
	want := session.Result{
		SessionID: r.SessionID, MessageID: r.MessageID, Reason: session.ReasonCompleted, Text: "done", Finish: session.FinishStop,
		Steps: 2, ToolCalls: 2, Denials: []session.Denial{}, Files: []string{}, Children: []string{},
		Tokens: session.Tokens{Input: 300, Output: 30, Total: 330}, Cost: money(840_000_000), CostComplete: true,
		DurationMS: r.DurationMS, Model: "scripted/m",
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	messages := w.request(1)
	if len(messages) != 4 || !strings.Contains(messages[2], "out-1") || !strings.Contains(messages[3], "out-2") {
		t.Errorf("second request: %q", messages)
	}
	// Invariant 6: a step only appends to the request before it.
	if diff := cmp.Diff(w.request(0), messages[:1]); diff != "" {
		t.Error(diff)
	}
}

func money(m session.Money) *session.Money { return &m }

// Invariant 13: the exit code, the stored turn and the result agree, for each
// way a turn ends.
func TestEndsOfATurn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script string
		set    func(*Options)
		in     Input
		reason session.Reason
		text   string
	}{
		{name: "an answer", script: "replies: [{text: hi}]", reason: session.ReasonCompleted, text: "hi"},
		{name: "nothing, three times", script: "default: {text: ''}", reason: session.ReasonEmptyResponse},
		{name: "a filtered answer", script: "replies: [{text: par, finish: content_filter}]", reason: session.ReasonContentFilter, text: "par"},
		{name: "a cut answer", script: "replies: [{text: half, finish: length}]", reason: session.ReasonOutputLength, text: "half"},
		{
			name: "a bad key", script: "default: {error: {status: 401, message: bad key, code: invalid_api_key}}", reason: session.ReasonAuth,
		},
		{
			name: "the same call again and again", script: "default: {repeat: true, calls: [{name: bash, args: {command: 'true'}}]}",
			reason: session.ReasonLoopDetected,
		},
		{
			name: "a call that needs a person", script: "replies: [{calls: [{name: bash, args: {command: 'touch x'}}]}]",
			set: func(o *Options) {
				o.Rules.User = []session.Rule{{Permission: "bash", Pattern: "touch *", Action: session.Ask}}
			},
			reason: session.ReasonRefused,
		},
		{
			name:   "the limit of steps",
			script: "replies: [{calls: [{name: bash, args: {command: 'echo 1'}}]}, {text: so far}]", set: func(o *Options) { o.Limits.Steps = 2 },
			reason: session.ReasonLimitSteps, text: "so far",
		},
		{name: "one step that answers", script: "replies: [{text: all}]", set: func(o *Options) { o.Limits.Steps = 1 }, reason: session.ReasonCompleted, text: "all"},
		{
			name:   "the limit of cost",
			script: "replies: [{calls: [{name: bash, args: {command: 'echo 1'}}], usage: {input: 1000, output: 0}}, {text: no}]",
			set:    func(o *Options) { o.Limits.Cost = 1_000_000_000 }, reason: session.ReasonLimitCost,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.script)
			if tt.set != nil {
				tt.set(&w.engine.Options)
			}
			in := tt.in
			in.Text = "go"
			r := w.prompt(in)
			if r.Reason != tt.reason || r.Text != tt.text || r.ExitCode != tt.reason.ExitCode() {
				t.Errorf("ended %s (%d) with %q: %+v", r.Reason, r.ExitCode, r.Text, r.Error)
			}
			turns, err := w.store.Turns(t.Context(), r.SessionID)
			if err != nil {
				t.Fatal(err)
			}
			if len(turns) != 1 || turns[0].State != session.TurnClosed || turns[0].Reason != r.Reason || turns[0].ExitCode != r.ExitCode {
				t.Errorf("stored turn %+v, result %+v", turns, r)
			}
			assertSettled(t, w.store, r.SessionID)
		})
	}
}

// assertSettled checks that an idle session holds nothing open.
func assertSettled(t *testing.T, s *store.Store, sessionID string) {
	t.Helper()
	history, err := s.History(context.Background(), sessionID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range history {
		m := &history[i]
		if m.Role == session.Assistant && m.Completed == 0 {
			t.Errorf("message %s is not completed", m.ID)
		}
		for _, p := range m.Parts {
			if session.IsOpen(p) {
				t.Errorf("%s part %+v is open", p.Kind(), p)
			}
		}
	}
}

func TestAFailedAttemptLeavesNothingToTheModel(t *testing.T) {
	w := newWorld(t, `
replies:
  - {text: Hello there, chunk: 3, cut: 1}
  - {text: Hello}
`)
	w.engine.Retry = llm.Policy{Attempts: 2}
	r := w.prompt(Input{Text: "go"})
	if r.Text != "Hello" || r.Reason != session.ReasonCompleted {
		t.Errorf("result %+v", r)
	}
	history, err := w.store.History(t.Context(), r.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []session.PartType
	for _, p := range history[1].Parts {
		kinds = append(kinds, p.Kind())
	}
	want := []session.PartType{session.TypeStepStart, session.TypeRetry, session.TypeText, session.TypeStepFinish}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}

// A call that the output limit or a broken stream cut is never run.
func TestACutCallNeverRuns(t *testing.T) {
	w := newWorld(t, `
replies:
  - calls: [{name: bash, args: {command: "touch ran"}}]
    finish: length
  - text: in pieces then
`)
	r := w.prompt(Input{Text: "go"})
	if _, err := os.Stat(filepath.Join(w.dir, "ran")); err == nil {
		t.Error("the cut call ran")
	}
	if m := w.request(1); !strings.Contains(m[len(m)-1], "output limit") {
		t.Errorf("the model was told %q", m[len(m)-1])
	}
	if r.Text != "in pieces then" {
		t.Errorf("result %+v", r)
	}
}

func TestAbortEndsAToolAndKeepsWhatCame(t *testing.T) {
	w := newWorld(t, `replies: [{text: first, calls: [{name: bash, args: {command: "echo before; sleep 300.77"}}]}]`)
	done := make(chan session.Result, 1)
	go func() {
		r, err := w.engine.Prompt(context.Background(), Input{Text: "go", Directory: w.dir, NewSessionID: "ses_a"})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	w.until(func(e session.Event) bool {
		p, ok := e.Body.(session.PartStarted)
		return ok && p.Part.Kind() == session.TypeTool
	})
	if n, err := w.engine.Abort(t.Context(), "ses_a"); err != nil || n != 1 {
		t.Fatalf("aborted %d: %v", n, err)
	}
	r := <-done
	if r.Reason != session.ReasonAborted || r.ExitCode != 130 || r.Text != "first" {
		t.Errorf("result %+v", r)
	}
	assertSettled(t, w.store, "ses_a")
	history, err := w.store.History(t.Context(), "ses_a")
	if err != nil {
		t.Fatal(err)
	}
	call := history[1].ToolCalls()[0]
	if !call.State.Metadata.Bool(session.MetaInterrupted) || history[1].Error == nil || history[1].Error.Name != session.AbortedError {
		t.Errorf("call %+v, message error %+v", call.State, history[1].Error)
	}
	if n, err := w.engine.Abort(t.Context(), "ses_a"); err != nil || n != 0 {
		t.Errorf("a second abort ended %d: %v", n, err)
	}
}

// until waits for an event.
func (w *world) until(match func(session.Event) bool) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		w.mu.Lock()
		for _, e := range w.events {
			if match(e) {
				w.mu.Unlock()
				return
			}
		}
		w.mu.Unlock()
		select {
		case <-deadline:
			w.t.Fatal("the event did not come")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
