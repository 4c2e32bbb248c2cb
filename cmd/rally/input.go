package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// maxInput bounds a prompt: what no model can read need not be read by us.
const maxInput = 64 << 20

// inputOptions say where a message comes from.
type inputOptions struct {
	promptFile string
	stdinWait  time.Duration
	noStdin    bool
}

func (o *inputOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.promptFile, "prompt-file", "", "read the message from `FILE`; - is stdin")
	f.DurationVar(&o.stdinWait, "stdin-wait", 2*time.Second, "leave a piped stdin alone that gives no byte within `D`")
	f.BoolVar(&o.noStdin, "no-stdin", false, "never read stdin")
}

var errNoMessage = usagef("rally run \"what to do\", or pipe the message to: rally run -", "there is no message")

// message puts a message together from arguments, a file and stdin. Arguments
// are joined by one space and otherwise left as they are. An empty result is
// an error unless optional.
func (a *app) message(ctx context.Context, o inputOptions, args []string, optional bool) (string, error) {
	text, err := a.messageText(ctx, o, args)
	if err == nil && strings.TrimSpace(text) == "" {
		if optional {
			return "", nil
		}
		return "", errNoMessage
	}
	return text, err
}

func (a *app) messageText(ctx context.Context, o inputOptions, args []string) (string, error) {
	fromStdin := len(args) == 1 && args[0] == "-"
	if o.promptFile != "" {
		if len(args) > 0 {
			return "", usagef("give one of them", "the message comes from arguments or from --prompt-file, not from both")
		}
		if o.promptFile != "-" {
			return a.withStdin(ctx, o, func() (string, error) { return readPromptFile(ctx, o.promptFile) })
		}
		fromStdin = true
	}
	if fromStdin && o.noStdin {
		return "", usagef("leave one of them out", "--no-stdin and a message from stdin contradict each other")
	}
	if fromStdin || len(args) == 0 && !o.noStdin && !isTerminal(a.stdin) {
		return readAll(ctx, a.stdin, "stdin")
	}
	if len(args) == 0 {
		return "", nil
	}
	return a.withStdin(ctx, o, func() (string, error) { return strings.Join(args, " "), nil })
}

// withStdin adds what a piped or redirected stdin holds to a message, after a
// blank line. An empty message stays empty: it is a mistake of the caller, not
// a way to send stdin.
func (a *app) withStdin(ctx context.Context, o inputOptions, read func() (string, error)) (string, error) {
	text, err := read()
	if err != nil || o.noStdin || strings.TrimSpace(text) == "" {
		return text, err
	}
	speaks, err := a.stdinSpeaks(ctx, o.stdinWait)
	if err != nil || !speaks {
		return text, err
	}
	more, err := readAll(ctx, a.stdin, "stdin")
	if err != nil || more == "" {
		return text, err
	}
	return text + "\n\n" + more, nil
}

// stdinSpeaks reports whether stdin is worth reading beside a message: a file
// is, a pipe or socket once it has a byte or its end. Whoever starts us may
// have left a pipe open that never speaks, so we look without taking.
func (a *app) stdinSpeaks(ctx context.Context, wait time.Duration) (bool, error) {
	f, ok := a.stdin.(*os.File)
	if !ok {
		return a.stdin != nil, nil
	}
	info, err := f.Stat()
	switch {
	case err != nil: // a closed stdin
		return false, nil //nolint:nilerr // there is nothing to read
	case info.Mode().IsRegular():
		return true, nil
	case info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0:
		return false, nil
	}
	ready, err := readable(ctx, f, a.now().Add(wait), a.now)
	if err == nil && !ready {
		fmt.Fprintf(a.stderr, "rally: stdin is open but gave nothing for %s, so it is not part of the message (--stdin-wait, --no-stdin)\n", wait)
	}
	return ready, err
}

// readable waits until f has a byte or its end, but not past deadline. It
// looks up every 50 ms whether ctx has ended.
func readable(ctx context.Context, f *os.File, deadline time.Time, now func() time.Time) (bool, error) {
	const slice = 50 * time.Millisecond
	for {
		left := deadline.Sub(now())
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}} //nolint:gosec // a descriptor fits
		n, err := unix.Poll(fds, int(max(0, min(left, slice)).Milliseconds()))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("look at stdin: %w", err)
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case n > 0:
			return true, nil
		case left <= 0:
			return false, nil
		}
	}
}

// readAll reads r to its end, or until ctx ends: then the reading goroutine is
// left behind in a read that cannot be taken back, and the process ends soon.
func readAll(ctx context.Context, r io.Reader, name string) (string, error) {
	type content struct {
		bytes []byte
		err   error
	}
	read := make(chan content, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
		read <- content{b, err}
	}()
	select {
	case c := <-read:
		if c.err != nil {
			return "", fmt.Errorf("read %s: %w", name, c.err)
		}
		if len(c.bytes) > maxInput {
			return "", usagef("attach a part of it with -f FILE:from-to", "%s holds more than %d MiB", name, maxInput>>20)
		}
		return string(c.bytes), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func readPromptFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", usagef("", "read the message: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := readAll(ctx, f, path)
	if err != nil {
		return "", usagef("", "read the message: %w", err)
	}
	return text, nil
}
