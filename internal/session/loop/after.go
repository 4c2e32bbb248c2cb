package loop

import (
	"context"

	"rally/internal/session"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
)

// structuredRepairs is how often a model that did not give the structured
// answer is told to.
const structuredRepairs = 2

// verdict is what follows a step.
type verdict string

// The verdicts.
const (
	goOn     verdict = "go on"
	stopNow  verdict = "stop"
	complete verdict = "complete"
	repair   verdict = "repair"
	yield    verdict = "yield"
	limit    verdict = "limit"
)

// facts are what decides about a step that has ended.
type facts struct {
	structured bool // the structured answer was given
	stopped    bool // the step itself ended the turn: refused, filtered, cut, looping
	schema     bool // a structured answer is wanted
	calls      bool // the step called tools
	paused     bool // the provider wants to go on
	superseded bool // a newer prompt wants the session
	lastStep   bool // no further step is allowed
	called     bool // some step of the turn called tools
}

// decide is the third seed's order of what is looked at after a step: the
// structured answer, its lack, errors and refusals, the follow-up, and last
// the limit. The first row that applies decides.
func (f facts) decide() verdict {
	switch {
	case f.structured:
		return complete
	case f.stopped:
		return stopNow
	case f.schema && !f.calls && !f.paused && !f.lastStep:
		return repair
	case !f.calls && !f.schema && !f.paused && (!f.lastStep || !f.called):
		return complete
	case f.superseded:
		return yield
	case f.lastStep:
		return limit
	}
	return goOn
}

// after decides about a step and does what the decision asks for.
func (t *turn) after(ctx context.Context, out *outcome) (end, bool, error) {
	f := facts{
		structured: out.structured != nil, stopped: out.stop != nil, schema: t.format != nil, calls: out.calls > 0, paused: out.paused,
		superseded: t.superseded.Load(), lastStep: t.lastStep, called: t.calls > 0,
	}
	switch f.decide() {
	case complete:
		return end{reason: session.ReasonCompleted}, true, nil
	case stopNow:
		return *out.stop, true, nil
	case repair:
		return t.askForStructure(ctx)
	case yield:
		return end{reason: session.ReasonSuperseded}, true, nil
	case limit:
		return end{reason: session.ReasonLimitSteps}, true, nil
	case goOn:
	}
	return end{}, false, nil
}

// askForStructure adds a synthetic message that asks for the structured
// answer, or ends the turn when that was done often enough.
func (t *turn) askForStructure(ctx context.Context) (end, bool, error) {
	if t.repairs++; t.repairs > structuredRepairs {
		return end{
			reason: session.ReasonNoStructured,
			err:    session.NewError(session.StructuredError, "the model did not produce structured output"),
		}, true, nil
	}
	return end{}, false, t.say(ctx, prompt.StructuredReminder)
}

// say stores a synthetic user message of this turn.
func (t *turn) say(ctx context.Context, text string) error {
	return t.Store.Write(ctx, func(tx *store.Tx) error { return t.saveSaying(tx, text) })
}

func (t *turn) saveSaying(tx *store.Tx, text string) error {
	m := t.synthetic()
	if err := tx.SaveMessage(m); err != nil {
		return err
	}
	return tx.SavePart(&session.Text{Header: t.partHead(m), Text: text, Synthetic: true})
}

// synthetic is a user message of this turn that the user did not write.
func (t *turn) synthetic() *session.Message {
	return &session.Message{
		ID: t.NewID("msg"), SessionID: t.session.ID, Role: session.User, TurnID: t.row.ID, Created: t.nowMS(),
		Agent: t.head.Agent, Model: t.head.Model, System: t.head.System, AppendSystem: t.head.AppendSystem, Format: t.head.Format,
	}
}
