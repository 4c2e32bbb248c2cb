package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rally/internal/session"
	"rally/internal/session/store"
)

// children are what this test binary does when it is run again as another
// process, with the path of a session file and its number.
var children = map[string]func(path string, n int) error{
	"open":  childOpen,
	"write": childWrite,
	"hold":  childHold,
	"full":  childFull,
	"lease": childLease,
	"guest": childGuest,
}

func TestMain(m *testing.M) {
	child := children[os.Getenv("STORE_TEST_CHILD")]
	if child == nil {
		os.Exit(m.Run())
	}
	n, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = child(os.Args[1], n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func command(t testing.TB, kind, path string, n int) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], path, strconv.Itoa(n))
	cmd.Env = append(os.Environ(), "STORE_TEST_CHILD="+kind)
	return cmd
}

// together runs n processes at once and returns what they printed.
func together(t *testing.T, n int, kind, path string) {
	t.Helper()
	type outcome struct {
		out []byte
		err error
	}
	done := make(chan outcome)
	for i := range n {
		cmd := command(t, kind, path, i)
		go func() {
			out, err := cmd.CombinedOutput()
			done <- outcome{out, err}
		}()
	}
	for range n {
		if o := <-done; o.err != nil {
			t.Errorf("%s: %v\n%s", kind, o.err, o.out)
		}
	}
}

func childStore(path string, n int) (*store.Store, error) {
	opts := options()
	opts.NewID = ids(n + 1)
	return store.Open(context.Background(), path, opts)
}

func childOpen(path string, n int) error {
	s, err := childStore(path, n)
	if err != nil {
		return err
	}
	return s.Close()
}

const writes = 40

// childWrite sends prompts, all to one session, each with an answer.
func childWrite(path string, n int) error {
	s, err := childStore(path, n)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := range writes {
		id := fmt.Sprintf("msg_%d_%d", n, i)
		p := store.Prompt{Session: session.Session{ID: "ses_a", Directory: "/w"}, Message: userMessage(id, "x"), Turn: true}
		turn, _, err := s.Enqueue(ctx, p)
		if err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		err = s.Write(ctx, func(tx *store.Tx) error {
			return step(tx, turn, n*writes+i)
		})
		if err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		if _, won, err := s.CloseTurn(ctx, turn.ID, store.End{Reason: session.ReasonCompleted}); err != nil || !won {
			return fmt.Errorf("close %d: %v, %w", i, won, err)
		}
	}
	return s.Close()
}

func TestManyProcessesCreateOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "rally.db")
	together(t, 50, "open", path)
	prompt(t, open(t, path), "ses_a", "msg_1")
}

func TestManyProcessesWriteOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rally.db")
	s := open(t, path)
	save(t, s, session.Session{ID: "ses_a", Directory: "/w"})
	const n = 8
	together(t, n, "write", path)
	messages := history(t, s, "ses_a")
	if len(messages) != 2*n*writes {
		t.Fatalf("%d messages, want %d", len(messages), 2*n*writes)
	}
	seqs := map[int64]bool{}
	for i, m := range messages {
		seqs[m.Seq] = true
		if m.Place != int64(i/2+1) || (m.Role == session.User) != (i%2 == 0) {
			t.Fatalf("message %d: %s at place %d", i, m.Role, m.Place)
		}
	}
	if len(seqs) != len(messages) {
		t.Errorf("%d seqs for %d messages", len(seqs), len(messages))
	}
}

// childHold holds the write lock of the file for n milliseconds.
func childHold(path string, n int) error {
	s, err := childStore(path, n)
	if err != nil {
		return err
	}
	return s.Write(context.Background(), func(*store.Tx) error {
		fmt.Println("held")
		time.Sleep(time.Duration(n) * time.Millisecond)
		return nil
	})
}

// hold starts a process of the kind and waits until it says "held".
func hold(t *testing.T, kind, path string, n int) *exec.Cmd {
	t.Helper()
	cmd := command(t, kind, path, n)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestForeignWriteLock(t *testing.T) {
	if testing.Short() {
		t.Skip("holds a lock for 7 s")
	}
	s := fresh(t)
	prompt(t, s, "ses_a", "msg_1")
	cmd := hold(t, "hold", s.Path(), 7000)
	start := time.Now()
	prompt(t, s, "ses_a", "msg_2")
	t.Logf("waited %v", time.Since(start))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A wait for the write lock ends with its context.
func TestForeignWriteLockIsAbortable(t *testing.T) {
	s := fresh(t)
	prompt(t, s, "ses_a", "msg_1")
	cmd := hold(t, "hold", s.Path(), 60_000)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := s.SetStatus(ctx, "ses_a", session.Status{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v after %v, want deadline exceeded", err, time.Since(start))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // "signal: killed"
	if err := s.SetStatus(t.Context(), "ses_a", session.Status{Type: session.StatusIdle}); err != nil {
		t.Error(err)
	}
}

// childLease takes the lease of ses_a and writes until it is killed.
func childLease(path string, n int) error {
	s, err := childStore(path, n)
	if err != nil {
		return err
	}
	if _, err := s.Lease(context.Background(), "ses_a"); err != nil {
		return err
	}
	for i := 0; ; i++ {
		p := store.Prompt{Session: session.Session{ID: "ses_a"}, Message: userMessage(fmt.Sprintf("msg_%d_%d", n, i), "x"), Turn: true}
		if _, _, err := s.Enqueue(context.Background(), p); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// Invariant 8, as far as the store goes: after kill -9 everything that was
// acknowledged is there, the file is sound, and the lease is free.
func TestKillKeepsCommits(t *testing.T) {
	s := fresh(t)
	save(t, s, session.Session{ID: "ses_a"})
	for n := range 5 {
		cmd := command(t, "lease", s.Path(), n)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(100+30*n)*time.Millisecond, func() {
			_ = cmd.Process.Kill()
			close(killed)
		})
		<-killed
		_ = cmd.Wait() // "signal: killed"
		lease, ok, err := s.TryLease("ses_a")
		if err != nil || !ok {
			t.Fatalf("the lease of a dead process is held: %v", err)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
		stored := map[string]bool{}
		for _, m := range history(t, s, "ses_a") {
			stored[m.ID] = m.Text() == "x"
		}
		for line := range strings.FieldsSeq(out.String()) {
			if id := fmt.Sprintf("msg_%d_%s", n, line); !stored[id] {
				t.Errorf("%s was acknowledged and is gone", id)
			}
		}
	}
}

// childFull fills the file until a limit on its size stops it, as a full disk
// would, and then checks what the error says and that the file can be read.
func childFull(path string, n int) error {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := childStore(path, n)
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: 300_000, Max: 300_000}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	var stored int
	for ; err == nil && stored < 1000; stored++ {
		p := store.Prompt{Session: session.Session{ID: "ses_a"}, Message: userMessage(fmt.Sprintf("msg_%d", stored), strings.Repeat("x", 9000))}
		_, _, err = s.Enqueue(context.Background(), p)
	}
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), path) {
		return fmt.Errorf("error %w, want ErrFull with the path", err)
	}
	messages, err := s.History(context.Background(), "ses_a")
	if err != nil || len(messages) != stored-1 {
		return fmt.Errorf("%d of %d messages: %w", len(messages), stored-1, err)
	}
	fmt.Println(stored - 1)
	return s.Close()
}

func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rally.db")
	s := open(t, path)
	save(t, s, session.Session{ID: "ses_a"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, "full", path, 0).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	again := open(t, path)
	diff(t, strings.TrimSpace(string(out)), strconv.Itoa(len(history(t, again, "ses_a"))))
	prompt(t, again, "ses_a", "msg_after")
}

// childGuest opens a file that belongs to someone else.
func childGuest(path string, n int) error {
	_, err := childStore(path, n)
	if !errors.Is(err, store.ErrReadOnly) || !strings.Contains(err.Error(), path) {
		return fmt.Errorf("error %w, want ErrReadOnly with the path", err)
	}
	s, err := store.Open(context.Background(), path, store.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	messages, err := s.History(context.Background(), "ses_a")
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("%d messages: %w", len(messages), err)
	}
	return s.Close()
}

// A file and a directory that cannot be written: an error that says so, and
// it can still be read.
func TestUnwritable(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "rally.db")
	s := open(t, path)
	prompt(t, s, "ses_a", "msg_1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	guest := filepath.Join(dir, "guest")
	for file, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o755, path: 0o644} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(guest, binary, 0o755); err != nil { //nolint:gosec // another user runs it
		t.Fatal(err)
	}
	cmd := command(t, "guest", path, 0)
	cmd.Path, cmd.Dir = guest, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
