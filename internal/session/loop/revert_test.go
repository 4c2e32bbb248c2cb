package loop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
	"rally/internal/session/snapshot"
)

const revertScript = `
replies:
  - {when: {user: first}, calls: [{name: bash, args: {command: "echo one > a.txt"}}]}
  - {when: {user: first}, text: made}
  - {when: {user: second}, calls: [{name: bash, args: {command: "echo two > a.txt; echo new > b.txt"}}]}
  - {when: {user: second}, text: changed}
  - {when: {user: third}, calls: [{name: bash, args: {command: "cat a.txt"}}]}
  - {when: {user: third}, text: looked}
`

func revertWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, revertScript)
	dir := filepath.Join(filepath.Dir(w.db), "snapshot")
	w.engine.OpenTree = func(work, root string) *snapshot.Tree {
		return snapshot.Open(snapshot.Options{Dir: dir, WorkTree: work, Root: root, Environ: os.Environ()})
	}
	w.prompt(Input{Text: "first", NewSessionID: "ses_1"})
	return w
}

// files are the work directory's, by name.
func (w *world) files() map[string]string {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(w.dir, e.Name()))
		if err != nil {
			w.t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

func TestRevertAndUnrevert(t *testing.T) {
	w := revertWorld(t)
	r := w.prompt(Input{SessionID: "ses_1", Text: "second"})
	if diff := cmp.Diff([]string{filepath.Join(w.dir, "a.txt"), filepath.Join(w.dir, "b.txt")}, r.Files); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "mine"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed := map[string]string{"a.txt": "two\n", "b.txt": "new\n", "mine": "mine"}
	for name, step := range map[string]func() (Reverted, error){
		"revert":       func() (Reverted, error) { return w.engine.Revert(t.Context(), "ses_1", "") },
		"revert again": func() (Reverted, error) { return w.engine.Revert(t.Context(), "ses_1", "") },
	} {
		if _, err := step(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(map[string]string{"a.txt": "one\n", "mine": "mine"}, w.files()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := w.engine.Unrevert(t.Context(), "ses_1"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed, w.files()); diff != "" {
		t.Error(diff)
	}
	if _, err := w.engine.Unrevert(t.Context(), "ses_1"); err == nil {
		t.Error("there was nothing to undo")
	}
}

// The next prompt makes a revert final: what it hid is neither sent nor kept.
func TestAPromptMakesARevertFinal(t *testing.T) {
	w := revertWorld(t)
	w.prompt(Input{SessionID: "ses_1", Text: "second"})
	if _, err := w.engine.Revert(t.Context(), "ses_1", ""); err != nil {
		t.Fatal(err)
	}
	if r := w.prompt(Input{SessionID: "ses_1", Text: "third"}); r.Text != "looked" || len(r.Files) != 0 {
		t.Errorf("result %+v", r)
	}
	sent := strings.Join(w.request(4), "\n")
	if strings.Contains(sent, "second") || !strings.Contains(sent, "first") {
		t.Errorf("sent %s", sent)
	}
	s, err := w.store.Session(t.Context(), "ses_1")
	if err != nil || s.Revert != nil {
		t.Errorf("session %+v: %v", s, err)
	}
	w.validRequests()
}

// Invariant 14: a step that only reads takes no snapshot, and trouble with
// snapshots fails nothing.
func TestSnapshotsAreLazyAndHarmless(t *testing.T) {
	w := revertWorld(t)
	r := w.prompt(Input{SessionID: "ses_1", Text: "third"})
	history, err := w.store.History(t.Context(), r.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range history[len(history)-2].Parts {
		if start, ok := p.(*session.StepStart); ok && start.Snapshot != "" {
			t.Error("a step that only read took a snapshot")
		}
	}
	w.engine.OpenTree = func(work, root string) *snapshot.Tree {
		return snapshot.Open(snapshot.Options{Dir: "/proc/none", WorkTree: work, Root: root, Environ: []string{"PATH="}})
	}
	if r := w.prompt(Input{SessionID: "ses_1", Text: "second"}); r.Reason != session.ReasonCompleted || len(r.Files) != 0 {
		t.Errorf("result %+v", r)
	}
}
