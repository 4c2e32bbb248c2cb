package snapshot

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rally/internal/session"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestRevertUnrevert is the property behind Invariant 14 and I34: whatever
// steps did to a project, reverting them brings back all that trees hold, and
// unreverting then brings back everything, byte for byte.
func TestRevertUnrevert(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("25"); err != nil { // each runs git some twenty times
			t.Fatal(err)
		}
	}
	dirs := rapid.SampledFrom([]string{"", "sub"})
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, dirs.Draw(rt, "session directory"))
		if rapid.Bool().Draw(rt, "repository") {
			w.git("", "init", "-q")
			if rapid.Bool().Draw(rt, "nested") {
				w.write("d/x", "nested")
				gitIn(t, w.path("d"), "init", "-q")
			}
		}
		w.write(".gitignore", "*.ign\nign/\n")
		w.write("../outside-or-top", "1")
		edit(rt, w, 12)
		w.track()
		var patches []session.Patch
		var before map[string]string
		for range rapid.IntRange(1, 3).Draw(rt, "steps") {
			from := w.track()
			if before == nil {
				before = w.tracked(from)
			}
			edit(rt, w, 6)
			patches = append(patches, w.patch(from))
		}
		w.write("mine.txt", "by the user")
		mine := w.state()["mine.txt"]
		after := w.state()

		_, undo := w.revert(patches...)
		got := w.state()
		for name, want := range before {
			if got[name] != want {
				rt.Errorf("after revert %q is %s, was %s", name, got[name], want)
			}
		}
		if got["mine.txt"] != mine {
			rt.Errorf("the user's file is %q", got["mine.txt"])
		}
		undo()
		if d := cmp.Diff(files(after), files(w.state())); d != "" {
			rt.Errorf("after unrevert (-want +got):\n%s", d)
		}
		if g := w.garbage(); g != nil {
			rt.Errorf("left behind: %v", g)
		}
		if w.tree.Off() {
			rt.Error(w.tree.Reason())
		}
		if rt.Failed() {
			rt.Logf("patches %+v", patches)
		}
	})
}

// edit does some of what steps do to files.
func edit(rt *rapid.T, w *world, most int) {
	names := rapid.SampledFrom([]string{"a", "b", "c.ign", "d/x", "d/y", "d/e/z", "ign/p", "f", "f/g"})
	// What git cannot say is kept as last seen; TestSteps has that.
	modes := rapid.SampledFrom([]fs.FileMode{0o644, 0o755})
	for range rapid.IntRange(0, most).Draw(rt, "edits") {
		name := names.Draw(rt, "name")
		path := w.path(name)
		switch rapid.SampledFrom([]string{"write", "write", "large", "delete", "delete folder", "link", "rename", "mode", "rules"}).Draw(rt, "edit") {
		case "write":
			if place(path) {
				_ = os.WriteFile(path, []byte(rapid.SampledFrom([]string{"", "1\n", "1\r\n2", "\x00\xff", "x"}).Draw(rt, "content")), 0o644)
			}
		case "large":
			if place(path) {
				_ = os.WriteFile(path, []byte(big), 0o644)
			}
		case "delete":
			_ = os.Remove(path)
		case "delete folder":
			if filepath.Dir(path) != w.work {
				removeFiles(filepath.Dir(path))
			}
		case "link":
			if place(path) {
				_ = os.Remove(path)
				_ = os.Symlink(rapid.SampledFrom([]string{"a", "d", "../..", "/nowhere"}).Draw(rt, "to"), path)
			}
		case "rename":
			to := w.path(names.Draw(rt, "to"))
			if place(to) && !strings.HasPrefix(to, path+"/") {
				_ = os.Rename(path, to)
			}
		case "mode":
			if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
				_ = os.Chmod(path, modes.Draw(rt, "mode"))
			}
		case "rules":
			_ = os.WriteFile(w.path(".gitignore"), []byte(rapid.SampledFrom([]string{"", "*.ign\n", "ign/\n", "a\n", "d/\n"}).Draw(rt, "rules")), 0o644)
		}
	}
}

// place makes the folder for a file, where real folders lead to it.
func place(path string) bool {
	if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(filepath.Dir(path))
	return err == nil && real == filepath.Dir(path)
}

// removeFiles removes a folder but what git keeps in it.
func removeFiles(dir string) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		_ = os.Remove(dir)
		return
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != ".git" {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

// tracked is the part of the state that tree hash holds.
func (w *world) tracked(hash string) map[string]string {
	w.t.Helper()
	found, err := w.tree.entries(w.t.Context(), hash, func(string) bool { return true })
	w.must(err)
	out, state := map[string]string{}, w.state()
	for name := range found {
		rel, _ := filepath.Rel(w.opts.Root, w.path(name))
		out[rel] = state[rel]
	}
	return out
}

// files is a state without its folders: empty ones are in no tree.
func files(state map[string]string) map[string]string {
	out := map[string]string{}
	for name, v := range state {
		if v != "folder" {
			out[name] = v
		}
	}
	return out
}

// TestDiff compares whole values.
func TestDiff(t *testing.T) {
	w := newWorld(t, "")
	w.write("a", "1\n2\n3\n")
	w.write("gone", "x\n")
	w.write("bin", "\x00\x01")
	w.write("f", "1\n")
	w.write("same", "1")
	w.write("other", "1\n")
	from := w.track()
	w.write("a", "1\ntwo\n3\nfour\n")
	w.remove("gone")
	w.write("bin", "\x00\x02")
	w.remove("f")
	w.link("a", "f")
	w.write("d/new\tname", "diff --git a/x b/x\nBinary files a and b differ\n")
	w.write("other", "2\n")
	to := w.track()
	diffs, err := w.tree.Diff(t.Context(), from, to, w.paths("a", "bin", "d/new\tname", "f", "gone", "same", "d", "../x"))
	w.must(err)
	var got []string
	for _, d := range diffs {
		rel, _ := filepath.Rel(w.work, d.File)
		got = append(got, fmt.Sprintf("%s %s +%d -%d %d", rel, d.Status, d.Additions, d.Deletions, strings.Count(d.Patch, "\n")))
	}
	want := []string{
		"a modified +2 -1 10",
		"bin modified +0 -0 0",
		"d/new\tname added +2 -0 8",
		"f modified +1 -1 15",
		"gone deleted +0 -1 7",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	patch := "diff --git a/a b/a\nindex 01e79c3..d51a6e9 100644\n--- a/a\n+++ b/a\n@@ -1,3 +1,4 @@\n 1\n-2\n+two\n 3\n+four\n"
	cut := func(s string) string { return s[strings.Index(s, "---"):] } // not the hashes
	if d := cmp.Diff(cut(patch), cut(diffs[0].Patch)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if diffs, err := w.tree.Diff(t.Context(), from, from, w.paths("a")); len(diffs) > 0 || err != nil {
		t.Errorf("%v, %v", diffs, err)
	}
}

// TestDiffIsBounded holds the bounds of patches, and that what is cut still
// has its numbers.
func TestDiffIsBounded(t *testing.T) {
	w := newWorld(t, "")
	w.write("0", "")
	from := w.track()
	var files []string
	for i := range 450 {
		name := fmt.Sprintf("n%03d", i)
		w.write(name, strings.Repeat("line\n", 5000+15000*(i%2)))
		files = append(files, w.path(name))
	}
	diffs, err := w.tree.Diff(t.Context(), from, w.track(), files)
	w.must(err)
	sum := 0
	for i, d := range diffs {
		if want := 5000 + 15000*(i%2); d.File != files[i] || d.Additions != want || d.Status != "added" {
			t.Errorf("%s: %d %s", d.File, d.Additions, d.Status)
		}
		if len(d.Patch) > maxPatch || d.Patch != "" && !strings.HasSuffix(d.Patch, "\n") {
			t.Errorf("%s: a patch of %d bytes", d.File, len(d.Patch))
		}
		sum += len(d.Patch)
	}
	if len(diffs) != 450 || sum > maxPatches || sum == 0 {
		t.Errorf("%d diffs, %d bytes of patches", len(diffs), sum)
	}
}
