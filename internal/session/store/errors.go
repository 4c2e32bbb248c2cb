package store

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// What can be wrong with a session file or a look-up. Errors of this package
// match one of them with errors.Is where a caller may want to tell them apart.
var (
	ErrNotFound       = errors.New("not found")
	ErrExists         = errors.New("exists already")
	ErrNewer          = errors.New("written by a newer rally")
	ErrNotSessionFile = errors.New("not a session file of rally")
	ErrReadOnly       = errors.New("cannot be written")
	ErrFull           = errors.New("no space left")
	ErrBusy           = errors.New("locked by another process")
	ErrDamaged        = errors.New("damaged")
)

// FileError is trouble with the session file itself. It names the file and
// says what to do; Err is one of the sentinels above.
type FileError struct {
	Path   string
	Err    error
	Remedy string
	Cause  error // what SQLite or the system said; may be nil
}

func (e *FileError) Error() string {
	text := fmt.Sprintf("session file %q: %v", e.Path, e.Err)
	if e.Cause != nil {
		text += fmt.Sprintf(" (%v)", e.Cause)
	}
	return text + ": " + e.Remedy
}

// Unwrap makes errors.Is find the sentinel and the cause.
func (e *FileError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}

// NotFoundError says that there is no such row. It matches ErrNotFound.
type NotFoundError struct {
	Kind string // session, message, part or turn
	ID   string
	Near []string // at most 3 ids that look alike
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("no %s %q", e.Kind, e.ID)
	if len(e.Near) > 0 {
		text += "; near: " + strings.Join(e.Near, ", ")
	}
	return text
}

// Is matches ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// AmbiguousError says that several session ids begin with Prefix.
type AmbiguousError struct {
	Prefix     string
	Candidates []string // sorted, at most 10
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("session %q is ambiguous: %s", e.Prefix, strings.Join(e.Candidates, ", "))
}

// fail gives err, which came from SQLite while doing op, its place in the
// vocabulary above.
func (s *Store) fail(op string, err error) error {
	explained := s.explain(err)
	if f := (*FileError)(nil); explained == nil || errors.As(explained, &f) {
		return explained
	}
	return fmt.Errorf("%s: %w", op, err)
}

// explain is fail for an error that says itself what was being done.
func (s *Store) explain(err error) error {
	if f := (*FileError)(nil); err == nil || errors.As(err, &f) {
		return err
	}
	if f := classify(s.path, err); f != nil {
		return f
	}
	return err
}

// classify maps the errors that are about the file as a whole; nil for others.
func classify(path string, err error) *FileError {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return nil
	}
	f := &FileError{Path: path, Cause: err}
	switch {
	case e.Code == sqlite3.ErrFull, e.Code == sqlite3.ErrIoErr && outOfSpace(e.SystemErrno):
		f.Err, f.Remedy = ErrFull, "free some space and run again; what was stored before is intact"
	case e.Code == sqlite3.ErrReadonly, e.Code == sqlite3.ErrPerm, e.Code == sqlite3.ErrAuth:
		f.Err, f.Remedy = ErrReadOnly, "make the file and its directory writable or choose another with --db"
	case e.Code == sqlite3.ErrCantOpen:
		f.Err, f.Remedy = ErrReadOnly, "check that its directory exists and can be written, or choose another with --db"
	case isBusy(err):
		f.Err, f.Remedy = ErrBusy, "wait for the process that holds it, or end that process"
	case e.Code == sqlite3.ErrNotADB:
		f.Err, f.Remedy = ErrNotSessionFile, "it was left as it is; choose another with --db"
	case e.Code == sqlite3.ErrCorrupt:
		f.Err, f.Remedy = ErrDamaged, "restore it from a copy, or move it away to begin a new one"
	default:
		return nil
	}
	return f
}

// outOfSpace covers a full disk, a quota and a file-size limit, for which
// SQLite has no code of their own.
func outOfSpace(errno syscall.Errno) bool {
	return errno == syscall.ENOSPC || errno == syscall.EDQUOT || errno == syscall.EFBIG
}

func isBusy(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked)
}

func isConstraint(err error, kind sqlite3.ErrNoExtended) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && e.ExtendedCode == kind
}
