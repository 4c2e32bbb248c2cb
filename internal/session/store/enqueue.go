package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"rally/internal/session"
)

// Prompt is a user message on its way into a session.
type Prompt struct {
	// Session is created (Create) or, for an existing one, its row is brought
	// up to what is set here: Agent, Model, Rules, Title, Directory. Zero
	// values (for Rules: nil) leave the row alone.
	Session session.Session
	Create  bool
	// Message has its id and its parts theirs; SessionID may be left empty.
	// Place and Seq are set on return, TurnID to the new turn.
	Message *session.Message
	// Turn asks for an answer; without it the message is only stored.
	Turn bool
	// Supersede asks the turn being served to end after its current step.
	Supersede bool
	OwnerPID  int // who waits for the answer
	OwnerHost string
}

// Enqueue stores the session, the message with its parts and a pending turn
// in one transaction that survives a power loss. It returns the turn, zero
// when none was asked for.
//
// ErrExists: the session was to be created and is there. If the session has a
// message of that id already, nothing is written, and attached is true with
// that message's newest turn (zero if it never had one).
func (s *Store) Enqueue(ctx context.Context, p Prompt) (turn session.Turn, attached bool, err error) {
	p.Message.SessionID = p.Session.ID
	err = s.write(ctx, durable, func(tx *Tx) error {
		if err := tx.openSession(p); err != nil {
			return err
		}
		old, err := oneTurn(tx.ctx, tx.tx, "WHERE t.session_id = ? AND t.message_id = ? ORDER BY t.n DESC LIMIT 1", p.Session.ID, p.Message.ID)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		err = tx.row("SELECT place, seq FROM message WHERE session_id = ? AND id = ?", p.Session.ID, p.Message.ID).
			Scan(&p.Message.Place, &p.Message.Seq)
		if err == nil {
			turn, attached = old, true
			return errUnchanged
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		turn, err = tx.enqueue(p)
		return err
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return turn, attached, err
}

// errUnchanged rolls a transaction back that has nothing to write.
var errUnchanged = errors.New("unchanged")

func (tx *Tx) openSession(p Prompt) error {
	old, err := getSession(tx.ctx, tx.tx, p.Session.ID)
	missing := errors.Is(err, sql.ErrNoRows)
	switch {
	case err != nil && !missing:
		return err
	case p.Create && !missing:
		return fmt.Errorf("session %q: %w", p.Session.ID, ErrExists)
	case p.Create:
		return tx.insertSession(p.Session)
	case missing:
		return &NotFoundError{Kind: "session", ID: p.Session.ID}
	}
	if p.Session.Agent != "" {
		old.Agent = p.Session.Agent
	}
	if p.Session.Model != (session.Model{}) {
		old.Model = p.Session.Model
	}
	if p.Session.Rules != nil {
		old.Rules = p.Session.Rules
	}
	if p.Session.Title != "" {
		old.Title = p.Session.Title
	}
	if p.Session.Directory != "" {
		old.Directory = p.Session.Directory
	}
	return tx.SaveSession(old)
}

func (tx *Tx) enqueue(p Prompt) (session.Turn, error) {
	var turn session.Turn
	m := p.Message
	if p.Turn {
		turn = session.Turn{
			ID: tx.s.opts.NewID("trn"), SessionID: p.Session.ID, MessageID: m.ID, State: session.TurnPending,
			OwnerPID: p.OwnerPID, OwnerHost: p.OwnerHost, Supersede: p.Supersede,
		}
		m.TurnID = turn.ID
	}
	if err := tx.SaveMessage(m); err != nil {
		return turn, err
	}
	for _, part := range m.Parts {
		h := part.Head()
		h.SessionID, h.MessageID = m.SessionID, m.ID
		if err := tx.SavePart(part); err != nil {
			return turn, err
		}
	}
	if !p.Turn {
		return turn, nil
	}
	return turn, tx.insertTurn(turn)
}
