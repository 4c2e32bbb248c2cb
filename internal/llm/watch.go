package llm

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// afterFinish is how long a stream that has said its finish reason may take
// to end: some servers leave the connection open.
const afterFinish = 5 * time.Second

// deadline is what a stream was too slow with; an empty what is the end of a
// stream that had finished.
type deadline struct {
	what  string
	after time.Duration
}

// Watch ends a stream's context when one of its deadlines passes. One
// goroutine uses it; Stop must be called.
type Watch struct {
	timeouts Timeouts
	cancel   context.CancelFunc
	timer    *time.Timer
	idle     bool // the timer is the idle one
	passed   atomic.Pointer[deadline]
}

// NewWatch starts with the deadline for the headers. The context it returns
// is the one to make the request with.
func NewWatch(ctx context.Context, t Timeouts) (context.Context, *Watch) {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{timeouts: t, cancel: cancel}
	w.set("answer", t.FirstByte)
	return ctx, w
}

// Content says that headers or content came: the idle deadline runs anew.
func (w *Watch) Content() {
	if w.idle && w.timer.Reset(w.timeouts.Idle) {
		return
	}
	w.set("content", w.timeouts.Idle)
	w.idle = w.timeouts.Idle > 0
}

// Finished says that the finish reason came: only usage may follow.
func (w *Watch) Finished() { w.set("", afterFinish) }

// Stop releases the timer and the context.
func (w *Watch) Stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.cancel()
}

func (w *Watch) set(what string, after time.Duration) {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.idle = false
	if after <= 0 {
		return
	}
	w.timer = time.AfterFunc(after, func() {
		w.passed.CompareAndSwap(nil, &deadline{what, after})
		w.cancel()
	})
}

// Judge turns the error of a request or a read into what Stream gives: the
// caller's context error, a deadline, or the classifier's word. It is nil
// when the stream had said its finish reason before it broke.
func (w *Watch) Judge(parent context.Context, c *Classifier, err error, begun, finished bool) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	if finished && !errors.Is(err, ErrEventSize) {
		return nil
	}
	if late := w.passed.Load(); late != nil {
		return c.Deadline(late.what, late.after)
	}
	return c.Transport(err, begun)
}
