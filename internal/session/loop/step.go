package loop

import (
	"context"
	"encoding/json"
	"errors"

	"rally/internal/compact"
	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
)

// outcome is what a step brought.
type outcome struct {
	message    *session.Message
	calls      int             // local tool calls
	structured json.RawMessage // the arguments of a good StructuredOutput call
	paused     bool            // the provider wants to go on with what it said so far
	stop       *end            // the step itself ends the turn
}

// step makes one model request and runs the tools it asks for.
//
// Order of writes: the message with its step-start; what streams; in one
// transaction the end of the stream (text, calls, finish, usage); each
// result; in one transaction step-finish and the message's completion. A
// process that dies between any two leaves something Repair can settle.
func (t *turn) step(ctx context.Context, history []session.Message, req *llm.Request) (*outcome, error) {
	t.status(ctx, session.Status{Type: session.StatusBusy})
	m := t.newAssistant(history)
	start := &session.StepStart{Header: t.partHead(m)}
	if err := t.Store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.SaveMessage(m); err != nil {
			return err
		}
		return tx.SavePart(start)
	}); err != nil {
		return nil, err
	}
	t.emit(t.session, session.PartStarted{Part: start})

	rec, err := t.stream(ctx, m, history, req)
	if tooLong(err) { // what never began leaves nothing: the turn may make room
		return nil, errors.Join(err, t.Store.Write(ctx, func(tx *store.Tx) error { return tx.DeleteMessage(t.session.ID, m.ID) }))
	}
	if err != nil {
		return nil, t.abandon(ctx, m, rec, err)
	}
	t.ratio.Observe(compact.Estimate(rec.req), promptTokens(rec.proc.usage))
	out, err := t.commit(ctx, m, rec)
	if err != nil {
		return nil, t.abandon(ctx, m, rec, err)
	}
	t.budget.step()
	t.steps++
	t.calls += out.calls
	if err := t.Store.SetSteps(ctx, t.row.ID, t.steps); err != nil {
		return nil, t.abandon(ctx, m, nil, err)
	}
	if out.calls == 0 {
		t.noteTextCall(rec.proc)
	} else {
		x := newExecutor(t, m, start, rec.proc.tools, cutCall(rec.proc), history)
		if err := x.run(ctx); err != nil {
			return nil, t.abandonStep(ctx, m, start, err)
		}
		out.structured, out.stop = x.structured, x.stop
		if out.stop != nil && out.stop.reason == session.ReasonCompleted {
			if err := t.addPlan(ctx, m, rec.proc.said()); err != nil {
				return nil, t.abandon(ctx, m, nil, err)
			}
		}
	}
	if err := t.finish(ctx, m, start, rec.proc, out); err != nil {
		return nil, err
	}
	if exitedPlan(rec.proc.tools) {
		return out, t.build(ctx)
	}
	return out, nil
}

func promptTokens(u *llm.Usage) int64 {
	if u == nil {
		return 0
	}
	return compact.PromptTokens(u.Tokens)
}

func (t *turn) partHead(m *session.Message) session.Header {
	return session.Header{ID: t.NewID("prt"), SessionID: t.session.ID, MessageID: m.ID}
}

func (t *turn) newAssistant(history []session.Message) *session.Message {
	parent := t.head.ID
	for i := range history {
		if history[i].Role == session.User && history[i].TurnID == t.row.ID {
			parent = history[i].ID
		}
	}
	return &session.Message{
		ID: t.NewID("msg"), SessionID: t.session.ID, Role: session.Assistant, ParentID: parent, TurnID: t.row.ID,
		Created: t.nowMS(), Agent: t.agent.Name, Model: t.model,
		Path: session.Path{Cwd: t.session.Directory, Root: t.root},
	}
}

// request builds what is sent to model: a pure function of rows and options.
func (t *turn) request(model llm.Model, history []session.Message) *llm.Request {
	req := &llm.Request{
		Model: model, System: t.system(model), Temperature: t.agent.Temperature, TopP: t.agent.TopP,
		CacheKey: t.session.ID, Options: variantOptions(model, t.model.Variant),
	}
	for _, tool := range t.tools {
		req.Tools = append(req.Tools, llm.Tool{Name: tool.Name(), Description: tool.Description(), Schema: tool.Schema()})
	}
	if t.format != nil {
		req.ToolChoice = "required"
	}
	c := converter{target: model, remindID: t.head.ID, reminder: t.reminder(history), withoutMedia: t.withoutMedia}
	req.Messages = c.messages(compact.Project(history, t.headID()))
	if t.lastStep && t.format == nil {
		if hasCalls(req.Messages) {
			req.ToolChoice = "none"
		} else {
			req.Tools = nil
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.User, Content: []llm.Content{llm.Text{Text: prompt.MaxSteps}}})
	}
	req.MaxOutput = model.OutputCap(compact.Estimate(req), outputReserve)
	return req
}

func hasCalls(messages []llm.Message) bool {
	for _, m := range messages {
		if m.Role == llm.ToolRole {
			return true
		}
	}
	return false
}

// commit stores the end of the stream: closed text, complete calls, finish
// and usage, before any tool runs (invariant 2).
func (t *turn) commit(ctx context.Context, m *session.Message, rec *recorder) (*outcome, error) {
	proc := rec.proc
	rec.apply(proc.end(t.nowMS()))
	for _, call := range proc.calls.Done() {
		tool := proc.tools[call.Pos]
		tool.State.Raw = call.Args()
		tool.State.Input = objectText(json.RawMessage(call.Args()))
		tool.Metadata = callMetadata(call)
	}
	out := &outcome{message: m}
	m.Finish = proc.finish.Reason
	if proc.finish.Continue { // no finish: the turn goes on
		m.Finish, out.paused = "", true
	}
	m.Tokens, m.Cost = t.use(rec.req.Model, proc.usage)
	if err := t.Store.Write(ctx, func(tx *store.Tx) error {
		if err := rec.write(tx); err != nil {
			return err
		}
		for _, tool := range proc.tools {
			t.settleExecuted(tool)
			if err := tx.SavePart(tool); err != nil {
				return err
			}
		}
		return tx.SaveMessage(m)
	}); err != nil {
		return nil, err
	}
	rec.stored()
	for _, tool := range proc.tools {
		if tool.Metadata.Bool(session.MetaProviderExecuted) {
			t.emit(t.session, session.PartEnded{Part: tool})
		} else {
			out.calls++
		}
	}
	return out, nil
}

// settleExecuted completes a call that the provider ran itself.
func (t *turn) settleExecuted(tool *session.Tool) {
	if !tool.Metadata.Bool(session.MetaProviderExecuted) {
		return
	}
	now := t.nowMS()
	tool.Start(tool.State.Input, now)
	tool.Complete(session.ToolState{Output: string(tool.Metadata[session.MetaProviderResult]), Title: tool.Tool}, now)
}

func callMetadata(call *llm.PartialCall) session.Metadata {
	meta := session.Metadata{}
	if call.ID != "" {
		meta.Set(session.MetaProviderCallID, call.ID)
	}
	if len(call.Extra) > 0 {
		meta.Set(session.MetaExtra, call.Extra)
	}
	if call.Executed {
		meta.Set(session.MetaProviderExecuted, true)
		if call.Result != nil {
			meta[session.MetaProviderResult] = call.Result
		}
	}
	if len(meta) == 0 {
		return nil
	}
	return meta
}

// cutCall is the index of the call that the output limit cut, or -1: the one
// that was being written when the limit came.
func cutCall(proc *processor) int {
	if proc.finish.Reason != session.FinishLength {
		return -1
	}
	return len(proc.tools) - 1
}

// use adds a call's usage to what the turn has spent.
func (t *turn) use(model llm.Model, u *llm.Usage) (session.Tokens, *session.Money) {
	if u == nil {
		u = &llm.Usage{}
	}
	cost := model.CostOf(*u)
	t.budget.use(u.Tokens, cost)
	return u.Tokens, cost
}

// finish stores the end of the step.
func (t *turn) finish(ctx context.Context, m *session.Message, start *session.StepStart, proc *processor, out *outcome) error {
	if out.structured != nil {
		m.Structured, m.Finish = out.structured, session.FinishStop
	}
	if out.stop == nil {
		out.stop = t.finishStop(proc, out)
	}
	if out.stop != nil && out.stop.err != nil {
		m.Error = out.stop.err
	}
	m.Completed = t.nowMS()
	patch, tree := t.patch(ctx, m, start)
	part := &session.StepFinish{
		Header: t.partHead(m), Reason: m.Finish, Snapshot: tree, Tokens: m.Tokens, Cost: m.Cost, UsageMissing: proc.usage == nil,
	}
	if err := t.Store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.SavePart(part); err != nil {
			return err
		}
		if patch != nil {
			if err := tx.SavePart(patch); err != nil {
				return err
			}
		}
		return tx.SaveMessage(m)
	}); err != nil {
		return err
	}
	t.emit(t.session, session.PartEnded{Part: part})
	return nil
}

// finishStop is the end that a finish reason alone brings.
func (t *turn) finishStop(proc *processor, out *outcome) *end {
	switch proc.finish.Reason {
	case session.FinishContentFilter:
		return &end{
			reason: session.ReasonContentFilter,
			err:    session.NewError(session.ContentFilterError, "the provider's content filter stopped the answer"),
		}
	case session.FinishLength:
		t.lengths++
		if out.calls == 0 || t.lengths > 1 {
			return &end{
				reason: session.ReasonOutputLength,
				err:    session.NewError(session.OutputLengthError, "the answer was cut at the model's output limit"),
			}
		}
	case session.FinishStop, session.FinishToolCalls, session.FinishError, session.FinishUnknown:
		t.lengths = 0
	}
	return nil
}
