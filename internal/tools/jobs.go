package tools

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"rally/internal/session"
)

//go:embed bash_output.md
var bashOutputText string

//go:embed bash_kill.md
var bashKillText string

// maxJobs bounds how many background commands a turn may have at once.
const maxJobs = 16

// Jobs are the background commands of a turn. It is safe for concurrent use.
type Jobs struct {
	mu   sync.Mutex
	list []*job
	made int
	done bool
}

// job is one background command.
type job struct {
	id      string
	command string
	cancel  context.CancelFunc
	ended   chan struct{} // closed after exit and err are set
	exit    Exit
	err     error

	mu    sync.Mutex
	fresh *capture // what was not read yet
}

// NewJobs returns an empty set. Close must be called when the turn ends.
func NewJobs() *Jobs { return &Jobs{} }

// Close ends all commands (TERM, two seconds, KILL), waits for them and
// refuses new ones. Invariant 11.
func (j *Jobs) Close() {
	j.mu.Lock()
	j.done = true
	list := slices.Clone(j.list)
	j.mu.Unlock()
	for _, b := range list {
		b.cancel()
	}
	for _, b := range list {
		<-b.ended
	}
}

// start runs the script until it ends, is killed or the turn ends; the call
// that starts it returns at once, so the end of its context is not its end.
func (j *Jobs) start(ctx context.Context, env *Env, script Script) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	running := 0
	for _, b := range j.list {
		if b.running() {
			running++
		}
	}
	switch {
	case j.done:
		return nil, tell("The turn is ending: no command can be started.")
	case running >= maxJobs:
		return nil, tell("%d commands already run in the background. End one with bash_kill first.", running)
	}
	j.made++
	quiet := *env
	quiet.Progress = nil
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b := &job{id: fmt.Sprintf("job_%d", j.made), command: script.Command, cancel: cancel, ended: make(chan struct{}), fresh: newCapture(&quiet)}
	script.Output = b
	j.list = append(j.list, b)
	go func() {
		defer close(b.ended)
		defer cancel()
		b.exit, b.err = script.Run(ctx)
	}()
	return b, nil
}

// Write takes output of the command.
func (b *job) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fresh.Write(p)
}

// take returns what was printed since the last call.
func (b *job) take() (text, path string, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.fresh
	b.fresh = newCapture(old.env)
	// What a write cut in two goes on in the next capture.
	b.fresh.clean.state, b.fresh.clean.long, b.fresh.clean.held = old.clean.state, old.clean.long, old.clean.held
	if b.running() {
		old.clean.held = nil
	} else {
		b.fresh.clean.held = nil
	}
	return old.end()
}

// unread reports whether take would return text.
func (b *job) unread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fresh.total > 0
}

func (b *job) running() bool {
	select {
	case <-b.ended:
		return false
	default:
		return true
	}
}

func (j *Jobs) get(id string) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ids := make([]string, len(j.list))
	for i, b := range j.list {
		if b.id == id {
			return b, nil
		}
		ids[i] = b.id
	}
	if len(ids) == 0 {
		return nil, tell("No command was started in the background in this turn. Start one with bash and background: true.")
	}
	return nil, tell("There is no background command %q. There are: %s.", id, strings.Join(ids, ", "))
}

// settleJob is how long a start waits for an early end: a command that fails
// at once should say so at once.
const settleJob = 300 * time.Millisecond

func startJob(ctx context.Context, env *Env, script Script, args bashArgs) (Result, error) {
	b, err := env.Jobs.start(ctx, env, script)
	if err != nil {
		return Result{}, err
	}
	b.await(ctx, settleJob, false)
	out, meta := b.status()
	out = fmt.Sprintf("Started in the background with id %s.\n%s", b.id, out)
	return Result{Output: out, Title: args.title(), Metadata: meta, Bounded: true}, nil
}

// await returns when the command has ended, the context has, the time is
// over, or, if output counts, there is something to read.
func (b *job) await(ctx context.Context, limit time.Duration, output bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	tick := time.NewTicker(5 * pollEvery)
	defer tick.Stop()
	for !output || !b.unread() {
		select {
		case <-b.ended:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-tick.C:
		}
	}
}

// status is the new output and the state of the command.
func (b *job) status() (string, session.Metadata) {
	running := b.running()
	text, path, cut := b.take()
	meta := session.Metadata{}
	if running {
		if strings.TrimSpace(text) == "" {
			text = "(no new output)"
		}
		meta.Set("truncated", cut)
		text = strings.TrimRight(text, "\n") + "\n\n<shell_metadata>\nStill running.\n</shell_metadata>"
	} else if b.err != nil {
		text += "The command could not be run: " + b.err.Error()
	} else {
		meta = b.exit.metadata(cut, path)
		text = b.exit.report(text, 0)
	}
	meta.Set("id", b.id)
	return text, meta
}

const bashOutputSchema = `{"type":"object","properties":{
"id":{"type":"string","description":"The id that bash returned"},
"timeout":{"type":"integer","description":"Wait up to so many milliseconds for new output or the end; 0 if absent, 600000 at most","minimum":0}},
"required":["id"],"additionalProperties":false}`

const bashKillSchema = `{"type":"object","properties":{"id":{"type":"string","description":"The id that bash returned"}},
"required":["id"],"additionalProperties":false}`

type jobArgs struct {
	ID      string `json:"id"`
	Timeout int64  `json:"timeout"`
}

func newBashOutput() Tool {
	return tool[jobArgs]{
		name: "bash_output", text: bashOutputText, schema: bashOutputSchema, access: nothing[jobArgs],
		run: func(ctx context.Context, env *Env, args jobArgs) (Result, error) {
			b, err := env.Jobs.get(args.ID)
			if err != nil {
				return Result{}, err
			}
			b.await(ctx, time.Duration(min(args.Timeout, maxTimeout))*time.Millisecond, true)
			out, meta := b.status()
			return Result{Output: out, Title: b.command, Metadata: meta, Bounded: true}, nil
		},
	}
}

func newBashKill() Tool {
	return tool[jobArgs]{
		name: "bash_kill", text: bashKillText, schema: bashKillSchema, access: nothing[jobArgs],
		run: func(ctx context.Context, env *Env, args jobArgs) (Result, error) {
			b, err := env.Jobs.get(args.ID)
			if err != nil {
				return Result{}, err
			}
			b.cancel()
			b.await(ctx, 2*killGrace, false)
			out, meta := b.status()
			return Result{Output: out, Title: b.command, Metadata: meta, Bounded: true}, nil
		},
	}
}
