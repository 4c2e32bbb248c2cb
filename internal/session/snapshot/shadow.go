package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lockPoll is how often a waiter tries again.
const lockPoll = 10 * time.Millisecond

// locked runs op while no other process and no other Tree works on the shadow
// repository, which it makes where there is none.
func (t *Tree) locked(ctx context.Context, op func() error) (err error) {
	if err := os.MkdirAll(t.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("make snapshot folder: %w", err)
	}
	lock, err := takeLock(ctx, t.repo+".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := t.prepare(); err != nil {
		return fmt.Errorf("prepare snapshot folder: %w", err)
	}
	// The mark stays when this process dies in op: the next one then cleans up
	// behind it. A git that failed or was ended is cleaned up at once.
	mark := filepath.Join(t.repo, busyMark)
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("mark snapshot folder: %w", err)
	}
	if err := op(); err != nil {
		sweep(t.repo)
		return errors.Join(err, os.Remove(mark))
	}
	if err := os.Remove(mark); !errors.Is(err, fs.ErrNotExist) { // Prune removes all
		return err
	}
	return nil
}

// busyMark is the file in a shadow repository that says somebody works there.
const busyMark = "busy"

// takeLock opens the file and waits until its lock is free. Closing the file
// gives it back; the file stays, or two could hold locks on two files of one
// name.
func takeLock(ctx context.Context, path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock snapshots: %w", err)
	}
	for {
		ok, err := tryLock(lock)
		if ok {
			return lock, nil
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock snapshots: %w", err), lock.Close())
		}
		poll := time.NewTimer(lockPoll)
		select {
		case <-ctx.Done():
			poll.Stop()
			return nil, errors.Join(fmt.Errorf("wait for another process's snapshot: %w", ctx.Err()), lock.Close())
		case <-poll.C:
		}
	}
}

// prepare makes the shadow repository, or cleans up behind a process that
// died in it.
func (t *Tree) prepare() error {
	if _, err := os.Lstat(filepath.Join(t.repo, busyMark)); err == nil {
		sweep(t.repo)
	}
	if _, err := os.Stat(filepath.Join(t.repo, "HEAD")); err == nil {
		return nil
	}
	// HEAD comes last: what has it is complete.
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", pinDir, "info"} {
		if err := os.MkdirAll(filepath.Join(t.repo, dir), 0o700); err != nil {
			return err
		}
	}
	for _, f := range [][2]string{
		{"config", "[core]\n\trepositoryFormatVersion = 0\n\tbare = false\n[gc]\n\tauto = 0\n"},
		{"info/attributes", attributes},
		{"info/exclude", ""},
		{workTreeFile, t.opts.WorkTree},
		{"HEAD", "ref: refs/heads/none\n"},
	} {
		if err := writeFile(filepath.Join(t.repo, f[0]), []byte(f[1])); err != nil {
			return err
		}
	}
	return nil
}

// attributes go before those of the project: no conversion, whatever theirs
// say. An unspecified encoding is the only way to have none.
const attributes = "* -text !eol -crlf -ident !filter !working-tree-encoding !diff !merge\n"

// workTreeFile names the work directory, for people who look.
const workTreeFile = "worktree"

// pinDir holds a ref for each tree that shall stay.
const pinDir = "refs/rally"

// pin keeps a tree from being pruned. The ref is written as a file: a process
// for it would cost more than all else.
func (t *Tree) pin(hash string) error {
	return writeFile(filepath.Join(t.repo, pinDir, hash), []byte(hash+"\n"))
}

// writeFile replaces a file of the shadow repository in one step.
func writeFile(path string, content []byte) error {
	temp := path + ".lock" // never a ref's name
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// sweep removes what a git that was ended left behind. The caller holds the
// lock, so nobody uses it. What cannot be removed is met again next time.
func sweep(repo string) {
	_ = os.Remove(filepath.Join(repo, "index.lock"))
	stages, _ := filepath.Glob(filepath.Join(repo, stagePrefix+"*"))
	for _, stage := range stages {
		_ = os.RemoveAll(stage)
	}
	_ = filepath.WalkDir(filepath.Join(repo, "objects"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), "tmp_") {
			_ = os.Remove(path)
		}
		return nil
	})
}

// stagePrefix begins the names of folders for contents on their way back.
const stagePrefix = "stage-"
