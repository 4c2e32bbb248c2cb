package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Notes are what a tree of git cannot say. They are kept as JSON beside the
// objects; a note that is lost or damaged costs its own use alone.

const (
	modesFile  = "modes.json"
	skippedDir = "skipped"
)

// perms are a file's permissions when it was last seen without and with the
// executable bit of its owner; 0 stands for git's own 0644 and 0755.
type perms [2]uint32

func class(exec bool) int {
	if exec {
		return 1
	}
	return 0
}

// of is the permissions for a file that is executable or not.
func (p perms) of(exec bool) fs.FileMode {
	if mode := p[class(exec)]; mode != 0 {
		return fs.FileMode(mode) & fs.ModePerm
	}
	return [2]fs.FileMode{0o644, 0o755}[class(exec)]
}

// noteModes remembers permissions that git cannot keep: a file that is brought
// back shall not become readable for others.
func (t *Tree) noteModes(now map[string]fs.FileMode) error {
	known := t.knownModes()
	before := maps.Clone(known)
	for name, mode := range now {
		exec := mode&0o100 != 0
		p := known[name]
		if p.of(exec) == mode {
			continue
		}
		p[class(exec)] = 0
		if p.of(exec) != mode {
			p[class(exec)] = uint32(mode)
		}
		known[name] = p
		if p == (perms{}) {
			delete(known, name)
		}
	}
	if maps.Equal(before, known) {
		return nil
	}
	return t.saveNote(modesFile, known)
}

func (t *Tree) knownModes() map[string]perms {
	known := map[string]perms{}
	if t.loadNote(modesFile, &known) != nil || known == nil {
		return map[string]perms{}
	}
	return known
}

// noteSkipped remembers which files were there beside a tree: one that is in
// a later tree was not made since.
func (t *Tree) noteSkipped(hash string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	known := t.knownSkipped(hash)
	merged := slices.Concat(known, names)
	slices.Sort(merged)
	if merged = slices.Compact(merged); slices.Equal(known, merged) {
		return nil
	}
	return t.saveNote(filepath.Join(skippedDir, hash), merged)
}

func (t *Tree) knownSkipped(hash string) []string {
	var names []string
	if t.loadNote(filepath.Join(skippedDir, hash), &names) != nil {
		return nil
	}
	return names
}

func (t *Tree) loadNote(name string, v any) error {
	b, err := os.ReadFile(filepath.Join(t.repo, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func (t *Tree) saveNote(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	path := filepath.Join(t.repo, name)
	err = writeFile(path, b)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = writeFile(path, b)
		}
	}
	return err
}
