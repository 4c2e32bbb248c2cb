package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// maxPending bounds what waits for a slow reader; beyond it the turn waits.
	maxPending = 64 << 20
	// drainGrace is how long a reader may still take after a signal or timeout.
	drainGrace = 2 * time.Second
)

var errReaderStuck = errors.New("the reader of stdout did not take what was written")

// outbox writes to stdout from a goroutine of its own, so that a slow reader
// neither holds the turn nor keeps a signal from ending it. It loses nothing
// while the reader lives. Close ends the goroutine.
type outbox struct {
	w io.Writer
	// failed is called once, from the goroutine, when a write fails; what
	// comes later is dropped.
	failed func(error)

	mu      sync.Mutex
	changed sync.Cond
	pending []byte
	writing bool
	closed  bool
	hurried bool
	err     error
	done    chan struct{}
}

func newOutbox(w io.Writer, failed func(error)) *outbox {
	o := &outbox{w: w, failed: failed, done: make(chan struct{})}
	o.changed.L = &o.mu
	go o.drain()
	return o
}

// Write takes b; it blocks only while the reader is very far behind.
func (o *outbox) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pending) > maxPending && o.err == nil && !o.hurried {
		o.changed.Wait()
	}
	if o.err != nil {
		return 0, o.err
	}
	o.pending = append(o.pending, b...)
	o.changed.Broadcast()
	return len(b), nil
}

// hurry makes Write and flush wait for nobody from now on: the run is ending.
func (o *outbox) hurry() {
	o.mu.Lock()
	o.hurried = true
	o.changed.Broadcast()
	o.mu.Unlock()
}

// flush waits until all is written: what then goes to stderr appears after it
// on a terminal.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for (len(o.pending) > 0 || o.writing) && o.err == nil && !o.hurried {
		o.changed.Wait()
	}
}

// Close waits until all is written, or for drainGrace once ctx has ended, and
// gives the error of the write that failed, if one did.
func (o *outbox) Close(ctx context.Context) error {
	o.mu.Lock()
	o.closed = true
	o.changed.Broadcast()
	o.mu.Unlock()
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(drainGrace)
	defer grace.Stop()
	select {
	case <-o.done:
		return o.err
	case <-grace.C:
		return errReaderStuck
	}
}

func (o *outbox) drain() {
	defer close(o.done)
	for {
		batch := o.next()
		if batch == nil {
			return
		}
		if _, err := o.w.Write(batch); err != nil {
			o.mu.Lock()
			o.err = err
			o.changed.Broadcast()
			o.mu.Unlock()
			o.failed(err)
			return
		}
	}
}

// next takes all that is pending; nil when nothing more will come.
func (o *outbox) next() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = false
	o.changed.Broadcast()
	for len(o.pending) == 0 && !o.closed {
		o.changed.Wait()
	}
	if len(o.pending) == 0 {
		return nil
	}
	batch := o.pending
	o.pending, o.writing = nil, true
	return batch
}
