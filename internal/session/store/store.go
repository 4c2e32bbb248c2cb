// Package store keeps sessions in one SQLite file.
//
// It promises: what a call acknowledged survives the death of the process
// (prompts and the ends of turns survive a power loss too); a prompt with its
// parts and its turn appears as a whole or not at all; messages are ordered by
// their place in the queue and the store's own counter, whatever the clocks
// say; any number of processes may use the file at once.
//
// It knows SQL and nothing of models, and decides nothing but the state of the
// queue. It will not hold a transaction while anything but SQL happens.
//
// One connection writes, four read. Write transactions begin immediate: a
// deferred one that reads and then writes fails at once, busy timeout or not,
// when another process wrote in between.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"

	_ "github.com/mattn/go-sqlite3" // the driver
)

// Options say how to open a session file.
type Options struct {
	Version string // of this rally; written to new sessions that name none
	// Now is the clock, in milliseconds since the epoch.
	Now func() int64
	// NewID makes an id from "ses", "msg", "prt" or "trn": prefix, "_" and
	// something unique. The store itself makes ids of turns and of copies.
	NewID func(prefix string) string
	// ReadOnly opens an existing file for reading: a missing or empty one is
	// ErrNotFound, a write is ErrReadOnly. Now and NewID are not needed.
	ReadOnly bool
}

// Store is an open session file. It is safe for concurrent use.
type Store struct {
	path   string
	opts   Options
	w      *sql.DB // nil when read-only
	r      *sql.DB
	closed atomic.Bool
	crash  crashHook
}

// Open opens the session file at path and creates or migrates it where that
// is needed. It never changes a file that it refuses: one that is not
// rally's (ErrNotSessionFile), that a newer rally wrote (ErrNewer), that
// cannot be written (ErrReadOnly). The caller closes the store.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	path, err := realPath(path)
	if err != nil {
		return nil, fmt.Errorf("open session file %q: %w", path, err)
	}
	s := &Store{path: path, opts: opts, crash: newCrashHook()}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.closePools())
	}
	return s, nil
}

// Path is the session file's real path.
func (s *Store) Path() string { return s.path }

// Dir is the directory beside the file for what does not belong into it.
// Package store makes its locks folder; callers make tool-output, snapshot
// and plans with Folder.
func (s *Store) Dir() string { return s.path + ".d" }

// Folder makes the sub-folder name of Dir, with mode 0700, and returns its
// path.
func (s *Store) Folder(name string) (string, error) {
	dir := filepath.Join(s.Dir(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make folder beside session file: %w", err)
	}
	return dir, nil
}

// closeBusyTimeout bounds in milliseconds how long Close waits for other
// processes before it leaves the write-ahead log for the next one.
const closeBusyTimeout = 500

// Close cuts the write-ahead log if no other process is in the way, and
// closes the file. The store must not be used afterwards; closing it again
// does nothing.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	var err error
	if s.w != nil {
		err = s.checkpoint()
	}
	return s.fail("close session file", errors.Join(err, s.closePools()))
}

func (s *Store) closePools() error {
	var errs []error
	for _, db := range []*sql.DB{s.r, s.w} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

func (s *Store) checkpoint() error {
	ctx := context.Background()
	conn, err := s.w.Conn(ctx)
	if err != nil {
		return err
	}
	defer closeQuietly(conn)
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", closeBusyTimeout)); err != nil {
		return err
	}
	// A busy checkpoint is a row that says so, not an error.
	var busy, log, done int
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &done)
	if f := classify(s.path, err); f != nil && (errors.Is(f, ErrBusy) || errors.Is(f, ErrFull)) {
		return nil // everything is in the log and the next process will move it
	}
	return err
}

// The writer's busy timeout is short because write repeats it; see retryBusy.
const (
	common = "_foreign_keys=on&_stmt_cache_size=64"
	reader = common + "&_busy_timeout=10000&_query_only=1&_txlock=deferred"
	writer = common + "&_busy_timeout=100&_journal_mode=WAL&_synchronous=NORMAL&_txlock=immediate"
)

func (s *Store) connect(ctx context.Context) error {
	if s.opts.ReadOnly {
		return s.connectReadOnly(ctx)
	}
	var err error
	if s.w, err = s.pool(1, writer+"&mode=rw"); err != nil {
		return err
	}
	// A newer rally may have come between prepare and here.
	if err := s.checkVersion(ctx, s.w); err != nil {
		return err
	}
	s.r, err = s.pool(4, reader+"&mode=rw")
	return err
}

// connectReadOnly copes with a file and directory that cannot be written:
// SQLite then cannot make the index of the log. Without a log it needs none,
// and nobody who could write it is likely to be there.
func (s *Store) connectReadOnly(ctx context.Context) error {
	const read = reader + "&mode=ro"
	var err error
	if s.r, err = s.pool(4, read); err != nil {
		return err
	}
	err = s.checkVersion(ctx, s.r)
	if !errors.Is(err, ErrReadOnly) || s.hasLog() {
		return err
	}
	old := s.r
	if s.r, err = s.pool(4, read+"&immutable=1"); err == nil {
		err = s.checkVersion(ctx, s.r)
	}
	return errors.Join(err, old.Close())
}

func (s *Store) pool(n int, options string) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", dsn(s.path, options))
	if err != nil {
		return nil, fmt.Errorf("open session file %q: %w", s.path, err)
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

func (s *Store) checkVersion(ctx context.Context, db *sql.DB) error {
	version, err := retryBusy(ctx, func() (v int, err error) {
		err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v)
		return v, err
	})
	if err != nil {
		return s.fail(fmt.Sprintf("open session file %q", s.path), err)
	}
	if version > schemaVersion() {
		return s.newer(version)
	}
	return nil
}

// hasLog reports whether the write-ahead log holds anything.
func (s *Store) hasLog() bool {
	info, err := os.Stat(s.path + "-wal")
	return err == nil && info.Size() > 0
}

// dsn escapes what has a meaning in a URI and is common in paths.
func dsn(path, query string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query
}

// realPath follows links, so that two names of one file share its locks.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		return filepath.Join(dir, filepath.Base(abs)), nil
	}
	return abs, nil
}

// closeQuietly gives a connection back to its pool, which reports nothing
// that the statements before did not.
func closeQuietly(conn *sql.Conn) {
	_ = conn.Close()
}
