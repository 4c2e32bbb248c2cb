package batch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.invalid"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func environ() []string {
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=/nowhere")
}

// checkout is a repository with a commit.
func checkout(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "--quiet")
	write(t, filepath.Join(dir, "a.txt"), "one\n")
	write(t, filepath.Join(dir, "sub dir", "b.txt"), "two\n")
	write(t, filepath.Join(dir, ".gitignore"), "*.log\n")
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--message", "start")
	return dir
}

func worktrees(t *testing.T, parent string) *Worktrees {
	t.Helper()
	w, err := OpenWorktrees(t.Context(), parent, environ())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWorktree(t *testing.T) {
	dir, parent := checkout(t), t.TempDir()
	write(t, filepath.Join(dir, "untracked"), "mine\n")
	write(t, filepath.Join(dir, ".git", "hooks", "post-checkout"), "#!/bin/sh\ntouch "+filepath.Join(parent, "hooked")+"\n")
	if err := os.Chmod(filepath.Join(dir, ".git", "hooks", "post-checkout"), 0o755); err != nil {
		t.Fatal(err)
	}
	objects := git(t, dir, "count-objects")
	w := worktrees(t, parent)
	tree, err := w.Add(t.Context(), filepath.Join(dir, "sub dir"))
	if err != nil {
		t.Fatal(err)
	}
	if !w.Has(tree.Dir) || w.Has(dir) || filepath.Base(tree.Dir) != "sub dir" {
		t.Errorf("it works in %s", tree.Dir)
	}
	if got := tree.Path(filepath.Join(dir, "a.txt")); got != filepath.Join(tree.top, "a.txt") {
		t.Errorf("a.txt is at %s", got)
	}
	for _, path := range []string{filepath.Join(dir, "untracked"), "/etc/passwd"} {
		if got := tree.Path(path); got != path {
			t.Errorf("%s is at %s", path, got)
		}
	}
	write(t, filepath.Join(tree.top, "a.txt"), "one\nmore\n")
	write(t, filepath.Join(tree.Dir, "new", "c.txt"), "new\n")
	write(t, filepath.Join(tree.Dir, "x.log"), "ignored\n")
	write(t, filepath.Join(tree.Dir, "d.bin"), "\x00\x01\x02")
	if err := os.Remove(filepath.Join(tree.Dir, "b.txt")); err != nil {
		t.Fatal(err)
	}
	patch, err := tree.Patch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := git(t, dir, "count-objects"); got != objects {
		t.Errorf("the repository has %s, had %s", got, objects)
	}
	if err := tree.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if got := git(t, dir, "worktree", "list"); strings.Count(got, "\n") != 1 {
		t.Errorf("worktrees are left:\n%s", got)
	}
	if diff := cmp.Diff("?? untracked\n", git(t, dir, "status", "--porcelain")); diff != "" {
		t.Error(diff)
	}
	if left, err := os.ReadDir(parent); len(left) != 0 || err != nil {
		t.Errorf("left: %v %v", left, err)
	}

	// The patch is whole: applied, it makes the checkout what the worktree was.
	write(t, filepath.Join(parent, "p"), patch)
	git(t, dir, "apply", filepath.Join(parent, "p"))
	want := " M a.txt\n D \"sub dir/b.txt\"\n?? \"sub dir/d.bin\"\n?? \"sub dir/new/\"\n?? untracked\n"
	if diff := cmp.Diff(want, git(t, dir, "status", "--porcelain")); diff != "" {
		t.Error(diff)
	}
}

// What a task commits is in its patch too, and nothing changed is no patch.
func TestPatchOfCommits(t *testing.T) {
	dir := checkout(t)
	w := worktrees(t, t.TempDir())
	defer w.Close() //nolint:errcheck // a test
	tree, err := w.Add(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Remove(t.Context()) //nolint:errcheck // a test
	if patch, err := tree.Patch(t.Context()); patch != "" || err != nil {
		t.Errorf("got %q, %v", patch, err)
	}
	write(t, filepath.Join(tree.Dir, "a.txt"), "committed\n")
	git(t, tree.Dir, "commit", "--quiet", "--all", "--message", "work")
	write(t, filepath.Join(tree.Dir, "b.txt"), "not committed\n")
	patch, err := tree.Patch(t.Context())
	if err != nil || !strings.Contains(patch, "+committed") || !strings.Contains(patch, "+not committed") {
		t.Errorf("got %s, %v", patch, err)
	}
}

func TestWhatCannotBeIsolated(t *testing.T) {
	changed := checkout(t)
	write(t, filepath.Join(changed, "a.txt"), "changed\n")
	staged := checkout(t)
	write(t, filepath.Join(staged, "new"), "x")
	git(t, staged, "add", "new")
	empty := t.TempDir()
	git(t, empty, "init", "--quiet")
	w := worktrees(t, t.TempDir())
	defer w.Close() //nolint:errcheck // a test
	for dir, want := range map[string]string{
		t.TempDir(): "not a git repository", changed: "tracked files are changed (M a.txt; 1 in all)",
		staged: "tracked files are changed (A  new; 1 in all)", empty: "no commit",
	} {
		if err := w.Check(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := w.Add(t.Context(), dir); err == nil {
			t.Errorf("%s was isolated", want)
		}
	}
}

// A batch that is killed leaves its worktrees to the next one; a batch that
// lives keeps them.
func TestDeadBatch(t *testing.T) {
	dir, parent := checkout(t), t.TempDir()
	dead := worktrees(t, parent)
	if _, err := dead.Add(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	alive := worktrees(t, parent)
	defer alive.Close() //nolint:errcheck // a test
	if _, err := os.Stat(dead.dir); err != nil {
		t.Error("the worktrees of a living batch are gone")
	}
	_ = dead.lock.Close() // as the kernel does
	next := worktrees(t, parent)
	defer next.Close() //nolint:errcheck // a test
	if _, err := os.Stat(dead.dir); err == nil {
		t.Error("the worktrees of a dead batch are left")
	}
	if got := git(t, dir, "worktree", "list"); strings.Count(got, "\n") != 1 {
		t.Errorf("git still knows them:\n%s", got)
	}
}

// A task may do to its worktree what it likes.
func TestBrokenWorktree(t *testing.T) {
	dir := checkout(t)
	w := worktrees(t, t.TempDir())
	for _, harm := range []func(*Worktree) error{
		func(w *Worktree) error { return os.Remove(filepath.Join(w.top, ".git")) },
		func(w *Worktree) error { return os.Chmod(filepath.Join(w.top, "sub dir"), 0o500) },
		func(w *Worktree) error { return os.RemoveAll(w.top) },
	} {
		tree, err := w.Add(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := harm(tree); err != nil {
			t.Fatal(err)
		}
		if err := tree.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(tree.top); err == nil {
			t.Error("it is still there")
		}
	}
	if got := git(t, dir, "worktree", "list"); strings.Count(got, "\n") != 1 {
		t.Errorf("git still knows them:\n%s", got)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
