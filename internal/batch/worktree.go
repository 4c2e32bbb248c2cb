package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// maxPatch bounds the patch of a task: a row is held in memory.
const maxPatch = 64 << 20

// Worktrees makes git worktrees in a folder of its own outside of every
// checkout; of the repository it touches the metadata that git keeps of them.
// It is safe for concurrent use.
type Worktrees struct {
	dir     string
	lock    *os.File
	environ []string
	made    atomic.Int64
}

// OpenWorktrees makes the folder below parent, and removes those there whose
// process is dead. The caller closes it. environ is for git.
func OpenWorktrees(ctx context.Context, parent string, environ []string) (*Worktrees, error) {
	w := &Worktrees{environ: gitEnviron(environ)}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for worktrees: %w", err)
	}
	parent, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return nil, fmt.Errorf("make a folder for worktrees: %w", err)
	}
	if err := w.sweep(ctx, parent); err != nil {
		return nil, err
	}
	if w.dir, err = os.MkdirTemp(parent, "batch-"); err != nil {
		return nil, fmt.Errorf("make a folder for worktrees: %w", err)
	}
	if w.lock, err = lockFolder(w.dir); err != nil {
		return nil, fmt.Errorf("make a folder for worktrees: %w", err)
	}
	return w, nil
}

// gitEnviron leaves out what would lead git to another repository.
func gitEnviron(environ []string) []string {
	out := []string{"GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}
	for _, kv := range environ {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "LC_ALL":
		default:
			out = append(out, kv)
		}
	}
	return out
}

// lockFolder takes a folder's lock; nil when its owner lives.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

// sweep removes what batches left that were killed.
func (w *Worktrees) sweep(ctx context.Context, parent string) error {
	folders, err := filepath.Glob(filepath.Join(parent, "batch-*"))
	if err != nil {
		return err
	}
	for _, dir := range folders {
		lock, err := lockFolder(dir)
		if err != nil || lock == nil {
			continue // it is in use, or gone meanwhile
		}
		trees, err := filepath.Glob(filepath.Join(dir, "*", ".git"))
		for _, t := range trees {
			err = errors.Join(err, w.remove(ctx, filepath.Dir(t)))
		}
		if err = errors.Join(err, os.RemoveAll(dir), lock.Close()); err != nil {
			return fmt.Errorf("remove the worktrees of a batch that died: %w", err)
		}
	}
	return nil
}

// Close removes the folder.
func (w *Worktrees) Close() error { return errors.Join(os.RemoveAll(w.dir), w.lock.Close()) }

// Has reports whether dir is in one of the worktrees.
func (w *Worktrees) Has(dir string) bool {
	rel, err := filepath.Rel(w.dir, dir)
	return err == nil && filepath.IsLocal(rel)
}

// git runs git in dir and gives the beginning of what it prints.
func (w *Worktrees) git(ctx context.Context, dir string, environ []string, args ...string) (string, error) {
	// Hooks are the repository's programs, and none of the user's checkouts.
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(w.environ[:len(w.environ):len(w.environ)], environ...)
	// A signal at the terminal is for us: git must not leave half of its work.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, errs limited
	out.limit, errs.limit = maxPatch+1, 4<<10
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(errs.String()); text != "" {
			err = errors.New(text)
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return out.String(), nil
}

// limited keeps the beginning of what is written to it.
type limited struct {
	bytes.Buffer
	limit int
}

func (l *limited) Write(b []byte) (int, error) {
	_, _ = l.Buffer.Write(b[:max(0, min(len(b), l.limit-l.Len()))]) // a Buffer takes everything
	return len(b), nil
}

// ReadFrom hides the buffer's own, which knows no limit.
func (l *limited) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{l}, r) }

// Worktree is a checkout of its own of the commit that a directory's
// repository is at.
type Worktree struct {
	Dir string // the place in it that corresponds to the directory

	owner *Worktrees
	top   string // of the worktree
	from  string // top of the user's checkout
	base  string // the commit
}

// Check says why a directory cannot be isolated: it is in no repository, there
// is no commit, or a tracked file was changed, which a worktree would not have.
func (w *Worktrees) Check(ctx context.Context, dir string) error {
	_, _, err := w.base(ctx, dir)
	return err
}

// base is the top of dir's checkout, and its commit.
func (w *Worktrees) base(ctx context.Context, dir string) (top, commit string, err error) {
	if top, err = w.git(ctx, dir, nil, "rev-parse", "--show-toplevel"); err != nil {
		return "", "", badf("worktrees are made of a git checkout", "%s cannot be isolated: %w", dir, err)
	}
	if commit, err = w.git(ctx, dir, nil, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return "", "", badf("commit something", "%s cannot be isolated: its repository has no commit", dir)
	}
	changed, err := w.git(ctx, dir, nil, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
	if err != nil {
		return "", "", err
	}
	if changed != "" {
		n := strings.Count(changed, "\n")
		first, _, _ := strings.Cut(changed, "\n")
		return "", "", badf("commit or stash them: a worktree has what is committed",
			"%s cannot be isolated: tracked files are changed (%s; %d in all)", dir, strings.TrimSpace(first), n)
	}
	return strings.TrimSuffix(top, "\n"), strings.TrimSpace(commit), nil
}

// Add makes a worktree for work in dir. The caller removes it.
func (w *Worktrees) Add(ctx context.Context, dir string) (*Worktree, error) {
	top, commit, err := w.base(ctx, dir)
	if err != nil {
		return nil, err
	}
	prefix, err := w.git(ctx, dir, nil, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	t := &Worktree{owner: w, top: filepath.Join(w.dir, strconv.FormatInt(w.made.Add(1), 10)), from: top, base: commit}
	t.Dir = filepath.Join(t.top, filepath.FromSlash(strings.TrimSuffix(prefix, "\n")))
	if _, err = w.git(ctx, dir, nil, "worktree", "add", "--quiet", "--detach", t.top, commit); err == nil {
		err = os.MkdirAll(t.Dir, 0o755) // a directory without a tracked file
	}
	if err != nil {
		return nil, errors.Join(err, t.Remove(context.WithoutCancel(ctx)))
	}
	return t, nil
}

// Path is where a path of the user's checkout is in the worktree, if it is
// there; others stay.
func (t *Worktree) Path(path string) string {
	rel, err := filepath.Rel(t.from, path)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	moved := filepath.Join(t.top, rel)
	if _, err := os.Lstat(moved); err != nil {
		return path
	}
	return moved
}

// Patch is what was changed in the worktree, in the form that git apply takes
// at the commit: commits of the task and new files that are not ignored
// included.
func (t *Worktree) Patch(ctx context.Context) (string, error) {
	objects, err := t.owner.git(ctx, t.top, nil, "rev-parse", "--path-format=absolute", "--git-path", "objects")
	if err != nil {
		return "", err
	}
	// New contents go to a place that ends with the worktree: the repository
	// gets nothing from a task but what the task itself commits.
	own := t.top + ".objects"
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for the patch: %w", err)
	}
	defer os.RemoveAll(own) //nolint:errcheck // closing removes it too
	apart := []string{"GIT_OBJECT_DIRECTORY=" + own, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + strconv.Quote(strings.TrimSuffix(objects, "\n"))}
	if _, err := t.owner.git(ctx, t.top, apart, "-c", "advice.addEmbeddedRepo=false", "add", "--all", "."); err != nil {
		return "", err
	}
	patch, err := t.owner.git(ctx, t.top, apart, "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false",
		"diff", "--cached", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative",
		"--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", t.base)
	if err == nil && len(patch) > maxPatch {
		err = fmt.Errorf("the patch has more than %d MiB", maxPatch>>20)
	}
	return patch, err
}

// Remove removes the worktree and git's metadata of it.
func (t *Worktree) Remove(ctx context.Context) error {
	err := t.owner.remove(ctx, t.top)
	if err == nil {
		// Nothing to do for git, unless the task has broken the worktree.
		_, err = t.owner.git(ctx, t.from, nil, "worktree", "prune")
	}
	if err != nil {
		return fmt.Errorf("remove the worktree: %w", err)
	}
	return nil
}

func (w *Worktrees) remove(ctx context.Context, top string) error {
	common, err := w.git(ctx, top, nil, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err == nil {
		// Twice: even if it is locked, even if it has changes.
		_, err = w.git(ctx, filepath.Dir(top), nil, "--git-dir="+strings.TrimSuffix(common, "\n"), "worktree", "remove", "--force", "--force", top)
	}
	if err == nil {
		return nil
	}
	// A task may have broken the worktree; git is told by pruning.
	return errors.Join(unlock(top), os.RemoveAll(top))
}

// unlock makes folders writable that a task has closed, so that they can go.
func unlock(top string) error {
	return filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // removing it will say what is wrong
		}
		if d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // it is being removed
		}
		return nil
	})
}
