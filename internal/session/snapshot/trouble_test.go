package snapshot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOff holds I37: what cannot work is off, with a reason that is told once,
// and costs nothing from then on.
func TestOff(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		want   string
	}{
		{"no git", func(w *world) { w.opts.Environ = []string{"PATH="} }, "git was not found"},
		{"git by a relative path", func(w *world) { w.opts.Environ = []string{"PATH=.:bin"} }, "git was not found"},
		{"home", func(w *world) { w.opts.Environ = append(w.opts.Environ, "HOME="+w.work+"/") }, "the work directory is the home directory"},
		{"root", func(w *world) { w.opts.WorkTree = "/" }, "the work directory is the root of the file system"},
		{"inside", func(w *world) { w.opts.Dir = filepath.Dir(w.work) }, "the work directory is where snapshots are kept"},
		{"gone", func(w *world) { w.opts.WorkTree += "x" }, "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "")
			tt.change(w)
			w.open()
			if _, err := w.tree.Track(t.Context()); !errors.Is(err, ErrOff) {
				t.Errorf("Track: %v", err)
			}
			if _, _, err := w.tree.Patch(t.Context(), "x"); !errors.Is(err, ErrOff) {
				t.Errorf("Patch: %v", err)
			}
			if got := w.tree.Reason(); !strings.Contains(got, tt.want) {
				t.Errorf("reason %q", got)
			}
			if got := w.tree.Reason(); got != "" {
				t.Errorf("told again: %q", got)
			}
		})
	}
}

// TestTrouble turns off what fails in use, in time, and leaves no garbage.
func TestTrouble(t *testing.T) {
	gitPath := lookPath(os.Environ())
	tests := []struct {
		name   string
		change func(w *world)
		want   string
	}{
		{"slow", func(w *world) {
			w.opts.Limits.Time = 300 * time.Millisecond
			w.fakeGit("case \"$*\" in *update-index*) touch \"$GIT_DIR/index.lock\" \"$GIT_DIR/objects/pack/tmp_pack_1\"; sleep 60 & sleep 60;; *) exec " + gitPath + " \"$@\";; esac")
		}, "more than 300ms"},
		{"broken", func(w *world) { w.fakeGit("echo oh no >&2; exit 3") }, "oh no"},
		{"too many files", func(w *world) { w.opts.Limits.Files = 2 }, "more than 2 files"},
		{"no place", func(w *world) { w.must(os.WriteFile(w.opts.Dir, nil, 0o600)) }, "not a directory"},
		{"locked", func(w *world) {
			w.opts.Limits.Time = 100 * time.Millisecond
			w.must(os.MkdirAll(w.opts.Dir, 0o700))
			lock, err := takeLock(context.Background(), w.tree.repo+".lock")
			w.must(err)
			w.t.Cleanup(func() { _ = lock.Close() })
		}, "too long"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "")
			w.must(os.MkdirAll(filepath.Dir(w.opts.Dir), 0o700))
			for _, name := range []string{"a", "b", "c"} {
				w.write(name, name)
			}
			tt.change(w)
			w.open()
			start := time.Now()
			if _, err := w.tree.Track(t.Context()); !errors.Is(err, ErrOff) {
				t.Errorf("Track: %v", err)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
			if got := w.tree.Reason(); !strings.Contains(got, tt.want) {
				t.Errorf("reason %q", got)
			}
			if g := w.garbage(); g != nil {
				t.Errorf("left behind: %v", g)
			}
		})
	}
}

// fakeGit puts a script of that body in git's place.
func (w *world) fakeGit(body string) {
	w.t.Helper()
	dir := w.t.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	w.opts.Environ = append(w.opts.Environ, "PATH="+dir+":"+os.Getenv("PATH"))
}

// TestContextIsNotTrouble: an abort ends a snapshot and turns nothing off.
func TestContextIsNotTrouble(t *testing.T) {
	w := newWorld(t, "")
	w.write("a", "1")
	gone := errors.New("aborted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := w.tree.Track(ctx); !errors.Is(err, gone) || errors.Is(err, ErrOff) {
		t.Errorf("error %v", err)
	}
	w.track()
}

// TestOwnFilesStayOut: a session file in the project is never part of it.
func TestOwnFilesStayOut(t *testing.T) {
	w := newWorld(t, "")
	w.opts.Dir = w.path("rally.db.d/snapshot")
	w.opts.Exclude = w.paths("rally.db", "rally.db.d")
	w.open()
	w.write("rally.db", "1")
	w.write("rally.db-wal", "1")
	w.write("rally.db.d/locks/x", "1")
	w.write("rally.dbx", "1")
	from := w.track()
	w.write("rally.db", "2")
	w.write("rally.db-wal", "2")
	w.write("rally.db.d/locks/x", "2")
	w.write("rally.dbx", "2")
	if d := cmp.Diff(w.paths("rally.dbx"), w.patch(from).Files); d != "" {
		t.Error(d)
	}
}

// TestForeignProgramsNeverRun: nothing of the project or the user is started.
func TestForeignProgramsNeverRun(t *testing.T) {
	w := newWorld(t, "")
	w.git("", "init", "-q")
	ran := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "evil")
	w.must(os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755))
	home := t.TempDir()
	w.must(os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[core]\n\tfsmonitor = "+script+"\n\thooksPath = "+filepath.Dir(script)+"\n[diff]\n\texternal = "+script+"\n"), 0o644))
	for _, kv := range [][2]string{{"core.fsmonitor", script}, {"diff.external", script}, {"filter.x.clean", script}, {"filter.x.process", script}, {"diff.x.textconv", script}} {
		w.git("", "config", kv[0], kv[1])
	}
	w.must(os.WriteFile(w.path(".git/hooks/post-index-change"), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755))
	w.opts.Environ = append(w.opts.Environ, "HOME="+home, "GIT_DIR=/nowhere", "GIT_EXTERNAL_DIFF="+script, "GIT_INDEX_FILE=/nowhere/index")
	w.open()
	w.write(".gitattributes", "* filter=x diff=x\n")
	w.write("a", "1\n")
	from := w.track()
	w.write("a", "2\n")
	to, files, err := w.tree.Patch(t.Context(), from)
	w.must(err)
	diffs, err := w.tree.Diff(t.Context(), from, to, files)
	w.must(err)
	if len(diffs) != 1 || diffs[0].Additions != 1 {
		t.Errorf("diffs %+v", diffs)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the project ran")
	}
}
