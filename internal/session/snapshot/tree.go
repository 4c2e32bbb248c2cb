package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Options say what to take snapshots of and where to keep them. Paths are
// absolute with links resolved.
type Options struct {
	// Dir is the folder of all shadow repositories, created when needed.
	Dir string
	// WorkTree is the directory whose state is kept, and the only one that is
	// ever written to; Root the top of the repository it is in, or itself.
	WorkTree string
	Root     string
	// Environ is the environment to run git in, as KEY=value. PATH finds git;
	// HOME is never taken for a work tree.
	Environ []string
	// Exclude are files and folders that are never part of a snapshot, with
	// what is below them and beside them as PATH-wal: the session file.
	Exclude []string
	Limits  Limits
}

// Limits bound what a snapshot may cost; 0 means the default.
type Limits struct {
	Time  time.Duration // of one operation, waiting for others included; default 10 s
	Size  int64         // bytes of an untracked file; default 2 MiB
	Files int           // in a tree; default 200,000
}

func (l Limits) orDefault() Limits {
	if l.Time == 0 {
		l.Time = 10 * time.Second
	}
	if l.Size == 0 {
		l.Size = 2 << 20
	}
	if l.Files == 0 {
		l.Files = 200_000
	}
	return l
}

// ErrOff is the error of every operation on a Tree that is off; Reason says
// why.
var ErrOff = errors.New("snapshots are off")

// MissingError says that a tree, or something in it, is not in the shadow
// repository any more or never was.
type MissingError struct{ Hash string }

// Error names the tree.
func (e *MissingError) Error() string { return fmt.Sprintf("snapshot %q is not there", e.Hash) }

// Tree is the work directory as snapshots see it. Its methods are safe for
// concurrent use by several goroutines and processes: one works at a time.
type Tree struct {
	opts Options
	git  string // the program
	repo string // the shadow repository

	mu     sync.Mutex
	off    string // why; empty while on
	told   bool
	stored map[string]bool // the files of all trees so far
}

// Open looks at what is there and starts nothing. A Tree that cannot work is
// returned off. There is nothing to close.
func Open(opts Options) *Tree {
	opts.Limits = opts.Limits.orDefault()
	opts.WorkTree, opts.Dir = filepath.Clean(opts.WorkTree), filepath.Clean(opts.Dir)
	if opts.Root = filepath.Clean(opts.Root); !within(opts.Root, opts.WorkTree) {
		opts.Root = opts.WorkTree
	}
	key := sha256.Sum256([]byte(opts.WorkTree))
	t := &Tree{opts: opts, repo: filepath.Join(opts.Dir, hex.EncodeToString(key[:10]))}
	t.git = lookPath(opts.Environ)
	t.off = t.unusable()
	return t
}

// unusable says why no snapshots can be taken of the work directory.
func (t *Tree) unusable() string {
	work := t.opts.WorkTree
	switch info, err := os.Stat(work); {
	case !supported:
		return "this system has no process groups"
	case t.git == "":
		return "git was not found"
	case !filepath.IsAbs(work) || !filepath.IsAbs(t.opts.Dir):
		return "the paths are not absolute"
	case err != nil:
		return err.Error()
	case !info.IsDir():
		return work + " is not a directory"
	case work == filepath.Dir(work):
		return "the work directory is the root of the file system"
	case work == filepath.Clean(environ(t.opts.Environ, "HOME")):
		return "the work directory is the home directory"
	case within(t.opts.Dir, work):
		return "the work directory is where snapshots are kept"
	}
	return ""
}

// Off reports whether the tree is off.
func (t *Tree) Off() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.off != ""
}

// Reason is why the tree is off, the first time it is asked for after that
// happened; else it is empty.
func (t *Tree) Reason() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told {
		return ""
	}
	t.told = t.off != ""
	return t.off
}

// switchOff ends the tree's work for good; the first reason stays.
func (t *Tree) switchOff(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.off == "" {
		t.off = reason
	}
}

// errSlow is the cause of a context that the time guard ended.
var errSlow = errors.New("snapshots took too long")

// guarded is exclusive for what a turn needs. Whatever goes wrong but the
// caller's own context and a missing tree turns the tree off: the next step
// would only meet it again.
func (t *Tree) guarded(ctx context.Context, op func(ctx context.Context) error) error {
	if t.Off() {
		return ErrOff
	}
	err := t.exclusive(ctx, op)
	var missing *MissingError
	if err == nil || ctx.Err() != nil || errors.As(err, &missing) {
		return err
	}
	t.switchOff(err.Error())
	return fmt.Errorf("%w: %w", ErrOff, err)
}

// exclusive runs an operation under the lock and the time guard.
func (t *Tree) exclusive(ctx context.Context, op func(ctx context.Context) error) error {
	guard, cancel := context.WithTimeoutCause(ctx, t.opts.Limits.Time, errSlow)
	defer cancel()
	err := t.locked(guard, func() error { return op(guard) })
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case errors.Is(context.Cause(guard), errSlow):
		return fmt.Errorf("%w: more than %v", errSlow, t.opts.Limits.Time)
	}
	return err
}

// isHash is what a tree's name looks like; nothing else reaches git as one.
func isHash(s string) bool { return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == "" }

// within reports whether path is dir or below it; both are clean.
func within(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}
