package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// gate is a reader that takes nothing until it is opened.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.got.Write(b)
}

func TestOutboxDoesNotHoldTheWriter(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := &gate{open: make(chan struct{})}
	out := newOutbox(g, func(err error) { t.Error(err) })
	var want bytes.Buffer
	for range 2000 {
		line := bytes.Repeat([]byte("x"), 999)
		_, _ = io.MultiWriter(&want, out).Write(append(line, '\n'))
	}
	close(g.open) // only now the reader begins
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want.Bytes(), g.got.Bytes()) {
		t.Errorf("the slow reader got %d bytes of %d", g.got.Len(), want.Len())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestOutboxReportsABrokenPipeOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	failed := make(chan error, 2)
	out := newOutbox(broken{}, func(err error) { failed <- err })
	_, _ = out.Write([]byte("a\n"))
	if err := <-failed; !errors.Is(err, syscall.EPIPE) {
		t.Errorf("failed with %v", err)
	}
	for range 3 {
		if _, err := out.Write([]byte("b\n")); err == nil {
			t.Error("a write after the failure succeeded")
		}
	}
	if err := out.Close(t.Context()); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Close() = %v", err)
	}
	if len(failed) != 0 {
		t.Error("the failure was reported twice")
	}
}

func TestOutboxGivesUpOnAStuckReaderAfterASignal(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	defer close(g.open)
	out := newOutbox(g, func(error) {})
	_, _ = out.Write([]byte("a\n"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := out.Close(ctx); !errors.Is(err, errReaderStuck) {
		t.Errorf("Close() = %v, want %v", err, errReaderStuck)
	}
}
