package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"rally/internal/session"
)

const messageColumns = "m.session_id, m.id, m.role, m.parent_id, m.turn_id, m.place, m.seq, m.created, m.completed, m.data"

// partColumns hold the text of an open part in two pieces: what is in its
// data, and its chunks.
const partColumns = `p.session_id, p.id, p.message_id, p.rev, p.data, CASE WHEN p.type IN ('text', 'reasoning') THEN
	(SELECT group_concat(c.text, '' ORDER BY c.n) FROM chunk c WHERE c.part_key = p.key) END`

// read runs fn on one snapshot of the file. fn must close its rows.
func (s *Store) read(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := s.r.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	return fn(tx)
}

// History reads the session's messages with their parts, ordered by place and
// seq; empty for a session without messages or that does not exist.
func (s *Store) History(ctx context.Context, sessionID string) ([]session.Message, error) {
	return s.messages(ctx, "m.session_id = ?", sessionID)
}

// TurnMessages reads the messages that carry the turn's id, with their parts,
// in reading order.
func (s *Store) TurnMessages(ctx context.Context, sessionID, turnID string) ([]session.Message, error) {
	return s.messages(ctx, "m.session_id = ? AND m.turn_id = ?", sessionID, turnID)
}

// Message reads one message with its parts; NotFoundError if there is none.
func (s *Store) Message(ctx context.Context, sessionID, id string) (session.Message, error) {
	out, err := s.messages(ctx, "m.session_id = ? AND m.id = ?", sessionID, id)
	if err != nil {
		return session.Message{}, err
	}
	if len(out) == 0 {
		return session.Message{}, &NotFoundError{Kind: "message", ID: id}
	}
	return out[0], nil
}

func (s *Store) messages(ctx context.Context, where string, args ...any) ([]session.Message, error) {
	var out []session.Message
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		out, err = loadMessages(ctx, tx, where, args...)
		return err
	})
	return out, s.fail("read messages", err)
}

// loadMessages reads messages and then all their parts in the same order, so
// that one pass puts them together.
func loadMessages(ctx context.Context, q querier, where string, args ...any) ([]session.Message, error) {
	out, err := queryMessages(ctx, q, where+" ORDER BY m.place, m.seq", args...)
	if err != nil {
		return nil, err
	}
	parts, err := queryParts(ctx, q, "JOIN message m ON m.session_id = p.session_id AND m.id = p.message_id WHERE "+
		where+" ORDER BY m.place, m.seq, p.position", args...)
	if err != nil {
		return nil, err
	}
	i := 0
	for _, p := range parts {
		for out[i].ID != p.Head().MessageID {
			i++
		}
		out[i].Parts = append(out[i].Parts, p)
	}
	return out, nil
}

// Delta is what changed in a session since some rev.
type Delta struct {
	Messages []session.Message // without parts, in order of writing
	Parts    []session.Part    // in order of writing
	Purged   bool              // something was deleted: read the history anew
	Rev      int64             // ask for what comes after it next time
}

// Changes reads what was written to the session after rev, on one snapshot.
func (s *Store) Changes(ctx context.Context, sessionID string, rev int64) (Delta, error) {
	var d Delta
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		if d.Purged, d.Rev, err = purgedSince(ctx, tx, sessionID, rev); err != nil {
			return err
		}
		if d.Messages, err = queryMessages(ctx, tx, "m.session_id = ? AND m.rev > ? ORDER BY m.rev", sessionID, rev); err != nil {
			return err
		}
		d.Parts, err = queryParts(ctx, tx, "WHERE p.session_id = ? AND p.rev > ? ORDER BY p.rev", sessionID, rev)
		return err
	})
	return d, s.fail("read changes", err)
}

// purgedSince also returns the newest rev of the snapshot.
func purgedSince(ctx context.Context, q querier, sessionID string, rev int64) (bool, int64, error) {
	var purged, newest int64
	err := q.QueryRowContext(ctx, "SELECT purged, (SELECT rev FROM counter) FROM session WHERE id = ?", sessionID).Scan(&purged, &newest)
	if errors.Is(err, sql.ErrNoRows) {
		return false, 0, &NotFoundError{Kind: "session", ID: sessionID}
	}
	return purged > rev, newest, err
}

func queryMessages(ctx context.Context, q querier, where string, args ...any) ([]session.Message, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+messageColumns+" FROM message m WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var out []session.Message
	for rows.Next() {
		m, err := scanMessage(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, rows.Err()
}

// scanMessage decodes data and lets the columns overrule it.
func scanMessage(row scanner) (session.Message, error) {
	var c session.Message
	var data []byte
	err := row.Scan(&c.SessionID, &c.ID, &c.Role, &c.ParentID, &c.TurnID, &c.Place, &c.Seq, &c.Created, &c.Completed, &data)
	if err != nil {
		return c, err
	}
	var m session.Message
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("decode message %q: %w", c.ID, err)
	}
	m.SessionID, m.ID, m.Role, m.ParentID, m.TurnID = c.SessionID, c.ID, c.Role, c.ParentID, c.TurnID
	m.Place, m.Seq, m.Created, m.Completed = c.Place, c.Seq, c.Created, c.Completed
	return m, nil
}

func queryParts(ctx context.Context, q querier, where string, args ...any) ([]session.Part, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+partColumns+" FROM part p "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var out []session.Part
	for rows.Next() {
		p, err := scanPart(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

func scanPart(row scanner) (session.Part, error) {
	var h session.Header
	var data []byte
	var more sql.NullString
	if err := row.Scan(&h.SessionID, &h.ID, &h.MessageID, &h.Rev, &data, &more); err != nil {
		return nil, err
	}
	p, err := session.DecodePart(data)
	if err != nil {
		return nil, fmt.Errorf("part %q: %w", h.ID, err)
	}
	*p.Head() = h
	if !more.Valid {
		return p, nil
	}
	if t, ok := p.(*session.Text); ok {
		t.Text += more.String
	}
	if r, ok := p.(*session.Reasoning); ok {
		r.Text += more.String
	}
	return p, nil
}
