package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rally/internal/session/loop"
)

// untilSignal is a context that the first INT or TERM ends, with the cause the
// loop stores as the turn's reason. The second one ends the process at once:
// by then the signals have their default meaning again. stop must be called.
//
// A write to a closed stdout is an error and no signal meanwhile. Caught, not
// ignored: what is ignored stays so in the tools' processes.
func untilSignal(parent context.Context) (ctx context.Context, cancel context.CancelCauseFunc, stop func()) {
	ctx, cancel = context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if s == syscall.SIGTERM {
				cancel(loop.ErrTerminated)
			} else {
				cancel(loop.ErrInterrupted)
			}
		case <-done:
		}
	}()
	return ctx, cancel, func() {
		close(done)
		signal.Stop(signals)
		cancel(nil)
	}
}

// within adds the deadline of --timeout; 0 is none.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, loop.ErrTimeout)
}
