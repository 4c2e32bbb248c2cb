package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"rally/internal/session"
)

// Fork stores the session v, which must be new, with a copy of all messages
// of the session sourceID, in one transaction. Messages and parts get new ids
// and every link between them follows, those of v.Revert included. Copies
// belong to no turn, and cost 0: the source has paid. The caller sets v's ID
// and whatever it takes over from the source (rules, model, todos, revert).
func (s *Store) Fork(ctx context.Context, sourceID string, v session.Session) error {
	return s.write(ctx, durable, func(tx *Tx) error {
		if _, err := getSession(tx.ctx, tx.tx, sourceID); errors.Is(err, sql.ErrNoRows) {
			return &NotFoundError{Kind: "session", ID: sourceID}
		} else if err != nil {
			return err
		}
		messages, err := loadMessages(tx.ctx, tx.tx, "m.session_id = ?", sourceID)
		if err != nil {
			return err
		}
		v.Revert = s.renew(v.ID, messages, v.Revert)
		if err := tx.createSession(v); err != nil {
			return err
		}
		return tx.insertHistory(v.ID, messages)
	})
}

// renew gives messages and parts their new identity, in place, and returns
// revert with the new ids.
func (s *Store) renew(sessionID string, messages []session.Message, revert *session.Revert) *session.Revert {
	ids := map[string]string{"": ""}
	for i := range messages {
		ids[messages[i].ID] = s.opts.NewID("msg")
		for _, p := range messages[i].Parts {
			ids[p.Head().ID] = s.opts.NewID("prt")
		}
	}
	for i := range messages {
		m := &messages[i]
		m.SessionID, m.ID, m.ParentID, m.TurnID = sessionID, ids[m.ID], ids[m.ParentID], ""
		if m.Role == session.Assistant {
			m.Cost = new(session.Money)
		}
		for _, p := range m.Parts {
			*p.Head() = session.Header{ID: ids[p.Head().ID], SessionID: sessionID, MessageID: m.ID}
			renewPart(p, ids)
		}
	}
	if revert == nil {
		return nil
	}
	r := *revert
	r.MessageID, r.PartID = ids[r.MessageID], ids[r.PartID]
	return &r
}

// renewPart follows the ids inside a part.
func renewPart(p session.Part, ids map[string]string) {
	switch p := p.(type) {
	case *session.StepFinish:
		p.Cost = new(session.Money)
	case *session.Compaction:
		p.TailStartID = ids[p.TailStartID]
	case *session.Tool:
		for _, f := range p.State.Attachments {
			f.SessionID, f.MessageID = p.SessionID, p.MessageID
		}
	case *session.Text, *session.Reasoning, *session.File, *session.StepStart, *session.Snapshot, *session.Patch,
		*session.AgentRef, *session.Subtask, *session.Retry:
	}
}

// Import stores a session with its messages and their parts as they are, in
// one transaction. ErrExists if the session, or a part of that id, is there.
// The order given is the order of each message among those of its place:
// an assistant message stands with the user message it answers, a user
// message of a turn that began before with that turn.
func (s *Store) Import(ctx context.Context, v session.Session, messages []session.Message) error {
	return s.write(ctx, durable, func(tx *Tx) error {
		if err := tx.createSession(v); err != nil {
			return err
		}
		placeImported(messages)
		return tx.insertHistory(v.ID, messages)
	})
}

// placeImported gives messages their places, in place.
func placeImported(messages []session.Message) {
	var last int64
	byID, byTurn := map[string]int64{}, map[string]int64{}
	for i := range messages {
		m := &messages[i]
		place, ok := byID[m.ParentID]
		if m.Role == session.User {
			place, ok = byTurn[m.TurnID]
			if !ok {
				last++
			}
		}
		if !ok {
			last = max(last, 1)
			place = last
		}
		m.Place = place
		byID[m.ID] = place
		if m.Role == session.User && m.TurnID != "" {
			byTurn[m.TurnID] = place
		}
	}
}

func (tx *Tx) createSession(v session.Session) error {
	_, err := getSession(tx.ctx, tx.tx, v.ID)
	if err == nil {
		return fmt.Errorf("session %q: %w", v.ID, ErrExists)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return tx.insertSession(v)
}

// insertHistory stores messages in the order given, keeping their places.
func (tx *Tx) insertHistory(sessionID string, messages []session.Message) error {
	for i := range messages {
		m := &messages[i]
		m.SessionID = sessionID
		rev, err := tx.nextRev(sessionID)
		if err != nil {
			return err
		}
		v, err := messageValues(m, rev)
		if err != nil {
			return err
		}
		if m.Seq, err = tx.nextSeq(sessionID); err != nil {
			return err
		}
		if err := tx.exec(insertMessage, append(v, m.Place, m.Seq)...); err != nil {
			return fmt.Errorf("message %q: %w", m.ID, err)
		}
		for _, p := range m.Parts {
			p.Head().SessionID, p.Head().MessageID = sessionID, m.ID
			if err := tx.SavePart(p); err != nil {
				return err
			}
		}
	}
	return nil
}
