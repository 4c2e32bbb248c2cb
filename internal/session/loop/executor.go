package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"rally/internal/session"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
	"rally/internal/tools"
)

// maxParallel bounds how many calls of a step run at once.
const maxParallel = 8

// How long the end of a step waits for running tools to come back: most at
// once, a command after it was asked to end (TERM, 2 s, KILL).
const (
	toolGrace = 250 * time.Millisecond
	bashGrace = 3500 * time.Millisecond
)

// executor runs the calls of one step: every call is decided on by the gate
// before any of them runs, then they run in parallel, those that write to one
// path one after another. Results are stored as they come; the request builds
// them in call order.
type executor struct {
	*turn
	message *session.Message
	start   *session.StepStart
	calls   []*session.Tool
	cut     int // index of the call that the output limit cut, or -1
	prior   []string
	loaded  []string // instruction files the model knows; guarded by mu

	structured json.RawMessage
	stop       *end

	mu     sync.Mutex // guards the state of calls, and closed
	closed bool       // the step was given its end state: late results are ignored
}

func newExecutor(t *turn, m *session.Message, start *session.StepStart, calls []*session.Tool, cut int, history []session.Message) *executor {
	return &executor{turn: t, message: m, start: start, calls: calls, cut: cut, prior: priorCalls(history, t.row.ID), loaded: t.loadedInstructions(history)}
}

// ready is a call that may run.
type ready struct {
	part   *session.Tool
	tool   tools.Tool
	args   json.RawMessage
	access []tools.Access
}

// refusal is why a call does not run: what the model is told, and what is
// kept with the call.
type refusal struct {
	text     string
	metadata session.Metadata
	stop     *end // the refusal ends the turn after the step
	now      bool // it ends the step at once
}

// run returns when every call has its end state, or with the context's cause
// when that ended first; calls are then left as they are for the caller.
func (x *executor) run(ctx context.Context) error {
	var allowed []*ready
	for i, part := range x.calls {
		if part.State.Status.Terminal() {
			continue // the provider ran it
		}
		call, no := x.prepare(i, part)
		if no == nil {
			allowed = append(allowed, call)
			continue
		}
		if no.stop != nil && x.stop == nil {
			x.stop = no.stop
		}
		if err := x.record(ctx, part, func(at int64) bool { return part.Fail(no.text, no.metadata, at) }); err != nil {
			return err
		}
		if no.now {
			return x.skip(ctx, i)
		}
	}
	if err := x.track(ctx, allowed); err != nil {
		return err
	}
	return x.runAll(ctx, allowed)
}

// skip ends all calls of a step that was stopped at once.
func (x *executor) skip(ctx context.Context, refused int) error {
	for i, part := range x.calls {
		if i == refused || part.State.Status.Terminal() {
			continue
		}
		text := "This call was not run: the refusal of another call stopped the step."
		if err := x.record(ctx, part, func(at int64) bool { return part.Fail(text, nil, at) }); err != nil {
			return err
		}
	}
	return nil
}

func (x *executor) runAll(ctx context.Context, calls []*ready) error {
	var group sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	last := map[string]chan struct{}{} // the newest call that writes to a path
	grace := toolGrace
	errs := make([]error, len(calls))
	for i, call := range calls {
		done := make(chan struct{})
		var before []chan struct{}
		for _, a := range call.access {
			for _, path := range a.Paths {
				if prev := last[path]; prev != nil && prev != done {
					before = append(before, prev)
				}
				last[path] = done
			}
			if a.Script != "" {
				grace = bashGrace
			}
		}
		group.Add(1)
		go func() {
			defer group.Done()
			defer close(done)
			for _, prev := range before {
				<-prev
			}
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return
			}
			errs[i] = x.call(ctx, call)
		}()
	}
	return x.await(ctx, &group, grace, errs)
}

// await waits for the calls; once ctx ends only for as long as a tool that
// keeps its promise needs.
func (x *executor) await(ctx context.Context, group *sync.WaitGroup, grace time.Duration, errs []error) error {
	all := make(chan struct{})
	go func() {
		group.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-all:
		case <-timer.C:
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.closed = true
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// call runs one allowed call and stores its states.
func (x *executor) call(ctx context.Context, c *ready) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the call stays pending: whoever ends the step marks it
	}
	if c.part.Tool == taskName {
		c.part.State.Metadata = session.Metadata{}
		c.part.State.Metadata.Set(session.MetaChild, childID(c.part.CallID))
	}
	if err := x.record(ctx, c.part, func(at int64) bool { return c.part.Start(c.args, at) }); err != nil {
		return err
	}
	env := *x.env
	env.CallID = c.part.CallID
	env.Progress = x.progress(ctx, c.part)
	result, err := runTool(ctx, c, &env)
	cut := ctx.Err() != nil
	if err == nil && c.part.Tool == prompt.StructuredTool {
		x.capture(c.args)
	}
	return x.record(ctx, c.part, func(at int64) bool {
		switch {
		case cut && (err != nil || unfinished(result)):
			return c.part.Fail(session.AbortedToolText, interrupted(result), at)
		case err != nil:
			return c.part.Fail(err.Error(), result.Metadata, at)
		}
		if c.part.Tool == "read" {
			result = x.withInstructions(result)
		}
		done := x.bounded(result)
		if c.part.Tool == questionName {
			done.Metadata = x.unanswered(c.part, done.Metadata)
		}
		return c.part.Complete(done, at)
	})
}

// questionName is the tool that asks a person.
const questionName = "question"

// unanswered lists a question that nobody answered with what was refused.
func (x *executor) unanswered(part *session.Tool, meta session.Metadata) session.Metadata {
	meta.Set(session.MetaDenied, session.Denial{
		SessionID: x.session.ID, CallID: part.CallID, Tool: part.Tool, Permission: questionName, Patterns: []string{"*"}, By: session.ByOnAsk,
	})
	return meta
}

// unfinished reports whether a command came back because its turn ended.
func unfinished(r tools.Result) bool { return string(r.Metadata["exit"]) == "null" }

// interrupted is what is kept of a call that the end of its turn cut off: the
// model is shown the output that came.
func interrupted(r tools.Result) session.Metadata {
	meta := session.Metadata{session.MetaInterrupted: json.RawMessage("true")}
	if r.Output != "" {
		meta.Set("output", r.Output)
	}
	return meta
}

func (x *executor) capture(args json.RawMessage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.structured = args
}

// runTool keeps a tool that panics from taking the session with it.
func runTool(ctx context.Context, c *ready, env *tools.Env) (result tools.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the %s tool failed in a way it should not: %v. Try another way", c.part.Tool, p)
		}
	}()
	return c.tool.Run(ctx, env, c.args)
}

// record changes a call's state, stores and reports it. A change that is not
// allowed any more (the call has ended) is nothing. Results are stored even
// while the turn is being ended.
func (x *executor) record(ctx context.Context, part *session.Tool, change func(at int64) bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || !change(x.nowMS()) {
		return nil
	}
	ctx, cancel := ending(ctx)
	defer cancel()
	if err := x.Store.Write(ctx, func(tx *store.Tx) error { return tx.SavePart(part) }); err != nil {
		return err
	}
	copied := *part
	if part.State.Status == session.ToolRunning {
		x.emit(x.session, session.PartStarted{Part: &copied})
	} else {
		x.emit(x.session, session.PartEnded{Part: &copied})
	}
	return nil
}

// progress stores the tail of what a running call prints, in the rhythm of
// streamed text.
func (x *executor) progress(ctx context.Context, part *session.Tool) func(string) {
	var mu sync.Mutex
	var next int64
	return func(tail string) {
		mu.Lock()
		defer mu.Unlock()
		now := x.nowMS()
		if now < next {
			return
		}
		next = now + flushEvery.Milliseconds()
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.closed || part.State.Status != session.ToolRunning {
			return
		}
		if part.State.Metadata == nil {
			part.State.Metadata = session.Metadata{}
		}
		part.State.Metadata.Set("output", tail)
		// A lost preview is no loss: the result is stored with its own check.
		_ = x.Store.Write(ctx, func(tx *store.Tx) error { return tx.SavePart(part) })
	}
}

// prepare looks a call over: is it whole, known, allowed?
func (x *executor) prepare(i int, part *session.Tool) (*ready, *refusal) {
	if i == x.cut {
		return nil, &refusal{text: "This call was cut off by the model's output limit and was not run. " +
			"Do it again in smaller pieces: write a large file in several steps."}
	}
	if x.lastStep && x.format == nil {
		return nil, &refusal{text: "This call was not run: the limit of steps is reached. Sum up in text what was done and what is left."}
	}
	tool, ok := x.lookup(part.Tool)
	if !ok {
		return nil, x.repeated(i, &refusal{text: x.unknownTool(part.Tool)})
	}
	args, err := tools.Arguments(tool.Schema(), part.State.Raw)
	if err != nil && tool.Name() == prompt.StructuredTool {
		return nil, x.badStructure(err)
	}
	if err != nil {
		return nil, x.repeated(i, &refusal{text: fmt.Sprintf(
			"The %s tool was called with invalid arguments: %s\nPlease rewrite the input so it satisfies the expected schema.", tool.Name(), err)})
	}
	part.Tool = tool.Name()
	part.State.Input = args
	if no := x.repeated(i, nil); no != nil {
		return nil, no
	}
	access, err := tool.Access(x.env, args)
	if err != nil {
		return nil, &refusal{text: err.Error()}
	}
	if no := x.gate.refuse(x.turn, part, access); no != nil {
		return nil, no
	}
	return &ready{part: part, tool: tool, args: args, access: access}, nil
}

// lookup finds a tool by the name a model gave it. One that is not offered is
// found as well: the gate has the say.
func (x *executor) lookup(name string) (tools.Tool, bool) {
	for _, tool := range slices.Concat(x.tools, x.more) {
		if strings.EqualFold(tool.Name(), name) {
			return tool, true
		}
	}
	return x.Tools.Lookup(name)
}

func (x *executor) unknownTool(name string) string {
	names := make([]string, len(x.tools))
	for i, tool := range x.tools {
		names[i] = tool.Name()
	}
	return fmt.Sprintf("There is no tool named %q. The tools are: %s.", name, strings.Join(names, ", "))
}
