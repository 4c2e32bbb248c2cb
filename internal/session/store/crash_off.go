//go:build !crashtest

package store

// crashHook does nothing in a normal build; see crash_on.go.
type crashHook struct{}

func newCrashHook() crashHook { return crashHook{} }

func (crashHook) before() {}
func (crashHook) after()  {}
