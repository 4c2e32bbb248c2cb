package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rally/internal/session"
	"rally/internal/session/prompt"
)

func testApp() *app {
	return &app{process: process{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, now: time.Now}}
}

func TestRunFlagsReachTheirOptions(t *testing.T) {
	var got runOptions
	cmd := newRunCmd(testApp(), func(o *runOptions) error { got = *o; return nil })
	cmd.SetArgs([]string{
		"fix", "--max-steps", "3", "it", "-m", "a/b", "-f", "x", "-f", "y,z", "--allow", "bash:git *", "--deny", "edit",
		"--timeout", "90s", "--fallback-model", "a/c,a/d", "-q", "-o", "out", "--", "--json",
	})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	type flags struct {
		Args, Files, Allow, Deny, Fallback []string
		Model, Out                         string
		Steps                              int
		Timeout                            time.Duration
		Quiet, JSON                        bool
	}
	want := flags{
		Args: []string{"fix", "it", "--json"}, Files: []string{"x", "y,z"}, Allow: []string{"bash:git *"}, Deny: []string{"edit"},
		Fallback: []string{"a/c", "a/d"}, Model: "a/b", Out: "out", Steps: 3, Timeout: 90 * time.Second, Quiet: true,
	}
	if diff := cmp.Diff(want, flags{
		Args: got.args, Files: got.prompt.files, Allow: got.prompt.rules.allow, Deny: got.prompt.rules.deny,
		Fallback: got.turn.fallback, Model: got.prompt.model, Out: got.turn.lastMessage, Steps: got.turn.maxSteps,
		Timeout: got.turn.timeout, Quiet: got.output.quiet, JSON: got.output.json,
	}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	for _, args := range []string{
		"--session a --last x", "--session-id a --session b x", "--fork x", "--ephemeral --last x", "--yes --on-ask fail x",
		"--color sometimes x", "--max-steps -1 x", "--max-cost -1 x", "--when-busy never x", "--on-ask maybe x",
	} {
		cmd := newRunCmd(testApp(), func(*runOptions) error { t.Errorf("%s: it would run", args); return nil })
		cmd.SetArgs(strings.Fields(args))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); reasonOf(err) != session.ReasonUsage {
			t.Errorf("%s: %v, want a usage error", args, err)
		}
	}
}

func TestRulesOfFlags(t *testing.T) {
	o := ruleOptions{tools: []string{"bash=off", "mcp_*=on"}, allow: []string{"bash:git *"}, deny: []string{"edit"}}
	got, err := o.rules([]string{"bash", "edit"})
	if err != nil {
		t.Fatal(err)
	}
	want := []session.Rule{
		{Permission: "bash", Pattern: "*", Action: session.Deny},
		{Permission: "mcp_*", Pattern: "*", Action: session.Allow},
		{Permission: "bash", Pattern: "git *", Action: session.Allow},
		{Permission: "edit", Pattern: "*", Action: session.Deny},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []ruleOptions{{tools: []string{"bash"}}, {tools: []string{"nope=on"}}, {allow: []string{":x"}}, {deny: []string{""}}} {
		if _, err := bad.rules([]string{"bash"}); reasonOf(err) != session.ReasonUsage {
			t.Errorf("%+v: %v, want a usage error", bad, err)
		}
	}
}

func TestAttachments(t *testing.T) {
	dir := t.TempDir()
	plain, odd := filepath.Join(dir, "a.go"), filepath.Join(dir, "b.go:3")
	for _, path := range []string{plain, odd} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := attachments([]string{plain, plain + ":2-5", plain + ":7", odd})
	if err != nil {
		t.Fatal(err)
	}
	want := []prompt.Attachment{
		{Path: plain},
		{Path: plain, Lines: prompt.Lines{From: 2, To: 5}},
		{Path: plain, Lines: prompt.Lines{From: 7, To: 7}},
		{Path: odd}, // a file of that very name
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"none.go", plain + ":5-2", plain + ":0", "none.go:1-2"} {
		if _, err := attachments([]string{bad}); reasonOf(err) != session.ReasonUsage {
			t.Errorf("%s: %v, want a usage error", bad, err)
		}
	}
}

func TestSchemaFlag(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(path, []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{path, ` {"type":"object"}`} {
		f, err := readSchema(value)
		if err != nil || f.Type != "json_schema" || strings.TrimSpace(string(f.Schema)) != `{"type":"object"}` {
			t.Errorf("%s: %+v, %v", value, f, err)
		}
	}
	for _, bad := range []string{"missing.json", "{", "{]"} {
		if _, err := readSchema(bad); reasonOf(err) != session.ReasonUsage {
			t.Errorf("%s: %v, want a usage error", bad, err)
		}
	}
}

// The README is where people look a flag up: none may be missing there, and
// none there may not exist.
func TestReadmeNamesEveryFlag(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	flags := map[string]bool{"--help": true}
	walk(newRoot(testApp()), func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "rally ")
		if cmd.HasParent() && !strings.Contains(page, "`rally "+name) && cmd.IsAvailableCommand() {
			t.Errorf("README.md does not name `rally %s`", name)
		}
		note := func(f *pflag.Flag) {
			flags["--"+f.Name] = true
			if !f.Hidden && !strings.Contains(page, "`--"+f.Name) {
				t.Errorf("README.md does not name --%s of rally %s", f.Name, name)
			}
			if f.Usage == "" || strings.Contains(f.Usage, "\n") {
				t.Errorf("--%s of rally %s has no one-line help", f.Name, name)
			}
		}
		cmd.LocalFlags().VisitAll(note)
		cmd.PersistentFlags().VisitAll(note)
	})
	for _, named := range regexp.MustCompile("`(--[a-z][a-z-]+)").FindAllStringSubmatch(page, -1) {
		if !flags[named[1]] {
			t.Errorf("README.md names %s, which no command has", named[1])
		}
	}
}

// walk visits the commands that we define.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		walk(c, visit)
	}
}
