package store

import (
	"bytes"
	"context"
	"database/sql"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// migrations holds NNN_name.sql, one for each schema version from 1 on. A
// file that has been released is never edited.
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks a SQLite file as rally's: "rall" in ASCII.
const applicationID = 0x72616c6c

// schemaVersion is the version this rally writes.
func schemaVersion() int {
	names, _ := fs.Glob(migrations, "migrations/*.sql") // the pattern is valid
	return len(names)
}

// header is what the first 100 bytes of a SQLite file tell without opening
// it as one.
type header struct {
	size        int64
	sqlite      bool
	version     int
	application int
}

// readHeader returns a zero header for a missing file.
func readHeader(path string) (header, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return header{}, nil
	}
	if err != nil {
		return header{}, err
	}
	defer f.Close() //nolint:errcheck // opened for reading only
	info, err := f.Stat()
	if err != nil {
		return header{}, err
	}
	if info.IsDir() {
		return header{size: 1}, nil
	}
	var b [100]byte
	n, err := io.ReadFull(f, b[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return header{}, err
	}
	return header{
		size:        int64(n),
		sqlite:      n == len(b) && bytes.HasPrefix(b[:], []byte("SQLite format 3\x00")),
		version:     int(binary.BigEndian.Uint32(b[60:])),
		application: int(binary.BigEndian.Uint32(b[68:])),
	}, nil
}

// prepare leaves a file of the current schema at s.path or refuses. A file
// whose header is current is taken as it is: that costs one read.
func (s *Store) prepare(ctx context.Context) error {
	h, err := readHeader(s.path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return s.readOnly(err)
	case err != nil:
		return fmt.Errorf("open session file %q: %w", s.path, err)
	case h.size > 0 && !h.sqlite:
		return s.notOurs()
	case h.application == applicationID && h.version > schemaVersion():
		return s.newer(h.version)
	case s.opts.ReadOnly && h.size == 0:
		return &NotFoundError{Kind: "session file", ID: s.path}
	case h.application == applicationID && h.version == schemaVersion():
		if s.hasLog() { // a newer rally's migration may be there still
			if err := s.inspect(ctx); err != nil && !errors.Is(err, ErrReadOnly) {
				return err
			}
		}
		return s.writable()
	}
	return s.create(ctx)
}

// writable finds out before SQLite does, which would make files beside it.
func (s *Store) writable() error {
	if s.opts.ReadOnly {
		return nil
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		return f.Close()
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return s.readOnly(err)
	}
	return fmt.Errorf("open session file %q: %w", s.path, err)
}

// create makes or migrates the file. Of processes that start at once only one
// does; without the lock some of them failed in spite of the busy timeout.
func (s *Store) create(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("open session file %q: %w", s.path, err)
	}
	locks, err := s.Folder("locks")
	if err != nil {
		return err
	}
	lock := flock.New(filepath.Join(locks, "schema.lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return fmt.Errorf("lock session file %q: %w", s.path, err)
	}
	defer lock.Close() //nolint:errcheck // closing frees the lock in any case
	if err := s.inspect(ctx); err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", dsn(s.path, "mode=rw&_journal_mode=WAL&_busy_timeout=10000&_synchronous=FULL&_txlock=immediate"))
	if err != nil {
		return fmt.Errorf("open session file %q: %w", s.path, err)
	}
	db.SetMaxOpenConns(1)
	err = migrate(ctx, db, migrations)
	return s.fail(fmt.Sprintf("migrate session file %q", s.path), errors.Join(err, db.Close()))
}

// inspect looks at a SQLite file without changing it: somebody else's has
// tables and another application id.
func (s *Store) inspect(ctx context.Context) error {
	if h, err := readHeader(s.path); err != nil || h.size == 0 {
		return err
	}
	db, err := sql.Open("sqlite3", dsn(s.path, "mode=ro&_busy_timeout=10000"))
	if err != nil {
		return fmt.Errorf("open session file %q: %w", s.path, err)
	}
	defer db.Close() //nolint:errcheck // opened for reading only
	var version, application, tables int
	const q = `SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema)`
	if err := db.QueryRowContext(ctx, q).Scan(&version, &application, &tables); err != nil {
		return s.fail(fmt.Sprintf("open session file %q", s.path), err)
	}
	if application != applicationID && (application != 0 || version != 0 || tables != 0) {
		return s.notOurs()
	}
	if version > schemaVersion() {
		return s.newer(version)
	}
	return nil
}

// migrate applies the files of dir whose number is above user_version, each
// in one transaction with the new number: a crash leaves a whole version.
func migrate(ctx context.Context, db *sql.DB, dir fs.FS) error {
	names, err := fs.Glob(dir, "migrations/*.sql")
	if err != nil {
		return err
	}
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	for i := version; i < len(names); i++ {
		script, err := fs.ReadFile(dir, names[i])
		if err != nil {
			return err
		}
		if err := apply(ctx, db, i+1, string(script)); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(names[i]), err)
		}
	}
	return nil
}

func apply(ctx context.Context, db *sql.DB, version int, script string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	if _, err := tx.ExecContext(ctx, script); err != nil {
		return err
	}
	mark := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version)
	if _, err := tx.ExecContext(ctx, mark); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *Store) notOurs() error {
	return &FileError{Path: s.path, Err: ErrNotSessionFile, Remedy: "it was left as it is; choose another with --db"}
}

func (s *Store) newer(version int) error {
	return &FileError{
		Path: s.path, Err: ErrNewer,
		Cause:  fmt.Errorf("schema %d, this rally knows %d", version, schemaVersion()),
		Remedy: "it was left as it is; use that rally or choose another file with --db",
	}
}

func (s *Store) readOnly(cause error) error {
	return &FileError{
		Path: s.path, Err: ErrReadOnly, Cause: cause,
		Remedy: "make the file and its directory writable or choose another with --db",
	}
}
