package tools

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
)

// samples has a call of each tool that works in a tree made by sampleTree.
func samples() map[string]m {
	return map[string]m{
		"apply_patch": {"patchText": "*** Begin Patch\n*** Update File: dir/a.txt\n*** Move to: moved/a.txt\n@@\n-one\n+two\n*** Add File: fresh.txt\n+x\n*** Delete File: b.txt\n*** End Patch"},
		"bash":        {"command": "cat dir/a.txt"},
		"bash_kill":   {"id": "job_1"},
		"bash_output": {"id": "job_1"},
		"edit":        {"filePath": "dir/a.txt", "oldString": "one", "newString": "two"},
		"glob":        {"pattern": "**/*.txt"},
		"grep":        {"pattern": "one"},
		"invalid":     {"tool": "x", "error": "broken"},
		"list":        {},
		"multiedit":   {"filePath": "dir/a.txt", "edits": []m{{"oldString": "one", "newString": "two"}}},
		"plan_exit":   {},
		"question":    {"questions": []m{{"question": "Which?", "header": "h", "options": []m{}}}},
		"read":        {"filePath": "dir/a.txt"},
		"todoread":    {},
		"todowrite":   {"todos": []m{{"content": "c", "status": "pending", "priority": "high"}}},
		"webfetch":    {"url": "http://127.0.0.1:1/"},
		"write":       {"filePath": "new/file.txt", "content": "text"},
	}
}

// failing tools are those whose sample is an answer that is an error.
func failing(name string) bool { return name == "invalid" || name == "webfetch" }

func sampleTree(t *testing.T, tool Tool) *Env {
	env := newEnv(t)
	put(t, env, "dir/a.txt", "one\nline\n")
	put(t, env, "b.txt", "b\n")
	if strings.HasPrefix(tool.Name(), "bash_") {
		does(t, env, "bash", m{"command": "sleep 30", "background": true})
	}
	return env
}

// snapshot is the state of every file below dir.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestContract(t *testing.T) {
	for _, tool := range New(Options{}).All() {
		t.Run(tool.Name(), func(t *testing.T) {
			sample, ok := samples()[tool.Name()]
			if !ok {
				t.Fatal("the contract test has no sample call")
			}
			checkShape(t, tool)
			checkArguments(t, tool, sample)
			checkAccess(t, tool, sample)
			checkContext(t, tool, sample)
		})
	}
}

func checkShape(t *testing.T, tool Tool) {
	if n := len(tool.Description()); n < 10 || n > 2500 {
		t.Errorf("the description has %d bytes", n)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(tool.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(nil); err != nil {
		t.Errorf("schema: %v", err)
	}
	if s.Type != "object" || s.AdditionalProperties == nil || s.AdditionalProperties.Not == nil {
		t.Error("the schema is not a closed object")
	}
}

func checkArguments(t *testing.T, tool Tool, sample m) {
	odd := m{"noSuchArgument": 1}
	for k, v := range sample {
		odd[k] = v
	}
	raw, _ := json.Marshal(odd)
	if _, err := Arguments(tool.Schema(), string(raw)); err == nil || !strings.Contains(err.Error(), `"noSuchArgument" is unknown`) {
		t.Errorf("an unknown argument: %v", err)
	}
}

// Access covers what a call touches: Changes and Paths are said, files outside
// of Paths stay, and looking at Access itself changes nothing.
func checkAccess(t *testing.T, tool Tool, sample m) {
	env := sampleTree(t, tool)
	raw, _ := json.Marshal(sample)
	args, err := Arguments(tool.Schema(), string(raw))
	if err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, env.Directory)
	access, err := tool.Access(env, args)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, snapshot(t, env.Directory)); d != "" {
		t.Errorf("Access changed files: %s", d)
	}
	var paths []string
	changes := false
	for _, a := range access {
		if a.Permission == "" || (len(a.Patterns) == 0) == (a.Script == "") {
			t.Errorf("an access is not complete: %+v", a)
		}
		changes = changes || a.Changes
		paths = append(paths, a.Paths...)
	}
	r, err := tool.Run(t.Context(), env, args)
	if (err != nil) != failing(tool.Name()) {
		t.Fatalf("%v", err)
	}
	after := snapshot(t, env.Directory)
	for path := range merge(before, after) {
		if before[path] == after[path] && (before[path] != "" || len(before) == len(after)) {
			continue
		}
		if !changes || !slices.Contains(paths, path) {
			t.Errorf("%s changed, Access says changes %v, paths %v", path, changes, paths)
		}
	}
	if len(r.Output) > defaultBytes+4096 {
		t.Errorf("%d bytes of output", len(r.Output))
	}
}

func merge(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for k := range a {
		out[k] = ""
	}
	for k := range b {
		out[k] = ""
	}
	return out
}

// checkContext runs the call under a context that has ended.
func checkContext(t *testing.T, tool Tool, sample m) {
	env := sampleTree(t, tool)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	_, err := callTool(ctx, t, env, tool, sample)
	if err == nil {
		t.Error("it ran though its context had ended")
	}
	if spent := time.Since(start); spent > 2*time.Second {
		t.Errorf("it took %v", spent)
	}
	if got := content(t, filepath.Join(env.Directory, "dir/a.txt")); got != "one\nline\n" {
		t.Errorf("it changed a file: %q", got)
	}
}

// What is outside of the project is said to be so, also through links and dots.
func TestExternalAccess(t *testing.T) {
	env := newEnv(t)
	outside := filepath.Join(filepath.Dir(env.Directory), "elsewhere")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": outside, "dangling": filepath.Join(outside, "new.txt")} {
		if err := os.Symlink(to, filepath.Join(env.Directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	for tool, calls := range map[string][]m{
		"read":      {{"filePath": "../elsewhere/x"}, {"filePath": "link/x"}, {"filePath": "dangling"}, {"filePath": outside}},
		"write":     {{"filePath": "dangling", "content": ""}, {"filePath": "link/deep/x", "content": ""}},
		"edit":      {{"filePath": "link/x", "oldString": "a", "newString": "b"}},
		"multiedit": {{"filePath": "link/x", "edits": []m{{"oldString": "a", "newString": "b"}}}},
		"glob":      {{"pattern": "../elsewhere/*"}, {"pattern": outside + "/**"}, {"pattern": "*", "path": "link"}, {"pattern": "link/*"}},
		"grep":      {{"pattern": "a", "path": outside}},
		"list":      {{"path": "link"}},
		"bash":      {{"command": "true", "workdir": "link"}},
		"apply_patch": {
			{"patchText": "*** Begin Patch\n*** Add File: link/x\n+a\n*** End Patch"},
			{"patchText": "*** Begin Patch\n*** Update File: f\n*** Move to: link/x\n*** End Patch"},
		},
	} {
		for _, args := range calls {
			raw, _ := json.Marshal(args)
			found, _ := New(Options{}).Lookup(tool)
			access, err := found.Access(env, raw)
			if err != nil {
				t.Fatalf("%s %s: %v", tool, raw, err)
			}
			i := slices.IndexFunc(access, func(a Access) bool { return a.Permission == "external_directory" })
			if i < 0 || !strings.HasPrefix(access[i].Patterns[0], outside) || !strings.HasSuffix(access[i].Patterns[0], "/*") {
				t.Errorf("%s %s: %+v", tool, raw, access)
			}
		}
	}
}

func TestRegistry(t *testing.T) {
	r := New(Options{})
	var names, offered []string
	for _, tool := range r.All() {
		names = append(names, tool.Name())
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%v", names)
	}
	for _, tool := range r.Offered("claude-x") {
		offered = append(offered, tool.Name())
	}
	want := []string{"bash", "bash_kill", "bash_output", "edit", "glob", "grep", "plan_exit", "read", "todoread", "todowrite", "webfetch", "write"}
	if d := cmp.Diff(want, offered); d != "" {
		t.Error(d)
	}
	if got := len(r.Offered("gpt-5-mini")); got != len(want)+1 {
		t.Errorf("%d tools for a model that writes patches", got)
	}
	if tool, ok := r.Lookup(" Read"); !ok || tool.Name() != "read" {
		t.Error("odd case is not found")
	}
	if _, ok := r.Lookup("nope"); ok {
		t.Error("found what is not there")
	}
}
