package llm

import (
	"context"
	"errors"
	"time"
)

// afterFinish is how long a stream that has said its finish reason may take
// to end: some servers leave the connection open.
const afterFinish = 5 * time.Second

// errDeadline ends the context of a stream that is too slow.
type errDeadline struct {
	what  string
	after time.Duration
}

func (e *errDeadline) Error() string { return "no " + e.what + " within " + e.after.String() }

var errFinished = errors.New("the stream had finished")

// Watch ends a stream's context when one of its deadlines passes. One
// goroutine uses it; Stop must be called.
type Watch struct {
	timeouts Timeouts
	cancel   context.CancelCauseFunc
	timer    *time.Timer
	idle     bool // the timer is the idle one
	ctx      context.Context
}

// NewWatch starts with the deadline for the headers. The context it returns
// is the one to make the request with.
func NewWatch(ctx context.Context, t Timeouts) (context.Context, *Watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watch{timeouts: t, cancel: cancel, ctx: ctx}
	w.set("answer", t.FirstByte, nil)
	return ctx, w
}

// Content says that headers or content came: the idle deadline runs anew.
func (w *Watch) Content() {
	if w.idle && w.timer.Reset(w.timeouts.Idle) {
		return
	}
	w.set("content", w.timeouts.Idle, nil)
	w.idle = w.timeouts.Idle > 0
}

// Finished says that the finish reason came: only usage may follow.
func (w *Watch) Finished() { w.set("", afterFinish, errFinished) }

// Stop releases the timer and the context.
func (w *Watch) Stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel(context.Canceled)
}

func (w *Watch) set(what string, after time.Duration, cause error) {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.idle = false
	if after <= 0 {
		return
	}
	if cause == nil {
		cause = &errDeadline{what, after}
	}
	w.timer = time.AfterFunc(after, func() { w.cancel(cause) })
}

// Judge turns the error of a request or a read into what Stream gives: the
// caller's context error, a deadline, or the classifier's word. It is nil
// when the stream had said its finish reason before it broke.
func (w *Watch) Judge(parent context.Context, c *Classifier, err error, begun, finished bool) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	var late *errDeadline
	cause := context.Cause(w.ctx)
	switch {
	case errors.Is(cause, errFinished), finished && !errors.Is(err, ErrEventSize):
		return nil
	case errors.As(cause, &late):
		return c.Deadline(late.what, late.after)
	}
	return c.Transport(err, begun)
}
