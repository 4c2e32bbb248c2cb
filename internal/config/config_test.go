package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rally/internal/session"
)

// tree is a home and a project on disk.
type tree struct {
	t             *testing.T
	home, project string
	opts          Options
}

func newTree(t *testing.T) *tree {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{t: t, home: filepath.Join(base, "home"), project: filepath.Join(base, "project")}
	tr.write("project/.git/HEAD", "ref: x")
	tr.write("project/sub/keep", "")
	tr.write("home/keep", "")
	tr.opts = Options{Dir: filepath.Join(tr.project, "sub"), Home: tr.home}
	return tr
}

func (tr *tree) path(name string) string { return filepath.Join(filepath.Dir(tr.home), name) }

func (tr *tree) write(name, text string) {
	tr.t.Helper()
	path := tr.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) load() *Config {
	tr.t.Helper()
	c, err := Load(tr.opts)
	if err != nil {
		tr.t.Fatal(err)
	}
	return c
}

const (
	userFile    = "home/.config/rally/config.yaml"
	rootFile    = "project/.rally/config.yaml"
	nearFile    = "project/sub/.rally/config.yaml"
	flaggedFile = "flagged.yaml"
)

// Every pair of layers: the higher one wins, whatever it says.
func TestEveryPairOfLayers(t *testing.T) {
	yaml := func(file string) func(*tree, string) {
		return func(tr *tree, v string) { tr.write(file, "agent: "+v+"\n") }
	}
	layers := []struct {
		name string
		put  func(*tree, string)
	}{
		{"default", func(*tree, string) {}},
		{"user", yaml(userFile)},
		{"root", yaml(rootFile)},
		{"near", yaml(nearFile)},
		{"file", func(tr *tree, v string) {
			yaml(flaggedFile)(tr, v)
			tr.opts.ConfigFile = tr.path(flaggedFile)
		}},
		{"env", func(tr *tree, v string) { tr.opts.Environ = []string{"RALLY_AGENT=" + v} }},
		{"flag", func(tr *tree, v string) { tr.opts.Flags = map[string]string{"agent": v} }},
	}
	for low := range layers {
		for high := low + 1; high < len(layers); high++ {
			t.Run(layers[low].name+"-"+layers[high].name, func(t *testing.T) {
				tr := newTree(t)
				layers[low].put(tr, "low")
				layers[high].put(tr, "high")
				if got := tr.load().Agent; got != "high" {
					t.Errorf("agent is %q", got)
				}
			})
		}
	}
}

func TestDefaults(t *testing.T) {
	c := newTree(t).load()
	want := Config{
		Agent: "build", OnAsk: "reject", Title: "prompt", Shell: "/bin/bash", Snapshot: true,
		Retry:         Retry{5, time.Minute, 5 * time.Minute},
		Timeouts:      Timeouts{30 * time.Second, 2 * time.Minute, 2 * time.Minute},
		Compaction:    Compaction{Auto: true, Prune: true, Reserve: 20000, TailTurns: 2},
		ToolOutput:    ToolOutput{2000, 51200},
		SubagentDepth: 1,
		Dir:           c.Dir, Root: c.Root,
	}
	if diff := cmp.Diff(want, *c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestListsMergeAndRulesAppend(t *testing.T) {
	tr := newTree(t)
	tr.write(userFile, `
permission: [{deny: "bash:*"}, {ask: "edit:~/x"}]
instructions: [a.md]
providers:
  - {id: local, base_url: http://a/v1, api_key: k, models: [{id: Qwen2.5-Coder, context: 1}]}
agents: [{name: rev, prompt: p, steps: 3}]
`)
	tr.write(rootFile, `
permission: [{deny: "bash:rm *"}]
instructions: [a.md, b.md]
providers: [{id: local, models: [{id: Qwen2.5-Coder, output: 2}, {id: gpt-4.1}]}]
agents: [{name: rev, prompt: q}, {name: two}]
`)
	c := tr.load()
	if diff := cmp.Diff([]Provider{{ID: "local", BaseURL: "http://a/v1", APIKey: "k", Models: []Model{{ID: "Qwen2.5-Coder", Context: 1, Output: 2}, {ID: "gpt-4.1"}}}}, c.Providers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Agent{{Name: "rev", Prompt: "q", Steps: 3}, {Name: "two"}}, c.Agents); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a.md", "b.md"}, c.Instructions); diff != "" {
		t.Error(diff)
	}
	user, project := c.Rules()
	if diff := cmp.Diff([]session.Rule{{Permission: "bash", Pattern: "*", Action: session.Deny}, {Permission: "edit", Pattern: tr.home + "/x", Action: session.Ask}}, user); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]session.Rule{{Permission: "bash", Pattern: "rm *", Action: session.Deny}}, project); diff != "" {
		t.Error(diff)
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		name, text string
		want       Error // File is the user's
	}{
		{"unknown key", "\nmodell: x\n", Error{Line: 2, Key: "modell", Message: "unknown key", Hint: "did you mean model?"}},
		{"unknown nested key", "limits: {step: 1}", Error{Line: 1, Key: "limits.step", Message: "unknown key", Hint: "did you mean steps?"}},
		{"unknown key in a list", "agents:\n- name: a\n  promt: x", Error{Line: 3, Key: "agents[0].promt", Message: "unknown key", Hint: "did you mean prompt?"}},
		{"not YAML", "a: b\n  c: [", Error{Line: 2, Message: "not YAML: mapping values are not allowed in this context"}},
		{"not a map", "- a", Error{Line: 1, Message: "must be a map of keys"}},
		{"two documents", "agent: a\n---\nagent: b", Error{Line: 2, Message: "only one YAML document is read"}},
		{"twice", "agent: a\nagent: b", Error{Line: 2, Key: "agent", Message: "given twice"}},
		{"not a number", "limits: {steps: many}", Error{Line: 1, Key: "limits.steps", Message: `"many" is not a whole number`}},
		{"negative", "limits: {cost: -1}", Error{Line: 1, Key: "limits.cost", Message: `"-1" is below zero`}},
		{"not a duration", "timeouts: {idle: 3}", Error{Line: 1, Key: "timeouts.idle", Message: `"3" is not a duration such as 30s or 5m`}},
		{"not one of", "on_ask: alow", Error{Line: 1, Key: "on_ask", Message: `"alow" is none of reject, fail, allow`, Hint: "did you mean allow?"}},
		{"list for a value", "agent: [a]", Error{Line: 1, Key: "agent", Message: "must be a single value, not a list or a map"}},
		{"no name", "agents: [{prompt: x}]", Error{Line: 1, Key: "agents[0]", Message: "has no name"}},
		{"same name", "agents: [{name: a}, {name: a}]", Error{Line: 1, Key: "agents[1]", Message: `name "a" is there twice`}},
		{"rule", "permission: [{alow: x}]", Error{Line: 1, Key: "permission[0]", Message: `action "alow" is none of allow, ask, deny`}},
		{"alias", "agent: &a x\nmodel: *a", Error{Line: 1, Key: "agent", Message: "anchors and aliases are not read here"}},
		{"model", "model: gpt", Error{Line: 1, Key: "model", Message: `model "gpt" is not of the form provider/model`}},
		{"mcp", "mcp: [{name: a}]", Error{Line: 1, Key: "mcp[a]", Message: "needs a command or a url, and not both"}},
		{"env unset", "shell: '{env:NOPE}'", Error{Line: 1, Key: "shell", Message: "the environment variable NOPE is not set", Hint: "set it, or take {env:NOPE} out"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTree(t)
			tr.write(userFile, tt.text)
			_, err := Load(tr.opts)
			var got *Error
			if !errors.As(err, &got) {
				t.Fatalf("error is %v", err)
			}
			tt.want.File = tr.path(userFile)
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestErrorsElsewhere(t *testing.T) {
	tr := newTree(t)
	tr.opts.Environ = []string{"RALLY_LIMITS_STEPS=x"}
	_, err := Load(tr.opts)
	if err == nil || err.Error() != `RALLY_LIMITS_STEPS: limits.steps: "x" is not a whole number` {
		t.Errorf("error is %v", err)
	}
	tr.opts.Environ, tr.opts.Flags = nil, map[string]string{"limits.stepz": "1"}
	if _, err = Load(tr.opts); err == nil || !strings.Contains(err.Error(), "limits.stepz: unknown key") {
		t.Errorf("error is %v", err)
	}
	tr.opts.Flags, tr.opts.ConfigFile = nil, tr.path("none.yaml")
	if _, err = Load(tr.opts); err == nil || !strings.Contains(err.Error(), "none.yaml: no such file") {
		t.Errorf("error is %v", err)
	}
}

func TestReferencesInStrings(t *testing.T) {
	tr := newTree(t)
	tr.write("home/.config/rally/p.md", "You are it.\n")
	tr.write(userFile, `
providers:
  - {id: used, api_key: "{env:KEY}"}
  - {id: unused, api_key: "{env:NOPE}"}
agents: [{name: a, prompt: "{file:p.md} {env:KEY}"}]
shell: "{env:OVERRIDDEN}"
`)
	tr.opts.Environ = []string{"KEY=k: [x", "RALLY_SHELL=/bin/sh"}
	c := tr.load()
	if c.Agents[0].Prompt != "You are it. k: [x" || c.Shell != "/bin/sh" || c.Providers[0].APIKey != "k: [x" || c.Providers[0].Err != nil {
		t.Errorf("got %+v", c)
	}
	if err := c.Providers[1].Err; err == nil || !strings.Contains(err.Error(), "providers[unused].api_key: the environment variable NOPE is not set") {
		t.Errorf("error is %v", err)
	}
}

func TestNear(t *testing.T) {
	tests := []struct {
		name string
		list []string
		want []string
	}{
		{"agnet", []string{"agents", "model", "agent"}, []string{"agent", "agents"}},
		{"gpt5", []string{"gpt-5-mini", "gpt-5", "o3"}, []string{"gpt-5"}},
		{"gpt-5", []string{"gpt-5-mini", "gpt-5-nano", "gpt-5-pro", "gpt-5-max"}, []string{"gpt-5-max", "gpt-5-pro", "gpt-5-mini"}},
		{"zzz", []string{"model"}, nil},
		{"Build", []string{"build"}, []string{"build"}},
		{"", []string{"a", "model"}, []string{"a"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Near(tt.name, tt.list)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestEnvNamesAreDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, key := range Scalars() {
		name := EnvName(key)
		if old, ok := seen[name]; ok || name == "RALLY_DB" || name == "RALLY_CONFIG" {
			t.Errorf("%s is %s and %s", name, key, old)
		}
		seen[name] = key
	}
	if len(seen) < 25 {
		t.Error(fmt.Sprint(seen))
	}
}
