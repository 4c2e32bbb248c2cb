//go:build crashtest

package store

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// crashHook ends the process as kill -9 does, at a chosen write transaction
// of this store: before its commit with RALLY_CRASH_BEFORE_WRITE=N, after it
// with RALLY_CRASH_AFTER_WRITE=N. The first transaction is 1; migrations do
// not count.
type crashHook struct {
	n                       *atomic.Int64
	beforeWrite, afterWrite int64
}

func newCrashHook() crashHook {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(os.Getenv(name), 10, 64) // 0, never reached, when unset
		return n
	}
	return crashHook{
		n:           new(atomic.Int64),
		beforeWrite: number("RALLY_CRASH_BEFORE_WRITE"),
		afterWrite:  number("RALLY_CRASH_AFTER_WRITE"),
	}
}

func (c crashHook) before() {
	if c.n.Add(1) == c.beforeWrite {
		die()
	}
}

func (c crashHook) after() {
	if c.n.Load() == c.afterWrite {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}
