package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rally/internal/session"
)

// Done says what a Revert or Restore did, as sorted absolute paths.
type Done struct {
	Written   []string // brought to what the tree holds
	Deleted   []string // not in the tree, so removed
	Unchanged []string // as the tree has them already, or not there
}

// A RefusedError says why a file cannot be brought back. Nothing was changed,
// or what was changed has been put back.
type RefusedError struct {
	File string
	Why  string
}

// Error names the file and the reason.
func (e *RefusedError) Error() string { return fmt.Sprintf("bring back %q: %s", e.File, e.Why) }

// Revert takes patches back, oldest first: each file goes to its state in the
// first patch that names it, and is deleted where that tree does not hold it;
// folders that this leaves empty go too. No other file is touched.
//
// Before the first write every tree, every content and the baseline are read,
// and every path is looked at; *MissingError and *RefusedError then leave all
// as it was. Baseline is what Track gave for these files just before; if a
// write fails, what was written is brought back from it.
//
// The time guard ends only what comes before the first write. Revert works on
// a Tree that was switched off meanwhile, as long as there is a git.
func (t *Tree) Revert(ctx context.Context, baseline string, patches []session.Patch) (Done, error) {
	oldest := map[string]string{}
	for _, p := range patches {
		for _, file := range p.Files {
			if _, ok := oldest[file]; !ok {
				oldest[file] = p.Hash
			}
		}
	}
	back := make(map[string]string, len(oldest))
	for file := range oldest {
		back[file] = baseline
	}
	return t.bring(ctx, oldest, back)
}

// Restore brings the named files, and no others, to their state in a tree: the
// way back from Revert, with its baseline. Files that the tree does not hold
// are deleted. Errors are those of Revert, but a write that fails leaves the
// rest undone; Restore can be repeated.
func (t *Tree) Restore(ctx context.Context, hash string, files []string) (Done, error) {
	want := make(map[string]string, len(files))
	for _, file := range files {
		want[file] = hash
	}
	return t.bring(ctx, want, nil)
}

// bring takes each file to its state in the tree it stands for; back has the
// trees to go back to when that fails on the way.
func (t *Tree) bring(ctx context.Context, want, back map[string]string) (done Done, err error) {
	if len(want) == 0 {
		return Done{}, nil
	}
	if t.git == "" || !supported {
		return Done{}, ErrOff
	}
	err = t.exclusive(ctx, func(ctx context.Context) error {
		stage, err := os.MkdirTemp(t.repo, stagePrefix)
		if err != nil {
			return err
		}
		done, err = t.bringFrom(ctx, stage, want, back)
		return errors.Join(err, os.RemoveAll(stage))
	})
	return done, err
}

// bringFrom does it with a folder for the contents.
func (t *Tree) bringFrom(ctx context.Context, stage string, want, back map[string]string) (Done, error) {
	targets, err := t.targets(ctx, want)
	if err != nil {
		return Done{}, err
	}
	backs, err := t.targets(ctx, back)
	if err != nil {
		return Done{}, err
	}
	if err := t.fetch(ctx, stage, targets, backs); err != nil {
		return Done{}, err
	}
	w, err := t.newWriter()
	if err != nil {
		return Done{}, err
	}
	defer func() { _ = w.root.Close() }() // nothing is written through it
	if err := w.check(targets); err != nil {
		return Done{}, err
	}
	if err := w.checkBack(targets, backs); err != nil {
		return Done{}, err
	}
	done, err := w.apply(targets)
	if err == nil || back == nil {
		return done, err
	}
	if _, undoErr := w.apply(backs); undoErr != nil {
		err = errors.Join(err, fmt.Errorf("put back what was written: %w", undoErr))
	}
	return Done{}, err
}

// A target is a file and what shall become of it.
type target struct {
	name    string
	entry          // zero if the file shall not be there
	content string // the staged content's file name
}

// absent reports whether the file shall not be there.
func (t *target) absent() bool { return t.object == "" }

// targets looks the files up in their trees; sorted by name.
func (t *Tree) targets(ctx context.Context, want map[string]string) ([]target, error) {
	trees := map[string]map[string]bool{} // hash to names
	for file, hash := range want {
		name, ok := t.name(file)
		if !ok {
			return nil, &RefusedError{File: file, Why: "it is not a file below the work directory " + t.opts.WorkTree}
		}
		if trees[hash] == nil {
			trees[hash] = map[string]bool{}
		}
		trees[hash][name] = true
	}
	var targets []target
	for hash, names := range trees {
		found, err := t.entries(ctx, hash, func(name string) bool { return names[name] })
		if err != nil {
			return nil, err
		}
		for name := range names {
			targets = append(targets, target{name: name, entry: found[name]})
		}
	}
	slices.SortFunc(targets, func(a, b target) int { return strings.Compare(a.name, b.name) })
	return targets, nil
}

// fetch copies all contents out of the repository, so that no trouble with
// git can come between two writes.
func (t *Tree) fetch(ctx context.Context, stage string, lists ...[]target) error {
	staged := map[string]string{}
	var objects []string
	for _, list := range lists {
		for i := range list {
			object := list[i].object
			if object == "" {
				continue
			}
			if staged[object] == "" {
				staged[object] = filepath.Join(stage, strconv.Itoa(len(objects)))
				objects = append(objects, object)
			}
			list[i].content = staged[object]
		}
	}
	return t.contents(ctx, objects, func(i int, size int64, r io.Reader) error {
		file, err := os.OpenFile(staged[objects[i]], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		n, err := io.Copy(file, r)
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		return errors.Join(err, file.Close())
	})
}

// isPlain reports whether info is a regular file or a link.
func isPlain(info fs.FileInfo) bool {
	return info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0
}
