package loop

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"rally/internal/session"
	"rally/internal/session/permission"
	"rally/internal/session/prompt"
	"rally/internal/session/snapshot"
	"rally/internal/session/store"
	"rally/internal/tools"
)

// chores is how long what follows a turn may take.
const chores = 2 * time.Second

// snapshots keeps the states of a turn's work directory. It opens at the first
// use: a turn that only reads costs nothing.
type snapshots struct {
	tree  *snapshot.Tree
	first string // the tree before the turn's first change
	last  string
	files []string // changed in the turn
}

// track takes the snapshot before a step's first change and stores it with
// the step. Trouble is said once and fails nothing (invariant 14).
func (x *executor) track(ctx context.Context, calls []*ready) error {
	if x.OpenTree == nil || !slices.ContainsFunc(calls, x.changes) {
		return nil
	}
	if x.snaps.tree == nil {
		x.snaps.tree = x.OpenTree(x.session.Directory, x.root)
	}
	hash, err := x.snaps.tree.Track(ctx)
	if err != nil {
		x.snapshotTrouble(err)
		return nil // the turn goes on without
	}
	if x.snaps.first == "" {
		x.snaps.first = hash
	}
	x.start.Snapshot = hash
	return x.Store.Write(ctx, func(tx *store.Tx) error { return tx.SavePart(x.start) })
}

func (t *turn) snapshotTrouble(err error) {
	if reason := t.snaps.tree.Reason(); reason != "" {
		t.emit(t.session, session.Notice{Text: "snapshots are off: " + reason + "; changes of this turn cannot be reverted"})
	} else if !errors.Is(err, snapshot.ErrOff) {
		t.emit(t.session, session.Notice{Text: "no snapshot of this step: " + err.Error()})
	}
}

// changes reports whether a call may change files. A script of commands that
// only read does not: it is judged by the rules of the agent that plans.
func (x *executor) changes(c *ready) bool {
	return slices.ContainsFunc(c.access, func(a tools.Access) bool {
		return a.Changes && (a.Script == "" || !readsOnly(a.Script))
	})
}

func readsOnly(script string) bool {
	parsed := permission.Commands(script)
	if parsed.Unreadable || slices.ContainsFunc(parsed.Writes, func(path string) bool { return !harmless(path) }) {
		return false
	}
	for _, agent := range prompt.Agents() {
		if agent.Name == "plan" {
			rules := permission.Merge(permission.Layers{Agent: agent.Rules})
			return permission.DecideScript(rules, parsed).Action == session.Allow
		}
	}
	return false
}

// patch lists what a step changed; nil when it took no snapshot or changed
// nothing. to is the tree after the step.
func (t *turn) patch(ctx context.Context, m *session.Message, start *session.StepStart) (part *session.Patch, to string) {
	if start.Snapshot == "" {
		return nil, ""
	}
	to, files, err := t.snaps.tree.Patch(ctx, start.Snapshot)
	if err != nil {
		t.snapshotTrouble(err)
		return nil, ""
	}
	t.snaps.last = to
	if len(files) == 0 {
		return nil, to
	}
	t.snaps.files = append(t.snaps.files, files...)
	return &session.Patch{Header: t.partHead(m), Hash: start.Snapshot, Files: files}, to
}

// aftermath stores what a turn changed with its user message: statistics for
// people, within a short time and without failing anything.
func (t *turn) aftermath(ctx context.Context) {
	if len(t.snaps.files) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), chores)
	defer cancel()
	slices.Sort(t.snaps.files)
	diffs, err := t.snaps.tree.Diff(ctx, t.snaps.first, t.snaps.last, slices.Compact(t.snaps.files))
	if err != nil {
		return
	}
	head, err := t.Store.Message(ctx, t.session.ID, t.head.ID)
	if err != nil {
		return
	}
	head.Diffs = diffs
	// What cannot be stored here is missing from listings only.
	_ = t.Store.Write(ctx, func(tx *store.Tx) error { return tx.SaveMessage(&head) })
}

// missingPatches lists what steps changed whose owner died before it could
// say so: of the files that their calls named, since others may have changed
// files since.
func (e *Engine) missingPatches(ctx context.Context, s session.Session, repaired []*session.Message) []session.Part {
	var out []session.Part
	if e.OpenTree == nil {
		return nil
	}
	for _, m := range repaired {
		from, named := unlisted(m)
		if from == "" || len(named) == 0 {
			continue
		}
		tree := e.OpenTree(s.Directory, e.Root(s.Directory))
		_, files, err := tree.Patch(ctx, from)
		if err != nil {
			continue // off, or pruned meanwhile: the step cannot be reverted
		}
		files = slices.DeleteFunc(files, func(f string) bool { return !slices.Contains(named, f) })
		if len(files) > 0 {
			head := session.Header{ID: e.NewID("prt"), SessionID: m.SessionID, MessageID: m.ID}
			out = append(out, &session.Patch{Header: head, Hash: from, Files: files})
		}
	}
	return out
}

// unlisted is the snapshot of a step without a patch, and the files its calls
// name.
func unlisted(m *session.Message) (from string, named []string) {
	for _, p := range m.Parts {
		switch p.Kind() { //nolint:exhaustive // only these say something about files
		case session.TypePatch:
			return "", nil
		case session.TypeStepStart:
			if start, ok := p.(*session.StepStart); ok {
				from = start.Snapshot
			}
		case session.TypeTool:
			var input struct {
				FilePath string `json:"filePath"`
			}
			if call, ok := p.(*session.Tool); ok && json.Unmarshal(call.State.Input, &input) == nil && input.FilePath != "" {
				env := &tools.Env{Directory: m.Path.Cwd, Root: m.Path.Root}
				if place, err := tools.Resolve(env, input.FilePath); err == nil {
					named = append(named, place.Path)
				}
			}
		}
	}
	return from, named
}
