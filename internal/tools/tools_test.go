package tools

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rally/internal/session"
)

// newEnv is an Env whose Directory and Root are a new folder.
func newEnv(t testing.TB) *Env {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	env := &Env{
		SessionID: "ses_1", CallID: "call_" + strings.ReplaceAll(t.Name(), "/", "_"), Directory: work, Root: work,
		Outputs: filepath.Join(dir, "outputs"), Shell: "/bin/bash", Environ: ChildEnviron(os.Environ(), nil),
		Files: NewFiles(), Todos: NewTodos(nil, nil), Jobs: NewJobs(),
		Now: func() int64 { return time.Now().UnixMilli() },
	}
	t.Cleanup(env.Jobs.Close)
	return env
}

// put writes a file below Directory and returns its path.
func put(t testing.TB, env *Env, name, content string) string {
	t.Helper()
	path := filepath.Join(env.Directory, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func content(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type m = map[string]any

// call does what the executor does, without the gate.
func call(ctx context.Context, t testing.TB, env *Env, name string, args any) (Result, error) {
	t.Helper()
	tool, ok := New(Options{}).Lookup(name)
	if !ok {
		t.Fatalf("no tool %q", name)
	}
	return callTool(ctx, t, env, tool, args)
}

func callTool(ctx context.Context, t testing.TB, env *Env, tool Tool, args any) (Result, error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	fit, err := Arguments(tool.Schema(), string(raw))
	if err != nil {
		return Result{}, err
	}
	if _, err := tool.Access(env, fit); err != nil {
		return Result{}, err
	}
	return tool.Run(ctx, env, fit)
}

// does is call for what must work.
func does(t testing.TB, env *Env, name string, args any) Result {
	t.Helper()
	r, err := call(t.Context(), t, env, name, args)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// fails is call for what must be refused; the error's text comes back.
func fails(t testing.TB, env *Env, name string, args any) string {
	t.Helper()
	r, err := call(t.Context(), t, env, name, args)
	if err == nil {
		t.Fatalf("%s worked: %q", name, r.Output)
	}
	return err.Error()
}

func holds(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, cutText(text, 3000))
		}
	}
}

func stamps(t testing.TB, r Result) []session.FileStamp {
	t.Helper()
	var out []session.FileStamp
	if err := json.Unmarshal(r.Metadata[session.MetaFiles], &out); err != nil {
		t.Fatalf("no stamps: %v", err)
	}
	return out
}
