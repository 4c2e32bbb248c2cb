package snapshot

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rally/internal/session"

	"github.com/google/go-cmp/cmp"
)

// A world is a work directory, a snapshot folder and a Tree.
type world struct {
	t    testing.TB
	work string // the session's directory
	opts Options
	tree *Tree
}

// newWorld makes one; dir is the session's directory below the root.
func newWorld(t testing.TB, dir string) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(base, "project")
	w := &world{t: t, work: filepath.Join(root, dir)}
	if err := os.MkdirAll(w.work, 0o755); err != nil {
		t.Fatal(err)
	}
	w.opts = Options{
		Dir: filepath.Join(base, "rally.db.d", "snapshot"), WorkTree: w.work, Root: root,
		Environ: os.Environ(), Limits: Limits{Time: time.Minute},
	}
	w.open()
	return w
}

func (w *world) open() { w.tree = Open(w.opts) }

func (w *world) path(name string) string { return filepath.Join(w.work, name) }

func (w *world) paths(names ...string) []string {
	var out []string
	for _, name := range names {
		out = append(out, w.path(name))
	}
	return out
}

func (w *world) write(name, content string) {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	w.must(os.WriteFile(w.path(name), []byte(content), 0o644))
}

func (w *world) remove(name string) {
	w.t.Helper()
	w.must(os.RemoveAll(w.path(name)))
}

func (w *world) link(to, name string) {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	w.must(os.Symlink(to, w.path(name)))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// git runs git in the project, as its owner would.
func (w *world) git(dir string, args ...string) {
	w.t.Helper()
	gitIn(w.t, filepath.Join(w.opts.Root, dir), args...)
}

func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{
		"-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main",
	}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (w *world) track(always ...string) string {
	w.t.Helper()
	hash, err := w.tree.Track(w.t.Context(), always...)
	w.must(err)
	return hash
}

// patch is the patch part of a step that began at tree from.
func (w *world) patch(from string) session.Patch {
	w.t.Helper()
	_, files, err := w.tree.Patch(w.t.Context(), from)
	w.must(err)
	return session.Patch{Hash: from, Files: files}
}

// revert follows the order that the package asks for; undo restores.
func (w *world) revert(patches ...session.Patch) (done Done, undo func()) {
	w.t.Helper()
	var files []string
	for _, p := range patches {
		files = append(files, p.Files...)
	}
	baseline := w.track(files...)
	done, err := w.tree.Revert(w.t.Context(), baseline, patches)
	w.must(err)
	return done, func() {
		w.t.Helper()
		_, err := w.tree.Restore(w.t.Context(), baseline, files)
		w.must(err)
	}
}

// names are the files of a patch below the work directory.
func (w *world) names(files []string) []string {
	w.t.Helper()
	var names []string
	for _, file := range files {
		rel, err := filepath.Rel(w.work, file)
		w.must(err)
		names = append(names, rel)
	}
	return names
}

// state is everything below the project but what git keeps: kind, mode,
// content or target of each.
func (w *world) state() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	w.must(filepath.WalkDir(w.opts.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" && d.IsDir() {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(w.opts.Root, path)
		switch {
		case d.IsDir():
			out[rel] = "folder"
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			out[rel] = "-> " + to
			return err
		default:
			b, err := os.ReadFile(path)
			if len(b) > 200 {
				b = fmt.Appendf(b[:100:100], "… %d", len(b))
			}
			out[rel] = fmt.Sprintf("%v %q", info.Mode().Perm(), b)
			return err
		}
		return nil
	}))
	return out
}

func (w *world) same(want map[string]string) {
	w.t.Helper()
	if d := cmp.Diff(want, w.state()); d != "" {
		w.t.Errorf("state differs (-want +got):\n%s", d)
	}
}

// garbage lists what must not lie about in the shadow repositories.
func (w *world) garbage() []string {
	w.t.Helper()
	var found []string
	if info, err := os.Stat(w.opts.Dir); err != nil || !info.IsDir() {
		return nil
	}
	w.must(filepath.WalkDir(w.opts.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, pattern := range []string{"tmp_*", stagePrefix + "*", "index.lock", busyMark} {
			if ok, _ := filepath.Match(pattern, d.Name()); ok {
				found = append(found, path)
			}
		}
		return nil
	}))
	slices.Sort(found)
	return found
}
