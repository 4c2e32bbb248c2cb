package snapshot

import (
	"bytes"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Patch stores the state of the work directory as Track does and lists the
// files that changed since tree from: absolute paths, sorted, what a patch
// part names. A rename is two of them.
//
// A file that was there before and only came into sight (it is no longer
// ignored, or too large) did not change and is not named: taking the step back
// must not delete it. One that went out of sight is named if it changed.
//
// Errors are those of Track, and *MissingError where from is not there.
func (t *Tree) Patch(ctx context.Context, from string) (to string, files []string, err error) {
	err = t.guarded(ctx, func(ctx context.Context) error {
		var names []string
		if to, names, err = t.patch(ctx, from); err != nil {
			return err
		}
		for _, name := range names {
			files = append(files, t.path(name))
		}
		slices.Sort(files)
		return nil
	})
	return to, files, err
}

func (t *Tree) patch(ctx context.Context, from string) (string, []string, error) {
	to, err := t.track(ctx, nil)
	if err != nil {
		return "", nil, err
	}
	changed, err := t.changed(ctx, from, to)
	if err != nil {
		return "", nil, err
	}
	var hidden []string // not in the tree any more, but there
	for _, c := range changed {
		if c.status == 'D' && t.isFile(c.name) {
			hidden = append(hidden, t.path(c.name))
		}
	}
	if len(hidden) > 0 {
		if to, err = t.track(ctx, hidden); err != nil {
			return "", nil, err
		}
		if changed, err = t.changed(ctx, from, to); err != nil {
			return "", nil, err
		}
	}
	names, err := t.withoutOld(ctx, from, changed)
	return to, names, err
}

// isFile reports whether name is a regular file or link now, by real folders.
func (t *Tree) isFile(name string) bool {
	info, err := os.Lstat(t.path(name))
	return err == nil && isPlain(info) && !t.linked(name)
}

// A change is a file that differs between two trees: A, D, M or T.
type change struct {
	name   string
	status byte
}

func (t *Tree) changed(ctx context.Context, from, to string) ([]change, error) {
	if from == to {
		return nil, nil
	}
	if !isHash(from) {
		return nil, &MissingError{Hash: from}
	}
	out, err := t.output(ctx, call{args: []string{"diff-tree", "-r", "-z", "--no-renames", "--name-status", from, to}})
	if exitCode(err) > 0 { // to was written just now
		return nil, &MissingError{Hash: from}
	} else if err != nil {
		return nil, err
	}
	fields := bytes.Split(out, []byte{0})
	var changed []change
	for i := 0; i+1 < len(fields); i += 2 {
		if len(fields[i]) == 1 {
			changed = append(changed, change{name: string(fields[i+1]), status: fields[i][0]})
		}
	}
	return changed, nil
}

// withoutOld leaves out the files that are new in the tree but were on disk
// when from was taken: skipped then, or ignored by the rules of then.
func (t *Tree) withoutOld(ctx context.Context, from string, changed []change) ([]string, error) {
	skipped := t.knownSkipped(from)
	var names, added []string
	rules := false
	for _, c := range changed {
		rules = rules || path.Base(c.name) == ignoreFile
		switch {
		case c.status != 'A':
			names = append(names, c.name)
		case !slices.Contains(skipped, c.name):
			added = append(added, c.name)
		}
	}
	if len(added) == 0 {
		return names, nil
	}
	ignored, err := t.ignored(ctx, from, added, rules)
	if err != nil {
		return nil, err
	}
	for _, name := range added {
		if !ignored[name] {
			names = append(names, name)
		}
	}
	return names, nil
}

const (
	ignoreFile    = ".gitignore"
	maxIgnoreSize = 1 << 20 // bytes of such a file that are looked at
)

// ignored says which names the project ignored when tree from was taken;
// rules says that its ignore files have changed since.
func (t *Tree) ignored(ctx context.Context, from string, names []string, rules bool) (map[string]bool, error) {
	p, dir := projectOf(t.opts.Root), t.opts.WorkTree
	if rules {
		top, err := t.oldRules(ctx, from)
		if top != "" {
			defer func() { _ = os.RemoveAll(top) }() // else the next sweep does
		}
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(t.opts.Root, dir)
		if err != nil {
			return nil, err
		}
		p.top, dir = top, filepath.Join(top, rel)
	}
	args := []string{"check-ignore", "-z", "--no-index", "--stdin"}
	stdin := []byte("./" + strings.Join(names, "\x00./") + "\x00") // a name may look like a pattern
	out, err := t.output(ctx, t.ask(p, dir, stdin, args...))
	if exitCode(err) > 1 && p.gitDir != "" {
		p.gitDir = ""
		out, err = t.output(ctx, t.ask(p, dir, stdin, args...))
	}
	if err != nil && exitCode(err) != 1 { // 1 means none
		return nil, err
	}
	ignored := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		ignored[strings.TrimPrefix(name, "./")] = true
	}
	return ignored, nil
}

// oldRules makes a folder that stands for the project's top and has nothing
// but the ignore files of then.
func (t *Tree) oldRules(ctx context.Context, from string) (top string, err error) {
	found, err := t.entries(ctx, from, func(name string) bool { return path.Base(name) == ignoreFile })
	if err != nil {
		return "", err
	}
	var names, objects []string
	for name, e := range found {
		if e.mode != modeLink { // git does not follow one either
			names, objects = append(names, name), append(objects, e.object)
		}
	}
	texts, err := t.small(ctx, objects, maxIgnoreSize)
	if err != nil {
		return "", err
	}
	if top, err = os.MkdirTemp(t.repo, stagePrefix); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(t.opts.Root, t.opts.WorkTree)
	if err != nil {
		return top, err
	}
	work := filepath.Join(top, rel)
	if err := os.MkdirAll(work, 0o700); err != nil {
		return top, err
	}
	for i, name := range names {
		file := filepath.Join(work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return top, err
		}
		if err := os.WriteFile(file, texts[i], 0o600); err != nil {
			return top, err
		}
	}
	// Those above the work directory are in no tree; a step cannot change them.
	for dir := rel; dir != "."; {
		dir = filepath.Dir(dir)
		text, err := os.ReadFile(filepath.Join(t.opts.Root, dir, ignoreFile))
		if err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(top, dir, ignoreFile), text, 0o600); err != nil {
			return top, err
		}
	}
	return top, nil
}
