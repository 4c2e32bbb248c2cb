package loop

import (
	"context"
	"errors"
	"fmt"

	"rally/internal/compact"
	"rally/internal/session"
	"rally/internal/session/store"
	"rally/internal/tools"
)

// ticket is a caller's interest in a turn: whoever holds one serves the
// session until that turn is closed, or waits while another process does.
type ticket struct {
	session session.Session
	turn    session.Turn
	own     bool         // this process asked for the turn; else it attached to one
	held    *store.Lease // taken already; nil otherwise
}

// await serves or waits until the ticket's turn is closed, and gives its
// result. When ctx ends first, a turn of our own is closed with the cause; one
// we only attached to is left to its owner.
func (e *Engine) await(ctx context.Context, k ticket) (session.Result, error) {
	w := newWaiter(e, k)
	defer func() {
		if k.held != nil { // the turn was closed before it was needed
			_ = k.held.Release()
		}
	}()
	for {
		row, err := e.Store.Turn(context.WithoutCancel(ctx), k.turn.ID)
		if err != nil {
			return session.Result{}, err
		}
		switch {
		case row.State == session.TurnClosed:
			w.finish(ctx, row)
			return e.result(context.WithoutCancel(ctx), row)
		case ctx.Err() != nil:
			return e.leave(ctx, k, row)
		case row.AbortRequested && row.State == session.TurnPending:
			if err := e.closeTurn(ctx, k.session, row, causeEnd(errAborted)); err != nil {
				return session.Result{}, err
			}
			w.served = true
			continue
		}
		lease := k.held
		if k.held = nil; lease == nil {
			if lease, _, err = e.Store.TryLease(k.session.ID); err != nil {
				return session.Result{}, err
			}
		}
		if lease == nil {
			if err := w.poll(ctx); err != nil && ctx.Err() == nil {
				return session.Result{}, err
			}
			continue
		}
		served, err := e.serveQueue(ctx, k)
		if err = errors.Join(err, lease.Release()); err != nil {
			return session.Result{}, err
		}
		if !served { // a turn before ours belongs to a process that is there
			_ = sleep(ctx, waitEvery)
		}
		w.served = w.served || served
	}
}

// leave ends a wait whose context has ended.
func (e *Engine) leave(ctx context.Context, k ticket, row session.Turn) (session.Result, error) {
	over := causeEnd(context.Cause(ctx))
	ctx, cancel := ending(ctx)
	defer cancel()
	if !k.own {
		row.Reason, row.ExitCode, row.Error = over.reason, over.exitCode(), over.err
		return e.result(ctx, row)
	}
	if err := e.closeTurn(ctx, k.session, row, over); err != nil {
		return session.Result{}, err
	}
	row, err := e.Store.Turn(ctx, row.ID)
	if err != nil {
		return session.Result{}, err
	}
	return e.result(ctx, row)
}

// serveQueue serves the session's turns, oldest first, up to the ticket's. The
// caller holds the lease. It is false when the next turn is for another
// process that waits for it: each turn is served with the options of the
// process that asked for it.
func (e *Engine) serveQueue(ctx context.Context, k ticket) (bool, error) {
	if err := e.recover(ctx, k.session.ID); err != nil {
		return false, err
	}
	for {
		row, err := e.Store.NextTurn(ctx, k.session.ID)
		if errors.Is(err, store.ErrNotFound) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		switch {
		case row.ID == k.turn.ID:
			return true, e.serve(ctx, k.session.ID, row)
		case row.State == session.TurnOpen:
			died := end{reason: session.ReasonInternal, err: session.NewError(session.UnknownError, "owner died")}
			if err := e.closeTurn(ctx, k.session, row, died); err != nil {
				return false, err
			}
		case alive(row.OwnerPID, row.OwnerHost):
			return false, nil
		default:
			if err := e.serve(ctx, k.session.ID, row); err != nil {
				return false, err
			}
		}
		if ctx.Err() != nil {
			return true, nil //nolint:nilerr // the caller looks at ctx
		}
	}
}

// recover settles what a dead owner left open. The caller holds the lease.
func (e *Engine) recover(ctx context.Context, sessionID string) error {
	history, err := e.Store.History(ctx, sessionID)
	if err != nil {
		return err
	}
	repairs := session.Repair(history, e.nowMS())
	if repairs.Empty() {
		return nil
	}
	s, err := e.Store.Session(ctx, sessionID)
	if err != nil {
		return err
	}
	repairs.Parts = append(repairs.Parts, e.missingPatches(ctx, s, repairs.Messages)...)
	return e.Store.Write(ctx, func(tx *store.Tx) error {
		for _, id := range repairs.Removed {
			if err := tx.DeleteMessage(sessionID, id); err != nil {
				return err
			}
		}
		for _, p := range repairs.Parts {
			if err := tx.SavePart(p); err != nil {
				return err
			}
		}
		for _, m := range repairs.Messages {
			if err := tx.SaveMessage(m); err != nil {
				return err
			}
		}
		return nil
	})
}

// serve opens a turn, runs it to its end and closes it. The caller holds the
// session's lease.
func (e *Engine) serve(ctx context.Context, sessionID string, row session.Turn) error {
	ok, err := e.Store.ClaimTurn(ctx, row.ID, e.PID, e.host)
	if err != nil || !ok {
		return err
	}
	row.State = session.TurnOpen
	s, err := e.Store.Session(ctx, sessionID)
	if err != nil {
		return err
	}
	e.emit(s, session.TurnBegan{TurnID: row.ID, MessageID: row.MessageID})
	t, err := e.open(ctx, s, row)
	var over end
	if err != nil {
		over = (&turn{Engine: e}).failed(ctx, err)
	} else {
		over = t.serve(ctx)
	}
	if err := e.closeTurn(ctx, s, row, over); err != nil || t == nil {
		return err
	}
	t.aftermath(ctx)
	return nil
}

// serve runs the turn while it watches for others' wishes.
func (t *turn) serve(ctx context.Context) end {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t.watch(ctx, cancel)
	}()
	storeTitle := t.title(ctx)
	over := t.run(ctx)
	storeTitle(ctx)
	cancel(nil)
	<-watched
	t.env.Jobs.Close()
	return over
}

// closeTurn gives a turn its end, unless it has one, and reports it. It is
// done even after ctx has ended.
func (e *Engine) closeTurn(ctx context.Context, s session.Session, row session.Turn, over end) error {
	ctx, cancel := ending(ctx)
	defer cancel()
	closed, won, err := e.Store.CloseTurn(ctx, row.ID, store.End{Reason: over.reason, ExitCode: over.exitCode(), Error: over.err})
	if err != nil {
		return fmt.Errorf("close turn %q: %w", row.ID, err)
	}
	if won && over.err != nil {
		e.emit(s, session.Failed{Error: over.err})
	}
	if won {
		e.emit(s, session.StatusChanged{Status: session.Status{Type: session.StatusIdle}})
	}
	e.emit(s, session.TurnEnded{TurnID: row.ID, Reason: closed.Reason})
	return nil
}

// open looks up what serving a turn needs.
func (e *Engine) open(ctx context.Context, s session.Session, row session.Turn) (*turn, error) {
	t := &turn{
		Engine: e, row: row, session: s, view: store.NewView(e.Store, s.ID), fallbacks: e.Fallback,
		breaker: compact.Breaker{Auto: e.Compaction.Auto},
	}
	head, err := e.Store.Message(ctx, s.ID, row.MessageID)
	if err != nil {
		return nil, err
	}
	t.head, t.format, t.model = head, head.Format, head.Model
	history, err := t.history(ctx)
	if err != nil {
		return nil, err
	}
	agent, err := e.Agent(t.agentOf(history))
	if err != nil {
		return nil, err
	}
	t.root = e.Root(s.Directory)
	t.context = e.Context(s.Directory, t.root)
	if t.env, err = t.newEnv(history); err != nil {
		return nil, err
	}
	t.resume(history)
	if e.More != nil {
		if t.more, t.context.MCP, err = e.More(ctx); err != nil {
			return nil, &endError{end{reason: session.ReasonUsage, err: session.NewError(session.UsageError, err.Error())}}
		}
	}
	return t, t.workAs(agent)
}

// agentOf is the agent of the turn's newest user message: a plan that was
// approved went on as another than the one that was asked for.
func (t *turn) agentOf(history []session.Message) string {
	name := t.head.Agent
	for i := range history {
		if m := &history[i]; m.Role == session.User && m.TurnID == t.row.ID {
			name = m.Agent
		}
	}
	return name
}

// resume counts what the turn has used before this process took it over. A
// child's turn counts with its parent's run.
func (t *turn) resume(history []session.Message) {
	before := resultOf(t.row, history)
	t.steps, t.calls = before.Steps, before.ToolCalls
	if t.parent != nil {
		t.budget = t.parent.budget
		return
	}
	t.budget = &budget{steps: before.Steps}
	t.budget.use(before.Tokens, before.Cost)
}

// offered are the tools this turn may call: not those that rules close, nor
// those the user's message switches off.
func (t *turn) offered() ([]tools.Tool, error) {
	off := map[string]bool{}
	for _, name := range t.head.Tools {
		off[name] = true
	}
	var out []tools.Tool
	for _, tool := range sorted(append(t.Tools.Offered(t.model.ID), t.more...)) {
		if !off[tool.Name()] && !t.gate.hidden(tool.Name()) {
			out = append(out, tool)
		}
	}
	if len(t.context.Skills) > 0 && !off["skill"] && !t.gate.hidden("skill") {
		out = sorted(append(out, skillTool{t.context.Skills}))
	}
	if t.depth() < t.SubagentDepth && !off[taskName] && !t.gate.hidden(taskName) {
		out = sorted(append(out, taskTool{t}))
	}
	if t.format != nil {
		return addStructured(out, t.format.Schema)
	}
	return out, nil
}
