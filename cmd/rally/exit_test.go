package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
	"rally/internal/session/loop"
	"rally/internal/session/store"
)

func TestClassify(t *testing.T) {
	type verdict struct {
		Reason session.Reason
		Code   int
	}
	tests := []struct {
		err  error
		want verdict
	}{
		{usagef("", "no such thing"), verdict{"usage", 2}},
		{fmt.Errorf("a: %w", &loop.UsageError{Err: fs.ErrNotExist}), verdict{"usage", 2}},
		{&store.NotFoundError{Kind: "session", ID: "x"}, verdict{"usage", 2}},
		{&store.AmbiguousError{Prefix: "x"}, verdict{"usage", 2}},
		{fmt.Errorf("session x: %w", loop.ErrBusy), verdict{"busy", 5}},
		{loop.ErrTimeout, verdict{"timeout", 124}},
		{loop.ErrInterrupted, verdict{"interrupted", 130}},
		{loop.ErrTerminated, verdict{"interrupted", 143}},
		{loop.ErrOutputClosed, verdict{"output_closed", 141}},
		{&store.FileError{Err: store.ErrFull}, verdict{"internal_error", 1}},
		{errors.New("anything else"), verdict{"internal_error", 1}},
	}
	for _, tt := range tests {
		reason, code := classify(tt.err)
		if diff := cmp.Diff(tt.want, verdict{reason, code}); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.err, diff)
		}
	}
}

// Invariant 13: what the result says is what the process exits with.
func TestFailureAgreesWithItsExitCode(t *testing.T) {
	for _, err := range []error{errNoMessage, loop.ErrBusy, loop.ErrTerminated, errors.New("x")} {
		_, code := classify(err)
		if res := failure(err, ""); res.ExitCode != code || res.Error == nil {
			t.Errorf("%v: result %+v, exit code %d", err, res, code)
		}
	}
}

func TestBecauseNamesWhatEndedTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(loop.ErrInterrupted)
	if err := because(ctx, fmt.Errorf("read: %w", ctx.Err())); !errors.Is(err, loop.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	other := errors.New("disk on fire")
	if err := because(ctx, other); !errors.Is(err, other) || errors.Is(err, loop.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
}

func TestLastMessageAppearsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "answer.txt")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	m, err := openLastMessage(path)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("before the end it holds %q", b)
	}
	if err := m.write(session.Result{Text: "new"}); err != nil {
		t.Fatal(err)
	}
	m.discard()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	if len(entries) != 1 || string(b) != "new\n" {
		t.Errorf("%d files, content %q", len(entries), b)
	}
}

func TestLastMessageOfARefusedRunLeavesNoTrace(t *testing.T) {
	dir := t.TempDir()
	m, err := openLastMessage(filepath.Join(dir, "answer.txt"))
	if err != nil {
		t.Fatal(err)
	}
	m.discard()
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestLastMessageIsRefusedEarly(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "answer")} {
		if _, err := openLastMessage(path); reasonOf(err) != session.ReasonUsage {
			t.Errorf("%s: %v, want a usage error", path, err)
		}
	}
}
