package loop

import (
	"context"
	"errors"
	"fmt"

	"rally/internal/session"
	"rally/internal/session/snapshot"
	"rally/internal/session/store"
)

// Reverted says what Revert or Unrevert did.
type Reverted struct {
	SessionID string
	MessageID string // the first message that is hidden, or was
	Written   []string
	Deleted   []string
}

// Revert hides a session's messages from target on and takes their changes of
// files back. target is the id of a message or part; empty means the newest
// prompt. Until the next prompt Unrevert undoes it.
func (e *Engine) Revert(ctx context.Context, id, target string) (Reverted, error) {
	return e.alone(ctx, id, func(s session.Session, history []session.Message) (Reverted, error) {
		at, part, err := boundary(history, target)
		if err != nil {
			return Reverted{}, err
		}
		tree := e.tree(s)
		files := filesIn(hidden(history, at, part))
		if s.Revert != nil { // the stored baseline is the older truth: go back to it first
			old, oldPart, err := boundary(history, first(s.Revert.PartID, s.Revert.MessageID))
			if err != nil {
				return Reverted{}, err
			}
			files = append(files, filesIn(hidden(history, old, oldPart))...)
			if _, err := restore(ctx, tree, s.Revert.Snapshot, files); err != nil {
				return Reverted{}, err
			}
		}
		patches := hidden(history, at, part)
		baseline := ""
		if s.Revert != nil {
			baseline = s.Revert.Snapshot
		} else if len(patches) > 0 {
			if baseline, err = track(ctx, tree, files); err != nil {
				return Reverted{}, err
			}
		}
		s.Revert = &session.Revert{MessageID: history[at].ID, PartID: part, Snapshot: baseline}
		if err := e.Store.Write(ctx, func(tx *store.Tx) error { return tx.SaveSession(s) }); err != nil {
			return Reverted{}, err
		}
		out := Reverted{SessionID: s.ID, MessageID: history[at].ID}
		if len(patches) == 0 {
			return out, nil
		}
		done, err := tree.Revert(ctx, baseline, patches)
		out.Written, out.Deleted = done.Written, done.Deleted
		return out, err
	})
}

// Unrevert undoes a Revert that no prompt has made final.
func (e *Engine) Unrevert(ctx context.Context, id string) (Reverted, error) {
	return e.alone(ctx, id, func(s session.Session, history []session.Message) (Reverted, error) {
		if s.Revert == nil {
			return Reverted{}, usagef("", "nothing of session %s is reverted", s.ID)
		}
		at, part, err := boundary(history, first(s.Revert.PartID, s.Revert.MessageID))
		if err != nil {
			return Reverted{}, err
		}
		done, err := restore(ctx, e.tree(s), s.Revert.Snapshot, filesIn(hidden(history, at, part)))
		if err != nil {
			return Reverted{}, err
		}
		s.Revert = nil
		if err := e.Store.Write(ctx, func(tx *store.Tx) error { return tx.SaveSession(s) }); err != nil {
			return Reverted{}, err
		}
		return Reverted{SessionID: s.ID, MessageID: history[at].ID, Written: done.Written, Deleted: done.Deleted}, nil
	})
}

// alone runs do on a session that nobody serves.
func (e *Engine) alone(ctx context.Context, id string, do func(session.Session, []session.Message) (Reverted, error)) (out Reverted, err error) {
	s, err := e.find(ctx, id)
	if err != nil {
		return out, err
	}
	lease, err := e.free(ctx, s.ID)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	if err := e.recover(ctx, s.ID); err != nil {
		return out, err
	}
	if s, err = e.Store.Session(ctx, s.ID); err != nil {
		return out, err
	}
	history, err := e.Store.History(ctx, s.ID)
	if err != nil {
		return out, err
	}
	return do(s, history)
}

func (e *Engine) tree(s session.Session) *snapshot.Tree {
	if e.OpenTree == nil {
		return nil
	}
	return e.OpenTree(s.Directory, e.Root(s.Directory))
}

func track(ctx context.Context, tree *snapshot.Tree, files []string) (string, error) {
	if tree == nil {
		return "", usagef("snapshot: true in the configuration", "snapshots are off: files cannot be brought back")
	}
	hash, err := tree.Track(ctx, files...)
	if reason := tree.Reason(); reason != "" {
		return "", fmt.Errorf("snapshots are off: %s", reason)
	}
	return hash, err
}

func restore(ctx context.Context, tree *snapshot.Tree, baseline string, files []string) (snapshot.Done, error) {
	if len(files) == 0 || baseline == "" {
		return snapshot.Done{}, nil
	}
	if tree == nil {
		return snapshot.Done{}, usagef("snapshot: true in the configuration", "snapshots are off: files cannot be brought back")
	}
	return tree.Restore(ctx, baseline, files)
}

// boundary finds the first message that target hides, and the part within it
// from which on it hides, if it is a part.
func boundary(history []session.Message, target string) (at int, part string, err error) {
	for i := len(history) - 1; i >= 0; i-- {
		m := &history[i]
		if m.ID == target || target == "" && m.Role == session.User && m.Text() != "" {
			return i, "", nil
		}
		for _, p := range m.Parts {
			if target != "" && p.Head().ID == target {
				return i, target, nil
			}
		}
	}
	if target == "" {
		return 0, "", usagef("", "there is no prompt to revert")
	}
	return 0, "", usagef("`rally export` shows the ids of messages and parts", "there is no message or part %q in the session", target)
}

// hidden are the patches behind a boundary, in order.
func hidden(history []session.Message, at int, part string) []session.Patch {
	var out []session.Patch
	for i := at; i < len(history); i++ {
		behind := i > at || part == ""
		for _, p := range history[i].Parts {
			behind = behind || p.Head().ID == part
			if patch, ok := p.(*session.Patch); ok && behind {
				out = append(out, *patch)
			}
		}
	}
	return out
}

func filesIn(patches []session.Patch) []string {
	var out []string
	for _, p := range patches {
		out = append(out, p.Files...)
	}
	return out
}

// settleRevert makes a revert final: what it hides is deleted. A session that
// is reverted is idle, so its lease is free or soon will be.
func (e *Engine) settleRevert(ctx context.Context, s session.Session) (err error) {
	if s.Revert == nil {
		return nil
	}
	lease, err := e.Store.Lease(ctx, s.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	return e.deleteReverted(ctx, s.ID)
}

// deleteReverted does it for whoever holds the lease.
func (e *Engine) deleteReverted(ctx context.Context, sessionID string) error {
	s, err := e.Store.Session(ctx, sessionID)
	if err != nil || s.Revert == nil {
		return err
	}
	history, err := e.Store.History(ctx, s.ID)
	if err != nil {
		return err
	}
	at, part, err := boundary(history, first(s.Revert.PartID, s.Revert.MessageID))
	s.Revert = nil
	return e.Store.Write(ctx, func(tx *store.Tx) error {
		if err == nil { // else what it hid is gone already
			if err := deleteFrom(tx, history, at, part); err != nil {
				return err
			}
		}
		return tx.SaveSession(s)
	})
}

func deleteFrom(tx *store.Tx, history []session.Message, at int, part string) error {
	if part != "" {
		if err := cutParts(tx, &history[at], part); err != nil {
			return err
		}
		at++
	}
	for i := len(history) - 1; i >= at; i-- {
		if err := tx.DeleteMessage(history[i].SessionID, history[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// cutParts deletes a message's parts from one on; what the message says of
// itself follows from the steps that remain.
func cutParts(tx *store.Tx, m *session.Message, part string) error {
	var gone []string
	m.Finish, m.Error, m.Structured, m.Tokens, m.Cost = "", nil, nil, session.Tokens{}, new(session.Money)
	for _, p := range m.Parts {
		if len(gone) > 0 || p.Head().ID == part {
			gone = append(gone, p.Head().ID)
			continue
		}
		if f, ok := p.(*session.StepFinish); ok {
			m.Finish, m.Tokens, m.Cost = f.Reason, f.Tokens, addCost(m.Cost, f.Cost)
		}
	}
	if err := tx.DeleteParts(gone...); err != nil {
		return err
	}
	return tx.SaveMessage(m)
}
