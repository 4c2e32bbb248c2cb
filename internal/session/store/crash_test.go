//go:build crashtest

package store_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"rally/internal/session"
)

// The hook ends the process at the chosen write: one before its commit leaves
// nothing of it, one after it leaves all.
func TestCrashHook(t *testing.T) {
	for kind, want := range map[string]int{"RALLY_CRASH_BEFORE_WRITE": 3, "RALLY_CRASH_AFTER_WRITE": 4} {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rally.db")
			s := open(t, path)
			save(t, s, session.Session{ID: "ses_a"})
			cmd := command(t, "lease", path, 0)
			cmd.Env = append(cmd.Env, kind+"=4")
			var out strings.Builder
			cmd.Stdout = &out
			var exit *exec.ExitError
			err := cmd.Run()
			if !errors.As(err, &exit) {
				t.Fatalf("ended with %v", err)
			}
			status, ok := exit.Sys().(syscall.WaitStatus)
			if !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("ended with %v", err)
			}
			if n := len(history(t, s, "ses_a")); n != want {
				t.Errorf("%d prompts stored, want %d", n, want)
			}
			if told := fmt.Sprint(strings.Fields(out.String())); told != "[0 1 2]" {
				t.Errorf("acknowledged %s", told)
			}
		})
	}
}
