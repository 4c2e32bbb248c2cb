package loop

import (
	"context"
	"errors"
	"fmt"

	"rally/internal/session"
)

// Abort ends the running and waiting turns of sessions and of their child
// sessions; no id means all sessions. It returns how many turns it ended,
// when each has its end state: written by the owner, or here where the owner
// is gone or does not answer before ctx ends.
func (e *Engine) Abort(ctx context.Context, ids ...string) (int, error) {
	sessions, err := e.family(ctx, ids)
	if err != nil {
		return 0, err
	}
	turns, err := e.Store.RequestAbort(ctx, sessions...)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, row := range turns {
		if err := e.awaitAbort(ctx, row); err != nil {
			errs = append(errs, fmt.Errorf("abort session %s: %w", row.SessionID, err))
		}
	}
	return len(turns), errors.Join(errs...)
}

// family is the sessions that ids name with all their descendants.
func (e *Engine) family(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		turns, err := e.Store.AliveTurns(ctx)
		if err != nil {
			return nil, err
		}
		var all []string
		for _, row := range turns {
			all = append(all, row.SessionID)
		}
		return all, nil
	}
	var all []string
	for _, id := range ids {
		s, err := e.find(ctx, id)
		if err != nil {
			return nil, err
		}
		below, err := e.Store.Descendants(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		all = append(append(all, s.ID), below...)
	}
	return all, nil
}

func (e *Engine) awaitAbort(ctx context.Context, row session.Turn) error {
	s, err := e.Store.Session(ctx, row.SessionID)
	if err != nil {
		return err
	}
	for {
		now, err := e.Store.Turn(ctx, row.ID)
		if err != nil || now.State == session.TurnClosed {
			return err
		}
		if now.State == session.TurnPending {
			return e.closeTurn(ctx, s, now, causeEnd(errAborted))
		}
		lease, ok, err := e.Store.TryLease(s.ID)
		if err != nil {
			return err
		}
		if ok { // its owner is gone
			err := e.recover(ctx, s.ID)
			if err == nil {
				err = e.closeTurn(ctx, s, now, causeEnd(errAborted))
			}
			return errors.Join(err, lease.Release())
		}
		if err := sleep(ctx, waitEvery/2); err != nil {
			return err
		}
	}
}
