package prompt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

// match is the wildcard of permission rules: * is any run, a tail " *" may be
// missing.
func match(pattern, text string) bool {
	if head, ok := strings.CutSuffix(pattern, " *"); ok && wild(head, text) {
		return true
	}
	return wild(pattern, text)
}

func wild(pattern, text string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, head)
	if !ok {
		return false
	}
	for i := 0; i <= len(text); i++ {
		if wild(rest, text[i:]) {
			return true
		}
	}
	return false
}

// verdict is what an agent's own rules say; allow where they say nothing.
func verdict(a session.Agent, permission, pattern string) session.Action {
	out := session.Allow
	for _, r := range a.Rules {
		if match(r.Permission, permission) && match(r.Pattern, pattern) {
			out = r.Action
		}
	}
	return out
}

func byName(t *testing.T, name string) session.Agent {
	t.Helper()
	for _, a := range Agents("/data/tool-output") {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("no agent %s", name)
	return session.Agent{}
}

func TestAgents(t *testing.T) {
	t.Parallel()
	type row struct {
		Name             string
		Mode             session.AgentMode
		Hidden, ReadOnly bool
		Prompt           bool
	}
	var got []row
	for _, a := range Agents() {
		got = append(got, row{a.Name, a.Mode, a.Hidden, a.ReadOnly, a.Prompt != ""})
		if !a.Hidden && a.Description == "" {
			t.Errorf("%s has no description", a.Name)
		}
	}
	want := []row{
		{"build", session.ModePrimary, false, false, false},
		{"plan", session.ModePrimary, false, true, false},
		{"ask", session.ModePrimary, false, true, true},
		{"architect", session.ModePrimary, false, true, true},
		{"general", session.ModeSubagent, false, false, false},
		{"explore", session.ModeSubagent, false, true, true},
		{"compaction", session.ModePrimary, true, true, true},
		{"title", session.ModePrimary, true, true, true},
		{"summary", session.ModePrimary, true, true, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAgentRules(t *testing.T) {
	t.Parallel()
	reading := []string{"plan", "ask", "architect", "explore"}
	for _, c := range []struct {
		agents              []string
		permission, pattern string
		want                session.Action
	}{
		{[]string{"build", "general"}, "edit", "a.go", session.Allow},
		{[]string{"build", "general"}, "bash", "rm -rf x", session.Allow},
		{[]string{"general"}, "todowrite", "*", session.Deny},
		{reading, "edit", "a.go", session.Deny},
		{reading, "read", "a.go", session.Allow},
		{reading, "grep", "x", session.Allow},
		{reading, "webfetch", "https://x", session.Allow},
		{[]string{"ask", "architect", "explore"}, "read", "sub/.env", session.Ask},
		{[]string{"ask", "architect", "explore"}, "read", ".env.example", session.Allow},
		{[]string{"ask", "architect", "explore"}, "external_directory", "/etc/*", session.Ask},
		{[]string{"ask", "architect", "explore"}, "external_directory", "/data/tool-output/*", session.Allow},
		{[]string{"ask", "architect", "explore"}, "doom_loop", "read", session.Ask},
		{[]string{"ask", "architect", "explore"}, "some_mcp_tool", "*", session.Deny},
		{[]string{"ask", "architect", "explore"}, StructuredTool, "*", session.Allow},
		{[]string{"ask", "architect", "explore", "plan"}, "task", "general", session.Deny},
		{[]string{"ask", "architect", "plan"}, "task", "explore", session.Allow},
		{[]string{"explore"}, "task", "explore", session.Deny},
		{[]string{"explore"}, "skill", "pdf", session.Deny},
		{[]string{"plan"}, "plan_exit", "*", session.Ask},
		{[]string{"compaction", "title", "summary"}, "read", "a.go", session.Deny},
	} {
		for _, name := range c.agents {
			if got := verdict(byName(t, name), c.permission, c.pattern); got != c.want {
				t.Errorf("%s: %s %s is %s, want %s", name, c.permission, c.pattern, got, c.want)
			}
		}
	}
}

func TestReadOnlyShell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want     session.Action
		commands []string
	}{
		{session.Allow, []string{
			"ls", "ls -la src", "cat a.go", "head -n 5 my-file", "tail -n 3 x-f", "wc -l a", "pwd", "grep -rn FOO .", "find . -name *.go", "rg -n x src",
			"git status", "git status -s", "git log --oneline -5", "git diff HEAD~1", "git --no-pager show HEAD", "git branch", "git branch -a",
			"sort -rn", "uniq -c", "echo hi", "true", "git show HEAD@{1}:a.go",
		}},
		{session.Deny, []string{
			"rm x", "touch x", "mv a b", "sed -i s/a/b/ x", "tee x", "git commit -m x", "git branch -D x", "git branch new", "git tag v1", "git checkout .",
			"git stash", "git diff --output=x", "git log -1 --outpu x", "git diff --ext-diff", "git -c core.pager=x log", "git remote add a b",
			"find . -delete", "find -delete", "find . -exec rm {} +", "find . $X", "find . -{delete,x}", "find . -fprintf x y", "rg --pre x y",
			"sort -o x y", "uniq a b", "xargs rm", "env rm x", "sh -c ls", "awk 1 x", "lsof", "gitk", "catx", "go test ./...", "npm install",
		}},
	} {
		for _, command := range c.commands {
			for _, name := range []string{"plan", "ask", "architect", "explore"} {
				if got := verdict(byName(t, name), "bash", command); got != c.want {
					t.Errorf("%s: %q is %s", name, command, got)
				}
			}
		}
	}
}

func TestWithPlanFile(t *testing.T) {
	t.Parallel()
	plan := WithPlanFile(byName(t, "plan"), "/data/plans/ses_1.md", "/work/app")
	for _, c := range []struct {
		permission, pattern string
		want                session.Action
	}{
		{"edit", "../../data/plans/ses_1.md", session.Allow},
		{"edit", "../../data/plans/ses_2.md", session.Deny},
		{"edit", "a.md", session.Deny},
		{"external_directory", "/data/plans/*", session.Allow},
	} {
		if got := verdict(plan, c.permission, c.pattern); got != c.want {
			t.Errorf("%s %s is %s, want %s", c.permission, c.pattern, got, c.want)
		}
	}
	for _, a := range Agents() {
		if a.Name == "plan" {
			continue
		}
		if diff := cmp.Diff(a, WithPlanFile(a, "/data/plans/ses_1.md", "/work/app")); diff != "" {
			t.Errorf("%s changed:\n%s", a.Name, diff)
		}
	}
}
