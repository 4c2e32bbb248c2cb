package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"rally/internal/batch"
	"rally/internal/session"
	"rally/internal/session/loop"
)

// Patches are made after the turn, even after one that was cut.
const (
	patchTime      = 2 * time.Minute
	patchTimeOfCut = 10 * time.Second
)

// row is a task's line in the result file: what `rally run --json` ends with,
// and whose it is.
type row struct {
	resultLine
	TaskID string  `json:"task_id"`
	Patch  *string `json:"patch,omitempty"`
}

// job is one task while it runs.
type job struct {
	*crew
	task      batch.Task
	spent     func(usd float64)
	tree      *batch.Worktree
	sessionID string
	patch     *string
}

// run is batch.Options.Run.
func (c *crew) run(ctx context.Context, t batch.Task, spent func(float64)) batch.Result {
	j := &job{crew: c, task: t, spent: spent}
	began := c.app.now()
	res, err := guarded(ctx, stage{}, func(ctx context.Context, _ stage) (session.Result, error) { return j.serve(ctx) })
	if err != nil {
		res = failure(err, firstSet(res.SessionID, j.sessionID))
		res.DurationMS = c.app.now().Sub(began).Milliseconds()
	}
	res.Denials, res.Files, res.Children = orEmpty(res.Denials), orEmpty(res.Files), orEmpty(res.Children)
	line := row{TaskID: t.ID, Patch: j.patch, resultLine: resultLine{
		Type: "result", Timestamp: c.app.now().UnixMilli(), SessionID: nullable(res.SessionID), Seq: 1,
		MessageID: nullable(res.MessageID), Result: res,
	}}
	raw, err := encode(&line)
	if err != nil { // what a model or tool said cannot be encoded
		res = failure(fmt.Errorf("encode the result: %w", err), res.SessionID)
		raw, _ = encode(&row{TaskID: t.ID, resultLine: resultLine{Type: "result", Timestamp: line.Timestamp, SessionID: line.SessionID, Seq: 1, Result: res}})
	}
	return batch.Result(strings.TrimSuffix(string(raw), "\n"))
}

// serve runs the task in the place that is for it.
func (j *job) serve(ctx context.Context) (res session.Result, err error) {
	if j.task.Err != nil {
		return res, asUsage(j.task.Err)
	}
	dir, tree, err := j.place(ctx, &j.task)
	if err != nil {
		return res, ended(ctx, err)
	}
	if tree == nil {
		return j.prompted(ctx, dir)
	}
	j.tree = tree
	defer func() {
		if gone := tree.Remove(context.WithoutCancel(ctx)); gone != nil {
			j.note(gone.Error())
		}
	}()
	if res, err = j.prompted(ctx, dir); err != nil {
		return res, err
	}
	return j.patched(ctx, res), nil
}

// patched adds what the task changed. What cannot be handed over is not done.
func (j *job) patched(ctx context.Context, res session.Result) session.Result {
	limit := patchTime
	if ctx.Err() != nil {
		limit = patchTimeOfCut
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	patch, err := j.tree.Patch(ctx)
	if err == nil {
		j.patch = &patch
	} else if res.ExitCode == 0 {
		res.Reason, res.ExitCode = session.ReasonInternal, session.ReasonInternal.ExitCode()
		res.Error = session.NewError(session.UnknownError, "the patch could not be made: "+err.Error())
	}
	return res
}

// ended is err, or what ended ctx: an end of the whole batch cuts its tasks.
func ended(ctx context.Context, err error) error {
	err = because(ctx, err)
	for _, limit := range []error{batch.ErrCostLimit, batch.ErrTimeLimit, batch.ErrFailFast} {
		if errors.Is(err, limit) {
			return fmt.Errorf("%w: %w", loop.ErrInterrupted, err)
		}
	}
	return err
}

// prompted runs the task's turn in dir.
func (j *job) prompted(ctx context.Context, dir string) (session.Result, error) {
	w, done, err := j.workshop(ctx, dir, j.task.Session)
	if err != nil {
		return session.Result{}, ended(ctx, err)
	}
	defer done()
	limit := w.limit()
	if j.options.taskTimeout > 0 {
		limit = j.options.taskTimeout
	}
	if j.task.Timeout > 0 {
		limit = time.Duration(j.task.Timeout)
	}
	ctx, cancel := within(ctx, limit)
	defer cancel()
	in, err := j.input(ctx, w)
	if err != nil {
		return session.Result{}, ended(ctx, err)
	}
	options, err := j.engine(w)
	if err != nil {
		return session.Result{}, err
	}
	res, err := loop.New(options).Prompt(ctx, in)
	return res, ended(ctx, err)
}

// flags are the batch's with what the task says in their place.
func (j *job) flags() *promptOptions {
	p, t := j.options.prompt, &j.task
	p.agent, p.model, p.system = firstSet(t.Agent, p.agent), firstSet(t.Model, p.model), firstSet(t.System, p.system)
	if t.Model != "" {
		p.variant = ""
	}
	p.files = t.Files
	if len(t.Schema) > 0 {
		p.schema = string(t.Schema)
		var file string
		if json.Unmarshal(t.Schema, &file) == nil && file != "" {
			p.schema = file
		}
	}
	return &p
}

// input is the task's prompt.
func (j *job) input(ctx context.Context, w *workshop) (in loop.Input, err error) {
	p := j.flags()
	if j.task.Command != "" {
		o := commandOptions{
			name: j.task.Command, items: j.task.Args,
			run: runOptions{app: w.app, prompt: *p, turn: j.options.turn, input: inputOptions{noStdin: true}},
		}
		in, err = o.expand(ctx, w)
	} else {
		in.Text, err = j.text(ctx)
	}
	if err != nil {
		return in, err
	}
	if err := p.fill(w, &in); err != nil {
		return in, err
	}
	for i := range in.Files {
		if j.tree == nil {
			break
		}
		if path, err := filepath.EvalSymlinks(in.Files[i].Path); err == nil {
			in.Files[i].Path = j.tree.Path(path)
		}
	}
	return in, nil
}

func (j *job) text(ctx context.Context) (string, error) {
	t := j.task
	if t.PromptFile != "" {
		var err error
		if t.Prompt, err = readPromptFile(ctx, t.PromptFile); err != nil {
			return "", err
		}
	}
	if j.template != nil {
		var err error
		if t.Prompt, err = j.template.Fill(&t); err != nil {
			return "", asUsage(err)
		}
	}
	if strings.TrimSpace(t.Prompt) == "" {
		return "", usagef("say what is to be done", "the prompt is empty")
	}
	return t.Prompt, nil
}

// engine is the workshop's with the task's own limits and events, and with
// models behind the throttles that all workers share.
func (j *job) engine(w *workshop) (loop.Options, error) {
	options := w.engine.Options
	if j.task.MaxSteps > 0 {
		options.Limits.Steps = j.task.MaxSteps
	}
	if j.task.MaxCost != "" {
		cost, err := session.ParseMoney(string(j.task.MaxCost))
		if err != nil {
			return options, &loop.UsageError{Err: fmt.Errorf("max_cost: %w", err)}
		}
		options.Limits.Cost = cost
	}
	options.Model = j.throttles.models(w)
	log := options.Emit
	options.Emit = func(e session.Event) {
		log(e)
		if _, ok := e.Body.(session.Opened); ok && e.ParentID == "" {
			j.sessionID = e.SessionID
		}
		if body, ok := e.Body.(session.PartEnded); ok {
			if step, ok := body.Part.(*session.StepFinish); ok && step.Cost != nil {
				j.spent(dollars(*step.Cost))
			}
		}
	}
	return options, nil
}
