// Package loop serves turns: it takes a prompt or a session to go on with,
// runs model → tools → model until the turn has an end, and reports what
// happens as events. It is the only orchestrator: it alone knows more than
// one of the rooms below it.
//
// # One turn
//
//	Prompt ─▶ rows ─▶ queue ─▶ lease ─▶ recover ─▶ turn
//	                                               │ each step:
//	                                               │   history (rows) ─▶ request ─▶ provider
//	                                               │   events ─▶ processor ─▶ parts (rows)
//	                                               │   calls ─▶ gate ─▶ tools ─▶ results (rows)
//	                                               ▼
//	                                            close (row) ─▶ Result (from rows)
//
// Nothing is kept in memory that the next step needs: it reads the rows again.
// So a process may die at any write, and the next one goes on.
package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/permission"
	"rally/internal/session/prompt"
	"rally/internal/session/snapshot"
	"rally/internal/session/store"
	"rally/internal/tools"
)

// Options are what an Engine works with. All functions must be set; they may
// be called from several goroutines, Emit from one at a time.
type Options struct {
	Store   *store.Store
	Version string
	Now     func() time.Time
	// NewID makes an id from "ses", "msg", "prt", "trn" or "call": prefix, "_"
	// and something unique.
	NewID func(prefix string) string
	// Emit takes events in order. It must not block for long: the turn waits.
	Emit func(session.Event)

	// Model finds a model and the provider that serves it. Its error is for
	// people and names near misses.
	Model func(session.Model) (llm.Provider, llm.Model, error)
	// Agent finds an agent by name, likewise.
	Agent func(name string) (session.Agent, error)
	// Agents lists all agents that are not hidden, by name.
	Agents func() []session.Agent
	// Default is the agent and model when nothing else names one.
	Default func() (agent string, model session.Model, err error)
	// Small is the model for titles and summaries; the zero Model means the
	// turn's own.
	Small session.Model
	// ModelTitles asks Small for the titles of new sessions.
	ModelTitles bool
	Fallback    []session.Model
	Retry       llm.Policy

	// Root is the top of the repository that dir is in, or dir. Both real paths.
	Root func(dir string) string
	// Context gives what the system prompt takes from files, for a directory.
	Context func(dir, root string) prompt.Context
	// Nested lists the instruction files that count in a folder, the first
	// that is there wins; nil looks for none when files are read.
	Nested func(dir string) []string

	// OpenTree opens the snapshots of a work directory; nil takes none.
	OpenTree func(dir, root string) *snapshot.Tree

	Tools tools.Registry
	// More gives the tools of servers and what the servers say of them; nil
	// for none. It is called for each turn that is served and starts the
	// servers at the first. An error ends the turn before anything is sent.
	More func(context.Context) ([]tools.Tool, []prompt.ServerInstruction, error)

	ToolLimits tools.Limits
	Shell      string
	Environ    []string // of child processes, already without keys

	// Rules are the layers below the session's; Agent, Session and ReadOnly
	// are set for each turn.
	Rules          permission.Layers
	OnAsk          OnAsk
	ContinueOnDeny bool

	Compaction Compaction

	Limits Limits
	// SubagentDepth is how deep subagents may start subagents; 0 for none.
	SubagentDepth int

	WhenBusy WhenBusy
	PID      int
}

// OnAsk is what an `ask` becomes when nobody is there.
type OnAsk string

// The three answers: refuse the call and end the turn after the step, stop
// the step at once, or let it run.
const (
	OnAskReject OnAsk = "reject"
	OnAskFail   OnAsk = "fail"
	OnAskAllow  OnAsk = "allow"
)

// WhenBusy is what a prompt does when another process serves the session.
type WhenBusy string

// The three manners: the running turn ends after its step, runs to its end, or
// the prompt is not accepted.
const (
	BusyInterrupt WhenBusy = "interrupt"
	BusyWait      WhenBusy = "wait"
	BusyFail      WhenBusy = "fail"
)

// Limits end a turn before it spends more; 0 is no limit. They count child
// sessions in. The wall clock is the context's.
type Limits struct {
	Steps  int
	Cost   session.Money
	Tokens int64
}

// Ends a context may have, as its cause: the loop stores the reason that
// belongs to it. Any other cause counts as an interrupt.
var (
	ErrTimeout      = errors.New("the time limit was reached")
	ErrInterrupted  = errors.New("interrupted")
	ErrTerminated   = errors.New("terminated")
	ErrOutputClosed = errors.New("the reader of stdout went away")
)

// ErrBusy says that another process serves the session and waiting was not
// wanted.
var ErrBusy = errors.New("the session is in use")

// UsageError is a mistake of the caller: nothing was sent and nothing stored.
type UsageError struct {
	Err  error
	Hint string // what to do; may be empty
}

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the mistake itself.
func (e *UsageError) Unwrap() error { return e.Err }

func usagef(hint, format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...), Hint: hint}
}

// Engine serves turns of one session file. Its verbs may be called from
// several goroutines.
type Engine struct {
	Options
	host     string // Identity of this process
	emitting *sync.Mutex
	parent   *turn // whose call made the sessions served here; nil at the top
}

// New is an engine with these options.
func New(o Options) *Engine {
	return &Engine{Options: o, host: Identity(o.PID), emitting: new(sync.Mutex)}
}

func (e *Engine) emit(s session.Session, body session.EventBody) {
	e.emitting.Lock()
	defer e.emitting.Unlock()
	e.Emit(session.Event{SessionID: s.ID, ParentID: s.ParentID, Body: body})
}

func (e *Engine) nowMS() int64 { return e.Now().UnixMilli() }

// Input is a prompt as a user gives it.
type Input struct {
	// Session resumes an existing session; the zero value makes a new one in
	// Directory, with the id NewSessionID if that is set.
	SessionID    string
	NewSessionID string
	Fork         bool // copy the session first, then go on in the copy
	// Directory is a real path. For a resumed session it is empty to keep the
	// stored one.
	Directory string
	Title     string // empty: the first line of the prompt

	Agent string        // empty: the session's, else the default
	Model session.Model // zero: the agent's, the session's, else the default
	// Variant is the flag's; empty: that of the agent's or session's model.
	Variant string
	// CommandModel and CommandAgent stand between the flags and the rest.
	CommandAgent string
	CommandModel session.Model

	MessageID string // the same id again attaches to its turn
	Text      string
	Opaque    []prompt.Range // of Text: references are not looked for there
	Files     []prompt.Attachment
	Parts     []session.Part // of --parts; expanded like Text
	NoReply   bool
	// CompactOnly asks for a summary of the session and nothing else.
	CompactOnly bool

	System       string
	AppendSystem string
	Format       *session.Format
	// Rules are flags' permission rules; they are stored with the session and
	// replace its rules of the same permission names.
	Rules []session.Rule
}

// ShellInput is a command a user runs in a session.
type ShellInput struct {
	SessionID string
	Command   string
	// Output takes what the command prints, as it comes.
	Output io.Writer
}

// The verbs. Prompt, Continue and Shell emit Opened first; those that serve a
// turn end with its Result, which is derived from stored rows. An error means
// there is no result: a *UsageError, ErrBusy, or a failure of the machine.
var (
	_ func(*Engine, context.Context, Input) (session.Result, error)      = (*Engine).Prompt
	_ func(*Engine, context.Context, string) (session.Result, error)     = (*Engine).Continue
	_ func(*Engine, context.Context, ShellInput) (session.Result, error) = (*Engine).Shell
	_ func(*Engine, context.Context, ...string) (int, error)             = (*Engine).Abort
)
