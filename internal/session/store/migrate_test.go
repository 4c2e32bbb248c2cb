package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

func openRaw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", dsn(path, "_foreign_keys=on"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func testOptions() Options {
	return Options{Version: "test", Now: func() int64 { return 1 }, NewID: func(p string) string { return p + "_x" }}
}

// Each old schema, as a file that was in use, opens as the current one with
// everything in it: NNN.sql is a dump of a file of version NNN.
func TestOldSchemas(t *testing.T) {
	dumps, err := filepath.Glob("../../../testdata/session/*.sql")
	if err != nil || len(dumps) != schemaVersion() {
		t.Fatalf("%d dumps for %d schema versions, error %v", len(dumps), schemaVersion(), err)
	}
	for i, dump := range dumps {
		t.Run(filepath.Base(dump), func(t *testing.T) {
			if want := fmt.Sprintf("%03d.sql", i+1); filepath.Base(dump) != want {
				t.Fatalf("want %s", want)
			}
			script, err := os.ReadFile(dump)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "rally.db")
			db := openRaw(t, path)
			if _, err := db.ExecContext(t.Context(), string(script)); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), path, testOptions())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close() //nolint:errcheck // the test reads only
			checkOldFile(t, s)
			fresh, err := Open(t.Context(), filepath.Join(t.TempDir(), "rally.db"), testOptions())
			if err != nil {
				t.Fatal(err)
			}
			defer fresh.Close() //nolint:errcheck // the test reads only
			if d := cmp.Diff(schema(t, fresh.w), schema(t, s.w)); d != "" {
				t.Errorf("a migrated file and a new one differ: -new +migrated\n%s", d)
			}
		})
	}
}

// checkOldFile knows what every dump holds.
func checkOldFile(t *testing.T, s *Store) {
	t.Helper()
	v, err := s.Session(t.Context(), "ses_one")
	if err != nil {
		t.Fatal(err)
	}
	want := session.Session{
		ID: "ses_one", Title: "fix the test", Directory: "/w", Agent: "build",
		Model: session.Model{Provider: "mock", ID: "m", Variant: "high"},
		Rules: []session.Rule{{Permission: "bash", Pattern: "git *", Action: session.Allow}}, Version: "test",
		Created: 1700000000000, Updated: v.Updated,
	}
	if d := cmp.Diff(want, v); d != "" {
		t.Error(d)
	}
	messages, err := s.History(t.Context(), "ses_one")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range messages {
		got = append(got, fmt.Sprintf("%s %s %d/%d", m.ID, m.Role, m.Place, m.Seq))
		for _, p := range m.Parts {
			got = append(got, fmt.Sprintf("%s %s", p.Head().ID, p.Kind()))
		}
	}
	wantRows := []string{
		"msg_1 user 1/1", "prt_msg_1 text", "msg_2 assistant 1/2", "prt_21 step-start", "prt_22 reasoning", "prt_23 tool", "prt_24 step-finish",
		"msg_3 assistant 1/3", "prt_31 text",
	}
	if d := cmp.Diff(wantRows, got); d != "" {
		t.Fatal(d)
	}
	if text := messages[2].Text(); text != "It works" {
		t.Errorf("open text %q", text)
	}
	if cost := messages[1].Cost.String(); cost != "0.00123456789" {
		t.Errorf("cost %s", cost)
	}
	turn, err := s.NextTurn(t.Context(), "ses_one")
	if err != nil {
		t.Fatal(err)
	}
	wantTurn := session.Turn{
		ID: "trn_000000001", SessionID: "ses_one", MessageID: "msg_1", State: session.TurnOpen, OwnerPID: 4711, OwnerHost: "host", Steps: 1, Opened: 1003,
	}
	if d := cmp.Diff(wantTurn, turn); d != "" {
		t.Error(d)
	}
}

func schema(t *testing.T, db *sql.DB) []string {
	t.Helper()
	out, err := column(t.Context(), db, "SELECT name || ': ' || coalesce(sql, '') FROM sqlite_schema ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A migration that fails leaves the version before it, whole; the next try
// goes on from there.
func TestMigrateInSteps(t *testing.T) {
	first, err := fs.ReadFile(migrations, "migrations/001_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	dir := fstest.MapFS{
		"migrations/001_tables.sql": {Data: first},
		"migrations/002_more.sql":   {Data: []byte("ALTER TABLE session ADD COLUMN extra TEXT; INSERT INTO nowhere VALUES (1)")},
	}
	db := openRaw(t, filepath.Join(t.TempDir(), "rally.db"))
	db.SetMaxOpenConns(1)
	version := func() (v, extra int) {
		const q = "SELECT (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM pragma_table_info('session') WHERE name = 'extra')"
		if err := db.QueryRowContext(t.Context(), q).Scan(&v, &extra); err != nil {
			t.Fatal(err)
		}
		return v, extra
	}
	if err := migrate(t.Context(), db, dir); err == nil {
		t.Fatal("a broken migration passed")
	}
	if v, extra := version(); v != 1 || extra != 0 {
		t.Errorf("version %d, %d new columns; want 1, 0", v, extra)
	}
	dir["migrations/002_more.sql"].Data = []byte("ALTER TABLE session ADD COLUMN extra TEXT")
	for range 2 { // the second finds nothing to do
		if err := migrate(t.Context(), db, dir); err != nil {
			t.Fatal(err)
		}
		if v, extra := version(); v != 2 || extra != 1 {
			t.Errorf("version %d, %d new columns; want 2, 1", v, extra)
		}
	}
}

// A process that died between making the file and its tables leaves one that
// the next process completes.
func TestHalfMadeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rally.db")
	db := openRaw(t, path)
	if _, err := db.ExecContext(t.Context(), "PRAGMA journal_mode = WAL"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Session(t.Context(), "ses_a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, filepath.Join(t.TempDir(), "rally.db"), testOptions()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}
