package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"rally/internal/session"
)

// View is one session's history, kept decoded. A refresh costs what changed
// since the one before, not what the session holds. It is for one goroutine.
type View struct {
	s         *Store
	sessionID string
	loaded    bool
	rev       int64
	messages  []session.Message
	index     map[string]int // message id → its place in messages
}

// NewView makes an empty view; its first refresh reads the whole history.
func NewView(s *Store, sessionID string) *View { return &View{s: s, sessionID: sessionID} }

// Refresh brings the view up to date and returns its messages, ordered by
// place and seq. The slice and what it holds belong to the view and are good
// until the next refresh: a caller that wants to change a message copies it
// first. Appending to the slice or to a message's Parts is safe: both are
// capped.
func (v *View) Refresh(ctx context.Context) ([]session.Message, error) {
	err := v.s.read(ctx, func(tx *sql.Tx) error {
		purged, rev, err := purgedSince(ctx, tx, v.sessionID, v.rev)
		if err != nil {
			return err
		}
		if purged || !v.loaded {
			err = v.load(ctx, tx)
		} else if rev != v.rev {
			err = v.update(ctx, tx)
		}
		if err == nil {
			v.rev = rev
		}
		return err
	})
	if err != nil {
		v.loaded = false // it may be half updated
		return nil, v.s.fail("read history", err)
	}
	return slices.Clip(v.messages), nil
}

func (v *View) load(ctx context.Context, q querier) error {
	messages, err := loadMessages(ctx, q, "m.session_id = ?", v.sessionID)
	if err != nil {
		return err
	}
	for i := range messages {
		messages[i].Parts = slices.Clip(messages[i].Parts)
	}
	v.messages, v.loaded = messages, true
	v.index = make(map[string]int, len(messages))
	v.reindex(0)
	return nil
}

func (v *View) reindex(from int) {
	for i := from; i < len(v.messages); i++ {
		v.index[v.messages[i].ID] = i
	}
}

func (v *View) update(ctx context.Context, q querier) error {
	messages, err := queryMessages(ctx, q, "m.session_id = ? AND m.rev > ? ORDER BY m.place, m.seq", v.sessionID, v.rev)
	if err != nil {
		return err
	}
	for _, m := range messages {
		v.putMessage(m)
	}
	parts, err := queryParts(ctx, q, "WHERE p.session_id = ? AND p.rev > ? ORDER BY p.message_id, p.position", v.sessionID, v.rev)
	if err != nil {
		return err
	}
	for _, p := range parts {
		v.putPart(p)
	}
	return nil
}

// putMessage keeps the parts of a message that is there. A new one goes to
// its place, which is the end but for a message queued behind the turn.
func (v *View) putMessage(m session.Message) {
	if i, ok := v.index[m.ID]; ok {
		m.Parts = v.messages[i].Parts
		v.messages[i] = m
		return
	}
	at, _ := slices.BinarySearchFunc(v.messages, m, inOrder)
	v.messages = slices.Insert(v.messages, at, m)
	v.reindex(at)
}

func inOrder(a, b session.Message) int {
	return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Seq, b.Seq))
}

// putPart never writes into a Parts slice that a caller may hold.
func (v *View) putPart(p session.Part) {
	m := &v.messages[v.index[p.Head().MessageID]]
	i := slices.IndexFunc(m.Parts, func(old session.Part) bool { return old.Head().ID == p.Head().ID })
	if i < 0 {
		m.Parts = slices.Clip(append(m.Parts, p))
		return
	}
	m.Parts = slices.Clone(m.Parts)
	m.Parts[i] = p
}
