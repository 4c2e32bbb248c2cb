package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rally/internal/session"
	"rally/internal/session/store"
)

func execSQL(t testing.TB, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // a test's look from outside
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

// refused opens a file that must be refused with want, by both ways of
// opening, and left byte for byte.
func refused(t *testing.T, path string, want error) {
	t.Helper()
	before, readErr := os.ReadFile(path)
	for _, readOnly := range []bool{false, true} {
		opts := options()
		opts.ReadOnly = readOnly
		s, err := store.Open(t.Context(), path, opts)
		if err == nil {
			t.Fatal(errors.Join(errors.New("it was opened"), s.Close()))
		}
		var f *store.FileError
		if !errors.Is(err, want) || !errors.As(err, &f) || !strings.Contains(err.Error(), path) || f.Remedy == "" {
			t.Errorf("read-only %v: error %v, want %v with file and remedy", readOnly, err, want)
		}
	}
	after, err := os.ReadFile(path)
	if string(before) != string(after) || fmt.Sprint(readErr) != fmt.Sprint(err) {
		t.Error("the file was touched")
	}
}

func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, data string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("text", func(t *testing.T) { refused(t, file("text", "some notes\n"), store.ErrNotSessionFile) })
	t.Run("damaged", func(t *testing.T) {
		refused(t, file("damaged", "SQLite format 3\x00"+strings.Repeat("x", 5000)), store.ErrNotSessionFile)
	})
	t.Run("directory", func(t *testing.T) { refused(t, dir, store.ErrNotSessionFile) })
	t.Run("foreign database", func(t *testing.T) {
		path := filepath.Join(dir, "foreign")
		execSQL(t, path, "CREATE TABLE t (x)")
		refused(t, path, store.ErrNotSessionFile)
	})
	t.Run("newer", func(t *testing.T) {
		path := filepath.Join(dir, "newer")
		s := open(t, path)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		execSQL(t, path, "PRAGMA user_version = 99")
		refused(t, path, store.ErrNewer)
	})
	t.Run("newer, not yet checkpointed", func(t *testing.T) {
		path := filepath.Join(dir, "newer-wal")
		open(t, path) // holds the log in place
		execSQL(t, path, "PRAGMA user_version = 99")
		refused(t, path, store.ErrNewer)
	})
}

func TestNewFile(t *testing.T) {
	// Characters that mean something in a URI, and a directory to be made.
	path := filepath.Join(t.TempDir(), "a?b#c%20d é", "my rally.db")
	s := open(t, path)
	prompt(t, s, "ses_a", "msg_1")
	for p, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", p, info.Mode().Perm(), want)
		}
	}
	dir, err := s.Folder("plans")
	if err != nil || dir != path+".d/plans" {
		t.Errorf("folder %q, error %v", dir, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		t.Errorf("the log has %d bytes after Close", info.Size())
	}
	again := open(t, path)
	diff(t, []string{"msg_1"}, messageIDs(history(t, again, "ses_a")))
}

// Two names of one file share one directory and so one lock a session.
func TestLinkedFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "real.db"))
	if err := os.Symlink("real.db", filepath.Join(dir, "link.db")); err != nil {
		t.Fatal(err)
	}
	linked := open(t, filepath.Join(dir, "link.db"))
	diff(t, s.Dir(), linked.Dir())
	lease, ok, err := s.TryLease("ses_a")
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, ok, err := linked.TryLease("ses_a"); ok || err != nil {
		t.Errorf("leased twice: %v, %v", ok, err)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
}

func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "rally.db")
	opts := store.Options{ReadOnly: true}
	if _, err := store.Open(t.Context(), path, opts); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
	s := open(t, path)
	prompt(t, s, "ses_a", "msg_1")
	r, err := store.Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"msg_1"}, messageIDs(history(t, r, "ses_a")))
	if err := r.SetStatus(t.Context(), "ses_a", session.Status{}); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("error %v, want ErrReadOnly", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// 200 kB of streamed text in 5,000 pieces leave less than 1 MB.
func TestStreamedTextIsCheap(t *testing.T) {
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")
	m := answer(t, s, turn, "msg_2")
	p := text("prt_s", "")
	p.SessionID, p.MessageID, p.Time = "ses_a", m.ID, &session.Span{Start: 1}
	write(t, s, func(tx *store.Tx) error { return tx.SavePart(p) })
	piece := strings.Repeat("t", 40)
	for range 5000 {
		write(t, s, func(tx *store.Tx) error { return tx.AppendText("prt_s", piece) })
	}
	got, err := s.Message(t.Context(), "ses_a", m.ID)
	if err != nil {
		t.Fatal(err)
	}
	p.Text = strings.Repeat(piece, 5000)
	diff(t, "hello"+p.Text, got.Text())
	p.Time.End = 2
	write(t, s, func(tx *store.Tx) error { return tx.SavePart(p) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(s.Path() + suffix); err == nil {
			size += info.Size()
		}
	}
	if size >= 1_000_000 {
		t.Errorf("the file has %d bytes", size)
	}
}

func TestLease(t *testing.T) {
	s := fresh(t)
	for _, id := range []string{"ses_a", "../../x", ".", strings.Repeat("l", 300), ""} {
		lease, err := s.Lease(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := s.TryLease(id); ok || err != nil {
			t.Errorf("%q leased twice: %v", id, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error)
		go func() {
			_, err := s.Lease(ctx, id)
			waiting <- err
		}()
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want canceled", err)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
		if lease, ok, err := s.TryLease(id); !ok || err != nil {
			t.Errorf("%q is not free again: %v", id, err)
		} else if err := lease.Release(); err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.Dir(), "locks"))
	if err != nil || len(entries) != 6 { // one each, and schema.lock
		t.Errorf("locks: %v, error %v", entries, err)
	}
}
