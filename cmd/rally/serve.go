package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rally/internal/session"
	"rally/internal/session/loop"
)

// A verb does what a command is for. It returns either a result or the error
// that kept it from having one.
type verb func(ctx context.Context, s stage) (session.Result, error)

// stage is where a verb shows what happens: as events, or (rally shell) as the
// plain output of a command.
type stage struct {
	emit func(session.Event)
	out  io.Writer
}

// serve runs a verb with all that surrounds a turn: signals, the time limit,
// output, and the one place where its exit code comes from. stdout has its
// result line, or its answer, whatever happens.
func (a *app) serve(o outputOptions, limit time.Duration, v verb) error {
	return a.serveWith(func(out *outbox) renderer { return a.newRenderer(o, out) }, limit, v)
}

func (a *app) serveWith(show func(*outbox) renderer, limit time.Duration, v verb) error {
	ctx, cancel, stop := untilSignal(context.Background())
	defer stop()
	out := newOutbox(a.stdout, func(error) { cancel(loop.ErrOutputClosed) })
	defer context.AfterFunc(ctx, out.hurry)()
	r := show(out)

	timed, done := within(ctx, limit)
	defer done()
	res, err := guarded(timed, stage{r.event, out}, v)
	if err != nil {
		res = failure(because(timed, err), res.SessionID)
	}
	r.end(res)
	if err := out.Close(ctx); err != nil {
		return a.outputClosed(err)
	}
	return exit(res.ExitCode)
}

// guarded turns a panic of the verb into an error, so that the last line is
// written even then.
func guarded(ctx context.Context, s stage, v verb) (res session.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rally itself failed: %v at %s", p, origin(debug.Stack()))
		}
	}()
	return v(ctx, s)
}

// refuseInJSON is for errors in the arguments of a command that was asked for
// JSON lines.
func (a *app) refuseInJSON(err error) error {
	return a.serve(outputOptions{json: true}, 0, func(context.Context, stage) (session.Result, error) {
		return session.Result{}, err
	})
}

// print writes to stdout what a command has to say.
func (a *app) print(text string) error {
	_, err := io.WriteString(a.stdout, text)
	return a.outputClosed(err)
}

// outputClosed is the exit status of a write to stdout that failed. A reader
// that went away knows why; a full disk wants a word.
func (a *app) outputClosed(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, syscall.EPIPE) {
		sayError(a.stderr, fmt.Errorf("write to stdout: %w", err))
	}
	return exit(session.ReasonOutputClosed.ExitCode())
}

// noArgs refuses arguments in our words.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("see: "+cmd.CommandPath()+" --help", "%s takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// printJSON prints v for programs and people alike.
func (a *app) printJSON(v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	return a.print(b.String())
}
