package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

func denyAll(names ...string) []session.Rule {
	var out []session.Rule
	for _, n := range names {
		out = append(out, session.Rule{Permission: n, Pattern: "*", Action: session.Deny})
	}
	return out
}

func texts(notices []Notice, base string) []string {
	var out []string
	for _, n := range notices {
		out = append(out, strings.ReplaceAll(n.String(), base, "BASE"))
	}
	return out
}

func TestFindAgents(t *testing.T) {
	tr := newTree(t)
	tr.write("project/.opencode/agent/team/rev.md", `---
description: Reviews
mode: subagent
model: local/m
temperature: 0.2
maxSteps: 5
color: red
tools:
  bash: false
  write: false
permission:
  edit: deny
  bash: {"git *": allow, "*": deny}
---
You review.
`)
	tr.write("project/.claude/agents/claude.md", "---\nname: claude\ndescription: Use this when: things break\ntools: Read, Grep, Bash(git *)\nmodel: sonnet\n---\n\nYou are it.\r\n")
	tr.write("home/.config/rally/agents/mine.md", "---\npermission:\n  - allow: \"edit:*.md\"\n  - deny: bash\n---\nUser's.")
	tr.write("project/.rally/agents/mine.md", "Project's.")
	tr.write("project/.rally/agents/broken.md", "---\na: b\nc: [\n---\nx")
	tr.write("project/.rally/agents/open.md", "---\na: b\n")
	tr.write("project/.rally/agents/mode.md", "---\n\nmode: captain\n---\n")
	tr.write("project/.rally/agents/note.txt", "no agent")
	tr.write(userFile, "agents: [{name: mine, steps: 4}, {name: plan, disable: true}]")
	if err := os.Symlink("/etc/passwd", tr.path("project/.rally/agents/link.md")); err != nil {
		t.Fatal(err)
	}
	set := tr.load().FindAgents()
	temperature := 0.2
	want := AgentSet{
		List: []session.Agent{
			{
				Name: "mine", Prompt: "Project's.", Steps: 4, Source: tr.path("project/.rally/agents/mine.md"),
				Rules: []session.Rule{{Permission: "edit", Pattern: "*.md", Action: session.Allow}, {Permission: "bash", Pattern: "*", Action: session.Deny}},
			},
			{
				Name: "claude", Description: "Use this when: things break", Prompt: "You are it.", Source: tr.path("project/.claude/agents/claude.md"),
				Rules: denyAll("edit", "glob", "list", "task", "todowrite", "webfetch", "websearch", "skill"),
			},
			{
				Name: "team/rev", Description: "Reviews", Mode: session.ModeSubagent, Model: session.Model{Provider: "local", ID: "m"}, Temperature: &temperature, Steps: 5,
				Prompt: "You review.", Source: tr.path("project/.opencode/agent/team/rev.md"), Rules: denyAll("bash", "edit", "edit", "bash"),
			},
			{Name: "plan"},
		},
		Disabled: []string{"plan"},
	}
	notices := texts(set.Notices, filepath.Dir(tr.home))
	set.Notices = nil
	if diff := cmp.Diff(want, set); diff != "" {
		t.Error(diff)
	}
	wantNotices := []string{
		`BASE/project/.rally/agents/link.md: is a link out of the project and was held back`,
		`BASE/project/.claude/agents/claude.md:5: model "sonnet" is not of the form provider/model and is ignored`,
		`BASE/project/.opencode/agent/team/rev.md:2: permission {allow: bash:git *} was held back: it would loosen a rule`,
		`BASE/project/.rally/agents/broken.md:3: not YAML: did not find expected node content`,
		`BASE/project/.rally/agents/mode.md:3: mode: "captain" is none of primary, subagent, all`,
		`BASE/project/.rally/agents/open.md:1: the front matter has no closing ---`,
	}
	if diff := cmp.Diff(wantNotices, notices); diff != "" {
		t.Error(diff)
	}
}

func TestFindCommands(t *testing.T) {
	tr := newTree(t)
	tr.write("project/.opencode/command/fix.md", "---\ndescription: Fix\nagent: build\nmodel: a/b\nsubtask: false\n---\nFix $1")
	tr.write("project/.claude/commands/front/make.md", "---\nallowed-tools: Bash(git add:*)\nargument-hint: [x]\n---\nMake !`x`")
	tr.write("home/.config/opencode/commands/mine.md", "Mine")
	tr.write(userFile, "commands: [{name: fix, template: Configured}]")
	got, notices := tr.load().FindCommands()
	want := []session.Command{
		{Name: "mine", Template: "Mine", Source: tr.path("home/.config/opencode/commands/mine.md"), Trusted: true},
		{Name: "front/make", Template: "Make !`x`", Source: tr.path("project/.claude/commands/front/make.md")},
		{Name: "fix", Template: "Configured", Source: tr.path(userFile), Trusted: true},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(notices) != 0 {
		t.Error(diff, notices)
	}
}

func TestFindSkills(t *testing.T) {
	tr := newTree(t)
	tr.write("home/.claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Old\n---\nx")
	tr.write("project/.rally/skills/deep/pdf/SKILL.md", "---\nname: pdf\ndescription: New\n---\nx")
	tr.write("project/sub/.opencode/skill/other/SKILL.md", "no front matter")
	got, notices := tr.load().FindSkills()
	want := []session.Skill{
		{Name: "pdf", Description: "New", Dir: tr.path("project/.rally/skills/deep/pdf"), File: tr.path("project/.rally/skills/deep/pdf/SKILL.md")},
		{Name: "other", Dir: tr.path("project/sub/.opencode/skill/other"), File: tr.path("project/sub/.opencode/skill/other/SKILL.md")},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(notices) != 0 {
		t.Error(diff, notices)
	}
}

func TestFindInstructions(t *testing.T) {
	tr := newTree(t)
	tr.write("home/.claude/CLAUDE.md", "user")
	tr.write("project/AGENTS.md", "root")
	tr.write("project/CLAUDE.md", "not this")
	tr.write("project/sub/CLAUDE.md", strings.Repeat("x", maxInstruction+5))
	if err := os.Mkdir(tr.path("project/sub/AGENTS.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	tr.write("project/docs/rules.md", "rules")
	tr.write(rootFile, "instructions: [docs/*.md, none.md, 'https://x/y']\nreferences: [{name: d, path: docs/}]\n")
	c := tr.load()
	got, notices := c.FindInstructions()
	want := []Instruction{
		{tr.path("home/.claude/CLAUDE.md"), "user"},
		{tr.path("project/AGENTS.md"), "root"},
		{tr.path("project/sub/CLAUDE.md"), strings.Repeat("x", maxInstruction)},
		{tr.path("project/docs/rules.md"), "rules"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantNotices := []string{
		"BASE/project/sub/AGENTS.md: is not a file and is ignored",
		"BASE/project/sub/CLAUDE.md: only its first 256 KiB are used",
		"BASE/project/.rally/config.yaml:1: instructions none.md: no such file",
		"BASE/project/.rally/config.yaml:1: instructions https://x/y: addresses are not fetched",
	}
	if diff := cmp.Diff(wantNotices, texts(notices, filepath.Dir(tr.home))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]session.Reference{{Name: "d", Path: tr.path("project/docs")}}, c.FindReferences()); diff != "" {
		t.Error(diff)
	}
}

func TestRoot(t *testing.T) {
	tr := newTree(t)
	tr.write("project/tree/.git", "gitdir: elsewhere")
	tr.write("project/tree/a/b", "")
	for dir, want := range map[string]string{"project/sub": "project", "project/tree/a": "project/tree", "home": "home"} {
		if got := Root(tr.path(dir)); got != tr.path(want) {
			t.Errorf("Root(%s) = %s", dir, got)
		}
	}
}

func TestLinksInLoops(t *testing.T) {
	tr := newTree(t)
	tr.write("project/.rally/agents/a.md", "x")
	if err := os.Symlink("..", tr.path("project/.rally/agents/up")); err != nil {
		t.Fatal(err)
	}
	set := tr.load().FindAgents()
	if !slices.ContainsFunc(set.List, func(a session.Agent) bool { return a.Name == "a" }) || len(set.List) > 20 {
		t.Errorf("%d agents", len(set.List))
	}
}
