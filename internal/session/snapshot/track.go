package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Track stores the state of the work directory and returns the name of its
// tree, which Prune leaves alone until it was not wanted for long enough. The
// same state gives the same name. Files named in always (absolute paths) are
// in the tree even if they are ignored or too large; those outside of the work
// directory are not.
//
// An error is ErrOff or the context's cause; in either case there is nothing
// to take back for this step.
func (t *Tree) Track(ctx context.Context, always ...string) (hash string, err error) {
	err = t.guarded(ctx, func(ctx context.Context) error {
		hash, err = t.track(ctx, always)
		return err
	})
	return hash, err
}

func (t *Tree) track(ctx context.Context, always []string) (string, error) {
	hash, err := t.stage(ctx, always)
	if exitCode(err) > 0 {
		// Most likely the index is damaged, or names objects that are: it holds
		// nothing that cannot be made again.
		if rmErr := os.Remove(filepath.Join(t.repo, "index")); rmErr != nil {
			return "", err
		}
		sweep(t.repo)
		hash, err = t.stage(ctx, always)
	}
	if err != nil {
		return "", err
	}
	if err := t.pin(hash); err != nil {
		return "", fmt.Errorf("keep snapshot: %w", err)
	}
	return hash, nil
}

// stage brings the index to the state of the work directory and writes it as
// a tree.
func (t *Tree) stage(ctx context.Context, always []string) (string, error) {
	found, err := t.list(ctx)
	if err != nil {
		return "", err
	}
	old, err := t.indexed(ctx)
	if err != nil {
		return "", err
	}
	found, forced := t.force(found, always)
	s := t.choose(found, old, forced)
	if err := t.noteModes(s.modes); err != nil {
		return "", err
	}
	if len(s.remove) > 0 {
		c := call{args: []string{"update-index", "-z", "--force-remove", "--stdin"}, stdin: joinNames(s.remove)}
		if err := t.run(ctx, c); err != nil {
			return "", err
		}
	}
	for _, chunk := range s.add {
		c := call{args: []string{"update-index", "-z", "--add", "--remove", "--replace", "--stdin"}, stdin: joinNames(chunk)}
		if len(chunk) >= packFiles {
			c.args = append([]string{"-c", "core.bigFileThreshold=1"}, c.args...)
		}
		if err := t.run(ctx, c); err != nil {
			return "", err
		}
	}
	out, err := t.output(ctx, call{args: []string{"write-tree"}})
	if err != nil {
		return "", err
	}
	hash := strings.TrimSpace(string(out))
	if !isHash(hash) {
		return "", fmt.Errorf("git write-tree gave %q", hash)
	}
	t.remember(s.kept)
	return hash, t.noteSkipped(hash, s.skipped)
}

// force adds the files that must be in the tree, if they are there: those of
// always, and those this Tree has stored before. As git's own, they stay when
// rules begin to ignore them; else a step that does so would hide what it does
// to them next. A later Tree, in another process, starts afresh.
func (t *Tree) force(found []candidate, always []string) ([]candidate, map[string]bool) {
	t.mu.Lock()
	forced := maps.Clone(t.stored)
	t.mu.Unlock()
	if forced == nil {
		forced = map[string]bool{}
	}
	for _, path := range always {
		if name, ok := t.name(path); ok {
			forced[name] = true
		}
	}
	missing := maps.Clone(forced)
	for _, c := range found {
		delete(missing, c.name)
	}
	for name := range missing {
		if info, err := os.Lstat(t.path(name)); err == nil && isPlain(info) && !t.linked(name) {
			found = append(found, candidate{name, info})
		}
	}
	return found, forced
}

// remember keeps what is in the tree for force.
func (t *Tree) remember(names map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stored == nil {
		t.stored = map[string]bool{}
	}
	maps.Copy(t.stored, names)
}

// name is the name in a tree of an absolute path, if it can have one.
func (t *Tree) name(path string) (string, bool) {
	rel, err := filepath.Rel(t.opts.WorkTree, path)
	if err != nil || !filepath.IsAbs(path) {
		return "", false
	}
	name := filepath.ToSlash(rel)
	return name, usable(name) && !t.excluded(filepath.Clean(path))
}

// linked reports whether a folder on the way to name is not a real one.
func (t *Tree) linked(name string) bool {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if info, err := os.Lstat(t.path(name[:i])); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// state is what the index says of a file.
type state struct{ changed bool }

// indexed is what the index holds. Changed files are new on disk, or gone.
func (t *Tree) indexed(ctx context.Context) (map[string]state, error) {
	if _, err := os.Lstat(filepath.Join(t.repo, "index")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out, err := t.output(ctx, call{args: []string{"ls-files", "-z", "-t", "--cached", "--modified", "--deleted"}})
	if err != nil {
		return nil, err
	}
	old := map[string]state{}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		// "H name" for each, and "C name" or "R name" again for what changed.
		if len(entry) > 2 {
			old[string(entry[2:])] = state{changed: old[string(entry[2:])].changed || entry[0] != 'H'}
		}
	}
	return old, nil
}

// Chunks bound what one git does, so that a guard that ends a first Track of a
// large directory leaves the next one less to do.
const (
	chunkFiles = 4000
	chunkBytes = 64 << 20
	// packFiles is from how many files on git writes one pack, as it does for
	// big files, and not a file for each: ten times as quick.
	packFiles = 64
)

// changes are what brings the index up to date.
type changes struct {
	remove  []string
	add     [][]string
	skipped []string               // files that are there but not in the tree
	kept    map[string]bool        // files in the tree
	modes   map[string]fs.FileMode // of those that are no links
}

func (t *Tree) choose(found []candidate, old map[string]state, forced map[string]bool) changes {
	s := changes{modes: make(map[string]fs.FileMode, len(found)), kept: make(map[string]bool, len(found))}
	var chunk []string
	var size int64
	for _, c := range found {
		was, tracked := old[c.name]
		if !tracked && !forced[c.name] && c.info.Size() > t.opts.Limits.Size {
			s.skipped = append(s.skipped, c.name)
			continue
		}
		s.kept[c.name] = true
		if tracked && !was.changed {
			s.note(c)
			continue
		}
		if !t.readable(c) {
			s.skipped = append(s.skipped, c.name)
			continue
		}
		s.note(c)
		chunk, size = append(chunk, c.name), size+c.info.Size()
		if len(chunk) == chunkFiles || size > chunkBytes {
			s.add, chunk, size = append(s.add, chunk), nil, 0
		}
	}
	if len(chunk) > 0 {
		s.add = append(s.add, chunk)
	}
	for name := range old {
		if !s.kept[name] {
			s.remove = append(s.remove, name)
		}
	}
	slices.Sort(s.remove)
	return s
}

// note keeps the mode of a regular file.
func (s *changes) note(c candidate) {
	if c.info.Mode().IsRegular() {
		s.modes[c.name] = c.info.Mode().Perm()
	}
}

// readable reports whether git will be able to read the file: one that it
// cannot read would fail all others.
func (t *Tree) readable(c candidate) bool {
	if !c.info.Mode().IsRegular() {
		return true
	}
	f, err := os.OpenFile(t.path(c.name), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

func joinNames(names []string) []byte {
	return []byte(strings.Join(names, "\x00") + "\x00")
}
