package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/oklog/ulid/v2"

	"rally/internal/session"
	"rally/internal/session/loop"
	"rally/internal/session/store"
	"rally/internal/tools"
)

// directory is the real path we work in: -C, else where we were started.
func (a *app) directory() (string, error) {
	dir := a.global.dir
	if dir == "" {
		dir = "."
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", usagef("", "the work directory: %w", err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", usagef("", "the work directory: %s is not a directory", dir)
	}
	return dir, nil
}

// userDir is a folder of the XDG convention, such as XDG_DATA_HOME with its
// fallback below the home directory; empty if there is neither.
func (p *process) userDir(variable, fallback string) string {
	if dir := p.env(variable); filepath.IsAbs(dir) {
		return dir
	}
	if home := p.env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, fallback)
	}
	return ""
}

// dbPath is the session file: --db, RALLY_DB, else in the user's data folder.
func (a *app) dbPath() (string, error) {
	if path := a.global.db; path != "" {
		return path, nil
	}
	if path := a.env("RALLY_DB"); path != "" {
		return path, nil
	}
	data := a.userDir("XDG_DATA_HOME", ".local/share")
	if data == "" {
		return "", usagef("name it with --db or RALLY_DB", "neither XDG_DATA_HOME nor HOME says where the session file is")
	}
	return filepath.Join(data, "rally", "rally.db"), nil
}

// openStore opens the session file; path is empty for the usual one. Whatever
// keeps it from opening is found before anything was sent or lost.
func (a *app) openStore(ctx context.Context, path string, readOnly bool) (*store.Store, error) {
	if path == "" {
		var err error
		if path, err = a.dbPath(); err != nil {
			return nil, err
		}
	}
	s, err := store.Open(ctx, path, store.Options{
		Version: version, ReadOnly: readOnly, NewID: a.newIDs(),
		Now: func() int64 { return a.now().UnixMilli() },
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
		err = &loop.UsageError{Err: err}
	}
	return s, err
}

// closeStore closes the session file; what was stored is safe already, so
// trouble is only mentioned.
func (a *app) closeStore(s *store.Store) {
	if err := s.Close(); err != nil {
		sayNotice(a.stderr, err.Error())
	}
}

// pick finds a session by id or a unique beginning of it; without one, the
// newest of this directory.
func (a *app) pick(ctx context.Context, s *store.Store, id string) (session.Session, error) {
	if id != "" {
		return s.Resolve(ctx, id)
	}
	dir, err := a.directory()
	if err != nil {
		return session.Session{}, err
	}
	found, err := s.Last(ctx, dir)
	if errors.Is(err, store.ErrNotFound) {
		return found, usagef("rally sessions lists those of all directories", "there is no session in %s", dir)
	}
	return found, err
}

// deleteSession removes a session that nobody serves, its child sessions and
// their cut outputs.
func (a *app) deleteSession(ctx context.Context, s *store.Store, id string) error {
	lease, free, err := s.TryLease(id)
	if err != nil {
		return err
	}
	if !free {
		return fmt.Errorf("session %s: %w", id, loop.ErrBusy)
	}
	below, err := s.Descendants(ctx, id)
	if err == nil {
		err = s.Delete(ctx, id)
	}
	for _, gone := range append(below, id) {
		if err == nil {
			err = tools.RemoveOutputs(filepath.Join(s.Dir(), "tool-output"), gone)
		}
	}
	return errors.Join(err, lease.Release())
}

// newIDs makes ids: a prefix and a ULID in lower case. They are identity, not
// order, but sort by time within a process.
func (a *app) newIDs() func(prefix string) string {
	var mu sync.Mutex
	entropy := ulid.Monotonic(rand.Reader, 0)
	return func(prefix string) string {
		mu.Lock()
		defer mu.Unlock()
		now := ulid.Timestamp(a.now())
		id, err := ulid.New(now, entropy)
		if err != nil { // the random part overflowed within a millisecond
			id = ulid.MustNew(now, rand.Reader)
		}
		return prefix + "_" + strings.ToLower(id.String())
	}
}
