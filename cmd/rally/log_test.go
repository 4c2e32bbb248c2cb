package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rally/internal/session"
)

// Invariant 15: a key never reaches the log.
func TestTheLogHidesSecretsAndTexts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	a := &app{process: process{stderr: &bytes.Buffer{}}, global: globalOptions{logFile: path, logLevel: "debug"}}
	j, err := a.openJournal()
	if err != nil {
		t.Fatal(err)
	}
	j.masked.hide("sk-secret-1", "")
	for _, e := range everyEvent() {
		j.event(t.Context(), e)
	}
	j.event(t.Context(), session.Event{Body: session.Failed{Error: session.NewError(session.APIError, "key sk-secret-1 is wrong")}})
	j.close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, unwanted := range []string{"sk-secret-1", "Hello", "(no output)"} {
		if bytes.Contains(b, []byte(unwanted)) {
			t.Errorf("the log holds %q:\n%s", unwanted, b)
		}
	}
	if !bytes.Contains(b, []byte("key *** is wrong")) {
		t.Errorf("the error is not in the log:\n%s", b)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestTheLogIsOffByDefault(t *testing.T) {
	var stderr bytes.Buffer
	j, err := (&app{process: process{stderr: &stderr}}).openJournal()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range everyEvent() {
		j.event(t.Context(), e)
	}
	if stderr.Len() > 0 {
		t.Errorf("it wrote %q", stderr.String())
	}
}

func TestABadLogIsRefused(t *testing.T) {
	for _, g := range []globalOptions{{logLevel: "loud"}, {logFile: filepath.Join(t.TempDir(), "no", "where")}} {
		_, err := (&app{global: g}).openJournal()
		if reasonOf(err) != session.ReasonUsage || !strings.Contains(err.Error(), "log") {
			t.Errorf("%+v: %v, want a usage error", g, err)
		}
	}
}
