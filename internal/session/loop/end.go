package loop

import (
	"context"
	"errors"
	"time"

	"rally/internal/session"
	"rally/internal/session/store"
)

// endDeadline bounds the writes that give a step or turn its end state after
// its context has ended.
const endDeadline = 5 * time.Second

// ending is a context for those writes: it outlives ctx, but not for long
// (invariant 11).
func ending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), endDeadline)
}

// abandonStep is abandon for a step whose tools had begun: what they changed
// so far is listed.
func (t *turn) abandonStep(ctx context.Context, m *session.Message, start *session.StepStart, cause error) error {
	over := t.abandon(ctx, m, nil, cause)
	ctx, cancel := ending(ctx)
	defer cancel()
	patch, _ := t.patch(ctx, m, start)
	if patch == nil {
		return over
	}
	return errors.Join(over, t.Store.Write(ctx, func(tx *store.Tx) error { return tx.SavePart(patch) }))
}

// abandon gives a step that broke off its end state: what streamed is kept,
// calls without a result are marked, the message has an error and is
// completed. It returns the error that ends the turn, cause first.
func (t *turn) abandon(ctx context.Context, m *session.Message, rec *recorder, cause error) error {
	over := t.failed(ctx, cause)
	ctx, cancel := ending(ctx)
	defer cancel()
	now := t.nowMS()
	if rec != nil {
		rec.apply(rec.proc.end(now))
		if err := rec.flush(ctx); err != nil {
			return errors.Join(&endError{over}, err)
		}
	}
	stored, err := t.Store.Message(ctx, t.session.ID, m.ID)
	if err != nil {
		return errors.Join(&endError{over}, err)
	}
	var settled []session.Part
	for _, p := range stored.Parts {
		if call, ok := p.(*session.Tool); ok && call.Interrupt(now) {
			settled = append(settled, call)
		}
	}
	m.Error, m.Completed = over.err, now
	if err := t.Store.Write(ctx, func(tx *store.Tx) error {
		for _, p := range settled {
			if err := tx.SavePart(p); err != nil {
				return err
			}
		}
		return tx.SaveMessage(m)
	}); err != nil {
		return errors.Join(&endError{over}, err)
	}
	for _, p := range settled {
		t.emit(t.session, session.PartEnded{Part: p})
	}
	return &endError{over}
}
