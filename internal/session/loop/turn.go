package loop

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"rally/internal/compact"
	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
	"rally/internal/tools"
)

// signalsEvery is how often the owner of a turn looks whether someone wants it
// to end.
const signalsEvery = 100 * time.Millisecond

// errAborted is the cause of a context that `rally abort` ended.
var errAborted = errors.New("aborted")

// turn is an open turn while this process serves it. What must outlive the
// process is in rows; the fields here are looked up once, or count what the
// turn has spent.
type turn struct {
	*Engine
	row     session.Turn
	session session.Session
	agent   session.Agent
	head    session.Message // the user message it answers
	format  *session.Format
	root    string
	view    *store.View
	env     *tools.Env
	context prompt.Context
	// planFile is where the session's plan goes; planExists says it was there
	// when the turn began.
	planFile   string
	planExists bool
	more       []tools.Tool // of servers
	tools      []tools.Tool // offered
	gate       *gate

	budget     *budget // of the whole run
	steps      int     // of this turn
	calls      int     // of this turn
	superseded atomic.Bool
	answered   bool // a provider has answered in this run
	repairs    int  // of structured output
	lengths    int  // steps in a row that hit the output limit
	last       session.Status

	snaps        snapshots
	breaker      compact.Breaker
	ratio        compact.Ratio
	cleared      bool // old output was left out because a request was too long
	withoutMedia bool

	lastStep  bool // this step is the last one the limits allow
	fallbacks []session.Model
	model     session.Model // in use: the turn's, or a fallback
}

// end is how a turn ends.
type end struct {
	reason session.Reason
	code   int // 0: the reason's own
	err    *session.Error
}

func (e end) exitCode() int {
	if e.code != 0 {
		return e.code
	}
	return e.reason.ExitCode()
}

// run is the loop. Each round reads the history again, decides, and takes at
// most one step; it returns why the turn ends.
func (t *turn) run(ctx context.Context) end {
	for {
		history, err := t.history(ctx)
		if err != nil {
			return t.failed(ctx, err)
		}
		if done(history, t.row.ID) {
			return end{reason: session.ReasonCompleted}
		}
		if sub := t.pendingSubtask(history); sub != nil {
			if stop, err := t.subtask(ctx, sub); err != nil {
				return t.failed(ctx, err)
			} else if stop != nil {
				return *stop
			}
			continue
		}
		if marker := compact.Pending(history, t.row.ID); marker != nil {
			if err := t.resumeCompaction(ctx, history, marker); err != nil {
				return t.failed(ctx, err)
			}
			if t.compactOnly() {
				return end{reason: session.ReasonCompleted}
			}
			continue
		}
		if stop, over := t.limits(); over {
			return stop
		}
		out, err := t.fittingStep(ctx, history)
		if err != nil {
			return t.failed(ctx, err)
		}
		if out == nil {
			continue // room was made: the history is another one
		}
		stop, over, err := t.after(ctx, out)
		if err != nil {
			return t.failed(ctx, err)
		}
		if over {
			return stop
		}
	}
}

// fittingStep makes a step whose request fits the window; nil says that room
// had to be made first.
func (t *turn) fittingStep(ctx context.Context, history []session.Message) (*outcome, error) {
	_, model, err := t.Model(t.model)
	if err != nil {
		return nil, err
	}
	req := t.request(model, history)
	if changed, err := t.fit(ctx, history, req); err != nil || changed {
		return nil, err
	}
	out, err := t.step(ctx, history, req)
	if tooLong(err) {
		return nil, t.refused(ctx, history, req, err)
	}
	if err == nil {
		t.breaker.Succeeded(out.message.Tokens.Sum(), model.Context)
	}
	return out, err
}

// done reports whether the turn has its answer: the newest message by the
// model in this turn answers the turn's newest user message, has a finish and
// no call whose result the model has yet to see. The finish alone is never
// believed: servers say "stop" beside calls and "tool-calls" without any.
func done(history []session.Message, turnID string) bool {
	var user, answer *session.Message
	for i := range history {
		m := &history[i]
		if m.TurnID != turnID {
			continue
		}
		if m.Role == session.User {
			user = m
		} else if m.Error == nil && !m.Summary {
			answer = m
		}
	}
	if user == nil || answer == nil {
		return false
	}
	return answer.ParentID == user.ID && answer.Finish != "" && !hasLocalCalls(answer)
}

func hasLocalCalls(m *session.Message) bool {
	for _, call := range m.ToolCalls() {
		if !call.Metadata.Bool(session.MetaProviderExecuted) {
			return true
		}
	}
	return false
}

// history reads what the turn may see: everything up to and including its own
// messages, nothing that stands behind it in the queue.
func (t *turn) history(ctx context.Context) ([]session.Message, error) {
	all, err := t.view.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	n := len(all)
	for n > 0 && all[n-1].Place > t.head.Place {
		n--
	}
	return all[:n], nil
}

// limits ends the turn where going on would spend more than allowed. It is
// the one place where limits are checked, and it comes before the request.
func (t *turn) limits() (end, bool) {
	reason, last := t.budget.over(t.Limits)
	if reason != "" {
		return end{reason: reason}, true
	}
	if t.agent.Steps > 0 && t.steps >= t.agent.Steps {
		return end{reason: session.ReasonLimitSteps}, true
	}
	t.lastStep = last || (t.agent.Steps > 0 && t.steps == t.agent.Steps-1)
	return end{}, false
}

// failed is the end that belongs to an error: the context's cause first, since
// an abort makes everything else fail.
func (t *turn) failed(ctx context.Context, err error) end {
	if cause := context.Cause(ctx); cause != nil {
		return causeEnd(cause)
	}
	var e *llm.Error
	if errors.As(err, &e) {
		return end{reason: providerReason(e), err: e.Session()}
	}
	var own *endError
	if errors.As(err, &own) {
		return own.end
	}
	return end{reason: session.ReasonInternal, err: session.NewError(session.UnknownError, err.Error())}
}

// providerReason is the reason of a turn that a provider's error ended.
func providerReason(e *llm.Error) session.Reason {
	switch e.Class {
	case llm.Auth:
		return session.ReasonAuth
	case llm.Overflow:
		return session.ReasonContextOverflow
	case llm.ContentFilter:
		return session.ReasonContentFilter
	case llm.Quota, llm.RateLimit, llm.TooLarge, llm.BadRequest, llm.Server, llm.Network, llm.Incomplete, llm.Timeout, llm.Unknown:
		return session.ReasonProvider
	}
	return session.ReasonProvider
}

// endError carries an end through error returns.
type endError struct{ end end }

func (e *endError) Error() string {
	if e.end.err != nil {
		return e.end.err.Error()
	}
	return string(e.end.reason)
}

// causeEnd is the end that belongs to a context's cause.
func causeEnd(cause error) end {
	e := end{reason: session.ReasonInterrupted, err: session.NewError(session.AbortedError, cause.Error())}
	switch {
	case errors.Is(cause, errAborted):
		e.reason = session.ReasonAborted
	case errors.Is(cause, ErrTimeout), errors.Is(cause, context.DeadlineExceeded):
		e.reason = session.ReasonTimeout
	case errors.Is(cause, ErrOutputClosed):
		e.reason = session.ReasonOutputClosed
	case errors.Is(cause, ErrTerminated):
		e.code = session.ExitCodeTerminated
	}
	return e
}

// watch ends ctx when an abort is asked for, and notes when a newer prompt
// wants the session. It returns when ctx ends.
func (t *turn) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(signalsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		abort, superseded, err := t.Store.Signals(ctx, t.row.ID)
		if err != nil {
			continue // the next write will say what is wrong
		}
		if superseded {
			t.superseded.Store(true)
		}
		if abort {
			cancel(errAborted)
			return
		}
	}
}

func (t *turn) delta(c change) {
	t.emit(t.session, session.Delta{PartID: c.part.Head().ID, Field: c.field, Text: c.delta})
}

// status reports what the turn is doing, where that is new.
func (t *turn) status(ctx context.Context, s session.Status) {
	if s == t.last {
		return
	}
	t.last = s
	t.emit(t.session, session.StatusChanged{Status: s})
	if err := t.Store.SetStatus(ctx, t.session.ID, s); err != nil && ctx.Err() == nil {
		t.emit(t.session, session.Notice{Text: "the session's status could not be stored: " + err.Error()})
	}
}
