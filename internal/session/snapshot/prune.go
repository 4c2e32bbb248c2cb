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

// Pruned says what Prune did.
type Pruned struct {
	Trees        int // forgotten
	Repositories int // removed whole
}

// Prune forgets the trees that were last tracked before a time, unless keep
// says that a session still names them, and frees what only they held. A
// shadow repository without any tree left is removed. Dir, Environ and Limits
// of opts count; a repository that is in use or in trouble is left for the
// next time and reported.
func Prune(ctx context.Context, opts Options, before time.Time, keep func(hash string) bool) (Pruned, error) {
	opts.Limits = opts.Limits.orDefault()
	locks, err := filepath.Glob(filepath.Join(opts.Dir, "*.lock"))
	if err != nil {
		return Pruned{}, fmt.Errorf("list snapshots: %w", err)
	}
	var sum Pruned
	var errs []error
	for _, lock := range locks {
		t := &Tree{opts: opts, repo: strings.TrimSuffix(lock, ".lock"), git: lookPath(opts.Environ)}
		t.opts.WorkTree = t.repo // git prune looks at none
		if _, err := os.Stat(filepath.Join(t.repo, "HEAD")); err != nil {
			continue
		}
		if t.git == "" {
			return sum, fmt.Errorf("%w: git was not found", ErrOff)
		}
		err := t.exclusive(ctx, func(ctx context.Context) error { return t.prune(ctx, before, keep, &sum) })
		if ctx.Err() != nil {
			return sum, err
		}
		errs = append(errs, err)
	}
	return sum, errors.Join(errs...)
}

func (t *Tree) prune(ctx context.Context, before time.Time, keep func(string) bool, sum *Pruned) error {
	pins, err := os.ReadDir(filepath.Join(t.repo, pinDir))
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	left, forgotten := 0, 0
	for _, pin := range pins {
		info, err := pin.Info()
		if err != nil || !info.ModTime().Before(before) || isHash(pin.Name()) && keep != nil && keep(pin.Name()) {
			left++
			continue
		}
		for _, name := range []string{filepath.Join(pinDir, pin.Name()), filepath.Join(skippedDir, pin.Name())} {
			if err := os.Remove(filepath.Join(t.repo, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("forget snapshot: %w", err)
			}
		}
		forgotten++
	}
	sum.Trees += forgotten
	if left == 0 {
		sum.Repositories++
		return t.removeRepo()
	}
	if forgotten == 0 {
		return nil
	}
	// The lock is held, so nothing without a ref or a place in the index is
	// still needed.
	if packs, _ := filepath.Glob(filepath.Join(t.repo, "objects", "pack", "*.pack")); len(packs) > 0 {
		if err := t.run(ctx, call{args: []string{"repack", "-a", "-d", "-q"}}); err != nil {
			return err
		}
	}
	return t.run(ctx, call{args: []string{"prune", "--expire=now"}})
}

// removeRepo takes HEAD first: what has none is not complete, so a removal
// that dies half-way is never taken for a repository.
func (t *Tree) removeRepo() error {
	if err := os.Remove(filepath.Join(t.repo, "HEAD")); err != nil {
		return fmt.Errorf("remove snapshots: %w", err)
	}
	if err := os.RemoveAll(t.repo); err != nil {
		return fmt.Errorf("remove snapshots: %w", err)
	}
	return nil
}
