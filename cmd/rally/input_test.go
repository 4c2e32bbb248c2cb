package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rally/internal/session/loop"
)

// pipeWith is a pipe that holds text and has its end.
func pipeWith(t *testing.T, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	go func() {
		_, _ = io.WriteString(w, text)
		_ = w.Close()
	}()
	return r
}

func fileWith(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stdin")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestMessage(t *testing.T) {
	promptFile := filepath.Join(t.TempDir(), "prompt.md")
	if err := os.WriteFile(promptFile, []byte("from the file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	odd := `fix  the "quoted" $HOME thing; it's $(touch pwned) *`
	tests := map[string]struct {
		args  []string
		stdin func(t *testing.T) *os.File
		opts  inputOptions
		want  string
		bad   bool
	}{
		"arguments joined by one space": {args: []string{"a", " b", "c "}, stdin: devNull, want: "a  b c "},
		"one argument byte for byte":    {args: []string{odd}, stdin: devNull, want: odd},
		"dash reads stdin":              {args: []string{"-"}, stdin: pipe("piped\n"), want: "piped\n"},
		"no argument reads stdin":       {stdin: pipe("piped\n"), want: "piped\n"},
		"a pipe is added":               {args: []string{"explain"}, stdin: pipe("line\n"), want: "explain\n\nline\n"},
		"a file is added":               {args: []string{"explain"}, stdin: file("line\n"), want: "explain\n\nline\n"},
		"an empty pipe adds nothing":    {args: []string{"explain"}, stdin: pipe(""), want: "explain"},
		"no-stdin":                      {args: []string{"explain"}, stdin: pipe("line\n"), opts: inputOptions{noStdin: true}, want: "explain"},
		"prompt file":                   {stdin: devNull, opts: inputOptions{promptFile: promptFile}, want: "from the file\n"},
		"prompt file and a pipe":        {stdin: pipe("more"), opts: inputOptions{promptFile: promptFile}, want: "from the file\n\n\nmore"},
		"prompt file is stdin":          {stdin: pipe("piped"), opts: inputOptions{promptFile: "-"}, want: "piped"},
		"two sources":                   {args: []string{"a"}, stdin: devNull, opts: inputOptions{promptFile: promptFile}, bad: true},
		"missing prompt file":           {stdin: devNull, opts: inputOptions{promptFile: promptFile + "x"}, bad: true},
		"nothing":                       {stdin: devNull, bad: true},
		"empty":                         {args: []string{""}, stdin: devNull, bad: true},
		"empty beside a pipe":           {args: []string{""}, stdin: pipe("line\n"), bad: true},
		"only blanks":                   {args: []string{" \n"}, stdin: devNull, bad: true},
		"dash and no-stdin":             {args: []string{"-"}, stdin: pipe("x"), opts: inputOptions{noStdin: true}, bad: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := &app{process: process{stdin: tt.stdin(t), stderr: io.Discard, now: time.Now}}
			tt.opts.stdinWait = 5 * time.Second
			got, err := a.message(t.Context(), tt.opts, tt.args, false)
			if tt.bad {
				if _, code := classify(err); err == nil || code != 2 {
					t.Errorf("got %q and %v, want a usage error", got, err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func pipe(text string) func(*testing.T) *os.File {
	return func(t *testing.T) *os.File { t.Helper(); return pipeWith(t, text) }
}

func file(text string) func(*testing.T) *os.File {
	return func(t *testing.T) *os.File { t.Helper(); return fileWith(t, text) }
}

func TestAnOpenPipeIsLeftAlone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	t.Cleanup(func() { _ = w.Close() })
	var stderr bytes.Buffer
	a := &app{process: process{stdin: r, stderr: &stderr, now: time.Now}}
	got, err := a.message(t.Context(), inputOptions{stdinWait: 30 * time.Millisecond}, []string{"say ok"}, false)
	if err != nil || got != "say ok" {
		t.Errorf("got %q, %v", got, err)
	}
	if !strings.Contains(stderr.String(), "stdin is open") {
		t.Errorf("stderr %q does not say so", stderr.String())
	}
}

func TestASlowPipeIsReadToItsEnd(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	go func() {
		_, _ = io.WriteString(w, "first")
		time.Sleep(150 * time.Millisecond) // longer than the wait for the first byte
		_, _ = io.WriteString(w, " last")
		_ = w.Close()
	}()
	a := &app{process: process{stdin: r, stderr: io.Discard, now: time.Now}}
	got, err := a.message(t.Context(), inputOptions{stdinWait: 10 * time.Second}, []string{"m"}, false)
	if err != nil || got != "m\n\nfirst last" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestASignalEndsTheWaitForStdin(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	t.Cleanup(func() { _ = r.Close() })
	for name, args := range map[string][]string{"whole message": {"-"}, "addition": {"m"}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(loop.ErrTerminated) })
			a := &app{process: process{stdin: r, stderr: io.Discard, now: time.Now}}
			_, err := a.message(ctx, inputOptions{stdinWait: time.Minute}, args, false)
			if !errors.Is(err, loop.ErrTerminated) {
				t.Fatalf("got %v", err)
			}
			if reason, code := classify(err); reason != "interrupted" || code != 143 {
				t.Errorf("classified as %s %d", reason, code)
			}
		})
	}
}
