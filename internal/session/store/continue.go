package store

import (
	"context"
	"database/sql"
	"errors"

	"rally/internal/session"
)

// ContinueState is what ContinueTurn found or did.
type ContinueState int

// The outcomes of ContinueTurn.
const (
	// Nothing: the session has no user message.
	Nothing ContinueState = iota
	// Attached: the newest user message has an open or pending turn.
	Attached
	// Answered: it has been answered; the turn is nil where none served it (a
	// session that was imported or forked).
	Answered
	// Opened: a new pending turn was put on it.
	Opened
)

// ContinueTurn decides in one transaction how the session goes on, so that
// any number of callers at once make one new turn at most. It looks at the
// user message with the greatest place, and there at the first.
func (s *Store) ContinueTurn(ctx context.Context, sessionID, newTurnID string, pid int, host string) (*session.Turn, ContinueState, error) {
	var turn *session.Turn
	state := Nothing
	err := s.write(ctx, durable, func(tx *Tx) (err error) {
		turn, state, err = tx.continueTurn(session.Turn{
			ID: newTurnID, SessionID: sessionID, State: session.TurnPending, OwnerPID: pid, OwnerHost: host,
		})
		if err == nil && state != Opened {
			return errUnchanged
		}
		return err
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return turn, state, err
}

func (tx *Tx) continueTurn(fresh session.Turn) (*session.Turn, ContinueState, error) {
	var place int64
	err := tx.row("SELECT id, place FROM message WHERE session_id = ? AND role = 'user' ORDER BY place DESC, seq LIMIT 1", fresh.SessionID).
		Scan(&fresh.MessageID, &place)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, Nothing, nil
	}
	if err != nil {
		return nil, Nothing, err
	}
	newest, err := oneTurn(tx.ctx, tx.tx, "WHERE t.session_id = ? AND t.message_id = ? ORDER BY t.n DESC LIMIT 1", fresh.SessionID, fresh.MessageID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if done, err := tx.answered(fresh.SessionID, place); err != nil || done {
			return nil, Answered, err
		}
	case err != nil:
		return nil, Nothing, err
	case newest.State != session.TurnClosed:
		return &newest, Attached, nil
	case newest.Reason == session.ReasonCompleted:
		return &newest, Answered, nil
	}
	// The message is served by the new turn from now on.
	if err := tx.adopt(fresh); err != nil {
		return nil, Nothing, err
	}
	return &fresh, Opened, tx.insertTurn(fresh)
}

func (tx *Tx) adopt(t session.Turn) error {
	rev, err := tx.nextRev(t.SessionID)
	if err != nil {
		return err
	}
	return tx.exec("UPDATE message SET turn_id = ?, rev = ? WHERE session_id = ? AND id = ?", t.ID, rev, t.SessionID, t.MessageID)
}

// answered reports whether the newest message at place is a finished answer
// of the model. The finish alone is not believed: a call without a result
// contradicts it.
func (tx *Tx) answered(sessionID string, place int64) (bool, error) {
	m, err := scanMessage(tx.row("SELECT "+messageColumns+
		" FROM message m WHERE m.session_id = ? AND m.place = ? ORDER BY m.seq DESC LIMIT 1", sessionID, place))
	if err != nil || !isAnswer(&m) {
		return false, err
	}
	var open int
	err = tx.row(`SELECT count(*) FROM part WHERE session_id = ? AND message_id = ? AND type = 'tool'
		AND data ->> '$.state.status' NOT IN ('completed', 'error')`, sessionID, m.ID).Scan(&open)
	return open == 0, err
}

// isAnswer leaves out what was cut off or filtered: the model is asked again.
func isAnswer(m *session.Message) bool {
	ended := m.Finish == session.FinishStop || m.Finish == session.FinishUnknown
	return m.Role == session.Assistant && ended && m.Error == nil && !m.Summary
}
