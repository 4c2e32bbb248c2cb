package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"rally/internal/session"
)

const turnColumns = `t.id, t.session_id, t.message_id, t.state, t.reason, t.exit_code, t.error, t.owner_pid, t.owner_host,
	t.steps, t.abort_requested, t.supersede, t.opened, t.closed`

// Turn reads one turn; NotFoundError if there is none.
func (s *Store) Turn(ctx context.Context, id string) (session.Turn, error) {
	t, err := oneTurn(ctx, s.r, "WHERE t.id = ?", id)
	if errors.Is(err, sql.ErrNoRows) {
		return t, &NotFoundError{Kind: "turn", ID: id}
	}
	return t, s.fail("read turn", err)
}

// Turns lists the session's turns in the order of the queue.
func (s *Store) Turns(ctx context.Context, sessionID string) ([]session.Turn, error) {
	out, err := queryTurns(ctx, s.r, "WHERE t.session_id = ? ORDER BY t.n", sessionID)
	return out, s.fail("read turns", err)
}

// AliveTurns lists the open and pending turns of all sessions, oldest first.
func (s *Store) AliveTurns(ctx context.Context) ([]session.Turn, error) {
	out, err := queryTurns(ctx, s.r, "WHERE t.state <> 'closed' ORDER BY t.n")
	return out, s.fail("read turns", err)
}

// NextTurn is the session's oldest turn that is not closed. The caller holds
// the lease, so an open one was left by an owner that is gone. NotFoundError
// if there is none.
func (s *Store) NextTurn(ctx context.Context, sessionID string) (session.Turn, error) {
	t, err := oneTurn(ctx, s.r, "WHERE t.session_id = ? AND t.state <> 'closed' ORDER BY t.n LIMIT 1", sessionID)
	if errors.Is(err, sql.ErrNoRows) {
		return t, &NotFoundError{Kind: "waiting turn of session", ID: sessionID}
	}
	return t, s.fail("read turn", err)
}

// ClaimTurn opens a pending turn or takes over an open one for the process
// pid on host. It is false when the turn is closed or does not exist.
func (s *Store) ClaimTurn(ctx context.Context, id string, pid int, host string) (bool, error) {
	var n int64
	err := s.write(ctx, relaxed, func(tx *Tx) (err error) {
		n, err = tx.affected(`UPDATE turn SET state = 'open', owner_pid = ?2, owner_host = ?3,
			opened = CASE WHEN opened = 0 THEN ?4 ELSE opened END WHERE id = ?1 AND state <> 'closed'`,
			id, pid, host, s.opts.Now())
		return err
	})
	return n > 0, err
}

// End is how a turn ended.
type End struct {
	Reason   session.Reason
	ExitCode int
	Error    *session.Error // nil unless it failed
}

// CloseTurn closes a turn and makes its session idle, durably. The first
// writer wins; won is false for all others, who get the end that is stored.
func (s *Store) CloseTurn(ctx context.Context, id string, end End) (turn session.Turn, won bool, err error) {
	err = s.write(ctx, durable, func(tx *Tx) error {
		turn, won, err = tx.closeTurn(id, end)
		return err
	})
	return turn, won, err
}

func (tx *Tx) closeTurn(id string, end End) (session.Turn, bool, error) {
	var failure any
	if end.Error != nil {
		b, err := json.Marshal(end.Error)
		if err != nil {
			return session.Turn{}, false, err
		}
		failure = string(b)
	}
	n, err := tx.affected(`UPDATE turn SET state = 'closed', reason = ?2, exit_code = ?3, error = ?4, closed = ?5
		WHERE id = ?1 AND state <> 'closed'`, id, string(end.Reason), end.ExitCode, failure, tx.s.opts.Now())
	if err != nil {
		return session.Turn{}, false, err
	}
	t, err := oneTurn(tx.ctx, tx.tx, "WHERE t.id = ?", id)
	if errors.Is(err, sql.ErrNoRows) {
		return t, false, &NotFoundError{Kind: "turn", ID: id}
	}
	if err != nil || n == 0 {
		return t, false, err
	}
	if _, err := tx.nextRev(t.SessionID); err != nil {
		return t, false, err
	}
	return t, true, tx.SetStatus(t.SessionID, session.Status{Type: session.StatusIdle})
}

// SetSteps stores how many steps the turn has had.
func (s *Store) SetSteps(ctx context.Context, id string, n int) error {
	return s.write(ctx, relaxed, func(tx *Tx) error { return tx.SetSteps(id, n) })
}

// SetSteps is Store.SetSteps within the transaction.
func (tx *Tx) SetSteps(id string, n int) error {
	return tx.exec("UPDATE turn SET steps = ? WHERE id = ?", n, id)
}

// RequestAbort marks the open and pending turns of the sessions and returns
// them, oldest first. Their owners see it with Signals.
func (s *Store) RequestAbort(ctx context.Context, sessionIDs ...string) ([]session.Turn, error) {
	var out []session.Turn
	err := s.write(ctx, relaxed, func(tx *Tx) error {
		list, err := jsonList(sessionIDs)
		if err != nil {
			return err
		}
		const chosen = "state <> 'closed' AND session_id IN (SELECT value FROM json_each(?))"
		if err := tx.exec("UPDATE turn SET abort_requested = 1 WHERE "+chosen, list); err != nil {
			return err
		}
		out, err = queryTurns(tx.ctx, tx.tx, "WHERE "+chosen+" ORDER BY t.n", list)
		return err
	})
	return out, err
}

// Signals reads what others want of a turn: to end now (abort), or to end
// after its current step because a later message takes the session over
// (superseded). It is cheap enough to be asked ten times a second.
func (s *Store) Signals(ctx context.Context, turnID string) (abort, superseded bool, err error) {
	err = s.r.QueryRowContext(ctx, `SELECT t.abort_requested, EXISTS (SELECT 1 FROM turn l
		WHERE l.session_id = t.session_id AND l.n > t.n AND l.state = 'pending' AND l.state <> 'closed' AND l.supersede = 1)
		FROM turn t WHERE t.id = ?`, turnID).Scan(&abort, &superseded)
	if errors.Is(err, sql.ErrNoRows) {
		return false, false, &NotFoundError{Kind: "turn", ID: turnID}
	}
	return abort, superseded, s.fail("read turn", err)
}

func (tx *Tx) insertTurn(t session.Turn) error {
	return tx.exec(`INSERT INTO turn (id, session_id, message_id, state, owner_pid, owner_host, supersede)
		VALUES (?, ?, ?, 'pending', ?, ?, ?)`, t.ID, t.SessionID, t.MessageID, t.OwnerPID, t.OwnerHost, t.Supersede)
}

func oneTurn(ctx context.Context, q querier, where string, args ...any) (session.Turn, error) {
	return scanTurn(q.QueryRowContext(ctx, "SELECT "+turnColumns+" FROM turn t "+where, args...))
}

func queryTurns(ctx context.Context, q querier, where string, args ...any) ([]session.Turn, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+turnColumns+" FROM turn t "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var out []session.Turn
	for rows.Next() {
		t, err := scanTurn(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

func scanTurn(row scanner) (session.Turn, error) {
	var t session.Turn
	var failure sql.NullString
	err := row.Scan(&t.ID, &t.SessionID, &t.MessageID, &t.State, &t.Reason, &t.ExitCode, &failure, &t.OwnerPID, &t.OwnerHost,
		&t.Steps, &t.AbortRequested, &t.Supersede, &t.Opened, &t.Closed)
	if err != nil || !failure.Valid {
		return t, err
	}
	if err := json.Unmarshal([]byte(failure.String), &t.Error); err != nil {
		return t, fmt.Errorf("decode error of turn %q: %w", t.ID, err)
	}
	return t, nil
}
