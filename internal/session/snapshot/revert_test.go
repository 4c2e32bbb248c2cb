package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rally/internal/session"

	"github.com/google/go-cmp/cmp"
)

// TestOldestStateWins takes three steps back at once.
func TestOldestStateWins(t *testing.T) {
	w := newWorld(t, "")
	w.write("a", "1")
	w.write("b", "1")
	before := w.state()
	var patches []session.Patch
	for _, step := range []func(){
		func() { w.write("a", "2") },
		func() { w.write("a", "3"); w.write("n", "1") },
		func() { w.remove("n"); w.remove("b") },
	} {
		from := w.track()
		step()
		patches = append(patches, w.patch(from))
	}
	after := w.state()
	w.write("mine", "1") // by the user, later
	done, undo := w.revert(patches...)
	if d := cmp.Diff(Done{Written: w.paths("a", "b"), Unchanged: w.paths("n")}, done); d != "" {
		t.Error(d)
	}
	before["mine"], after["mine"] = w.state()["mine"], w.state()["mine"]
	w.same(before)
	undo()
	w.same(after)
}

// TestNothingHappens holds Invariants 14, I35 and I36: what cannot be done
// whole is not begun.
func TestNothingHappens(t *testing.T) {
	missing := strings.Repeat("a", 40)
	tests := []struct {
		name string
		do   func(w *world, p session.Patch) []session.Patch
		want any
	}{
		{"tree is gone", func(_ *world, p session.Patch) []session.Patch {
			return []session.Patch{p, {Hash: missing, Files: []string{p.Files[0] + "x"}}}
		}, new(*MissingError)},
		{"no hash", func(_ *world, p session.Patch) []session.Patch {
			return []session.Patch{{Files: p.Files}}
		}, new(*MissingError)},
		{"an option for a hash", func(_ *world, p session.Patch) []session.Patch {
			return []session.Patch{{Hash: "--help", Files: p.Files}}
		}, new(*MissingError)},
		{"content is gone", func(w *world, p session.Patch) []session.Patch {
			found, err := w.tree.entries(t.Context(), p.Hash, func(name string) bool { return name == "b" })
			w.must(err)
			object := found["b"].object
			w.must(os.Remove(filepath.Join(w.tree.repo, "objects", object[:2], object[2:])))
			return []session.Patch{p}
		}, new(*MissingError)},
		{"outside", func(w *world, p session.Patch) []session.Patch {
			return []session.Patch{p, {Hash: p.Hash, Files: []string{filepath.Join(w.work, "..", "x")}}}
		}, new(*RefusedError)},
		{"repository", func(w *world, p session.Patch) []session.Patch {
			return []session.Patch{p, {Hash: p.Hash, Files: w.paths("sub/.Git/config")}}
		}, new(*RefusedError)},
		{"relative", func(_ *world, p session.Patch) []session.Patch {
			return []session.Patch{p, {Hash: p.Hash, Files: []string{"b"}}}
		}, new(*RefusedError)},
		{"folder became a link", func(w *world, p session.Patch) []session.Patch {
			w.remove("d")
			w.link("e", "d")
			return []session.Patch{p}
		}, new(*RefusedError)},
		{"folder became a link to elsewhere", func(w *world, p session.Patch) []session.Patch {
			w.remove("d")
			w.link("/tmp", "d")
			return []session.Patch{p}
		}, new(*RefusedError)},
		{"a folder of the user is in the place", func(w *world, p session.Patch) []session.Patch {
			w.remove("b")
			w.write("b/mine", "1")
			return []session.Patch{p}
		}, new(*RefusedError)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "")
			for _, name := range []string{"a", "b", "d/x", "e/x"} {
				w.write(name, "1 "+name)
			}
			from := w.track()
			w.write("a", "2")
			w.write("b", "2")
			w.write("d/x", "2")
			w.write("n", "1")
			patches := tt.do(w, w.patch(from))
			before := w.state()
			_, err := w.tree.Revert(t.Context(), w.track(), patches)
			if !errors.As(err, tt.want) {
				t.Errorf("error %v", err)
			}
			w.same(before)
			if _, err := w.tree.Revert(t.Context(), missing, patches[:1]); err == nil {
				t.Error("no error without a baseline")
			}
			w.same(before)
			if g := w.garbage(); g != nil {
				t.Errorf("left behind: %v", g)
			}
		})
	}
}

// TestBaselineMustHoldAll refuses to overwrite what could not be brought back.
func TestBaselineMustHoldAll(t *testing.T) {
	w := newWorld(t, "")
	w.write("a", "1")
	from := w.track()
	w.write("a", "2")
	p := w.patch(from)
	w.write(".gitignore", "a\n")
	w.open() // the Tree of before would remember a
	before := w.state()
	var refused *RefusedError
	if _, err := w.tree.Revert(t.Context(), w.track(), []session.Patch{p}); !errors.As(err, &refused) {
		t.Errorf("error %v", err)
	}
	w.same(before)
	_, undo := w.revert(p)
	undo()
	w.same(before)
}

// TestFailedWriteIsPutBack holds I35 for a write that fails in the middle, in
// a way that stops root, too.
func TestFailedWriteIsPutBack(t *testing.T) {
	w := newWorld(t, "")
	w.write("a", "1")
	w.write("z/x", "1")
	from := w.track()
	w.write("a", "2")
	w.write("z/x", "2")
	p := w.patch(from)
	baseline := w.track(p.Files...)
	// A folder with something in it stands where z/x is written first.
	w.must(os.MkdirAll(filepath.Join(w.work, tempName("z/x"), "mine"), 0o755))
	before := w.state()
	if _, err := w.tree.Revert(t.Context(), baseline, []session.Patch{p}); err == nil {
		t.Error("no error")
	}
	w.same(before)
}
