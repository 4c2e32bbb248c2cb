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

// usualMode reports whether git's own two modes say it all.
func usualMode(perm uint32) bool { return perm == 0o644 || perm == 0o755 }

// noteModes remembers the permissions of files that are neither 0644 nor
// 0755, as they were when last seen: a file that is deleted and brought back
// shall not become readable for others.
func (t *Tree) noteModes(now map[string]uint32) error {
	known := t.knownModes()
	before := maps.Clone(known)
	for name, perm := range now {
		if usualMode(perm) {
			delete(known, name)
		} else {
			known[name] = perm
		}
	}
	if maps.Equal(before, known) {
		return nil
	}
	return t.saveNote(modesFile, known)
}

func (t *Tree) knownModes() map[string]uint32 {
	known := map[string]uint32{}
	if t.loadNote(modesFile, &known) != nil || known == nil {
		return map[string]uint32{}
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
