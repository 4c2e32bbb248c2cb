package prompt

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSuffix(string(want), "\n"), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}

func options(model string) Options {
	return Options{
		Model: session.Model{Provider: "p", ID: model}, Directory: "/work/app/cmd", Root: "/work/app", IsRepo: true,
		Platform: "linux", Date: time.Date(2026, 12, 1, 23, 30, 0, 0, time.UTC),
	}
}

func full() Options {
	o := options("qwen2.5-coder")
	o.Agent = session.Agent{Name: "reviewer", Prompt: "You are REVIEWER-88."}
	o.AppendSystem = "EXTRA-55"
	o.Structured = true
	o.Context = Context{
		Instructions: []Instruction{{Path: "/work/app/AGENTS.md", Text: "House rule: INSTR-77\n"}, {Path: "/work/app/docs/rules.md", Text: "Use tabs."}, {Path: "/empty.md", Text: " \n"}},
		MCP:          []ServerInstruction{{Server: "docs", Text: "Search first."}, {Server: "silent"}},
		Skills: []session.Skill{
			{Name: "pdf", Description: "Reads <PDF> & more", File: "/skills/pdf/SKILL.md"},
			{Name: "unlisted", File: "/skills/unlisted/SKILL.md"},
		},
		References: []session.Reference{{Name: "docs", Path: "/work/docs"}},
	}
	return o
}

func TestSystemGolden(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"gpt-5-mini", "claude-sonnet-4-5", "gemini-2.5-pro", "qwen2.5-coder"} {
		golden(t, "system/"+model+".txt", System(options(model)))
	}
	golden(t, "system/full.txt", System(full()))
}

func TestSystemOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		edit func(*Options)
		want []string // in this order
		not  []string
	}{
		{
			"agent", func(*Options) {},
			[]string{"REVIEWER-88", "EXTRA-55", "<env>", "@name", "INSTR-77", "Use tabs.", "Search first.", "<available_skills>", StructuredTool},
			[]string{"You are rally", "unlisted", "silent", "/empty.md"},
		},
		{
			"--system stands in its place", func(o *Options) { o.UserSystem = "MINE-1" },
			[]string{"MINE-1", "EXTRA-55", "<env>", "INSTR-77", "Search first.", "<available_skills>"},
			[]string{"REVIEWER-88", "You are rally"},
		},
		{
			"neither", func(o *Options) { o.Agent.Prompt = "" },
			[]string{"You are rally", "# Calling tools", "EXTRA-55", "<env>"},
			[]string{"REVIEWER-88"},
		},
	} {
		o := full()
		c.edit(&o)
		got, from := System(o), 0
		for _, want := range c.want {
			i := strings.Index(got[from:], want)
			if i < 0 {
				t.Errorf("%s: %q is missing or out of order", c.name, want)
				continue
			}
			from += i
		}
		for _, not := range c.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: %q should not be there", c.name, not)
			}
		}
	}
}

// Invariant 6: built twice, it is the same bytes, in any time zone.
func TestSystemIsDeterministic(t *testing.T) {
	t.Parallel()
	o := full()
	first := System(o)
	o.Date = o.Date.In(time.FixedZone("east", 9*3600))
	if diff := cmp.Diff(first, System(o)); diff != "" {
		t.Error(diff)
	}
}

func TestFamily(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ model, want string }{
		{"gpt-5-mini", gptPrompt},
		{"o3-mini", gptPrompt},
		{"openai/o4-mini", gptPrompt},
		{"codex-mini-latest", gptPrompt},
		{"anthropic/Claude-Opus-4", claudePrompt},
		{"gemini-2.5-flash", geminiPrompt},
		{"Qwen2.5-Coder-32B", openPrompt},
		{"gpt-oss-120b", openPrompt},
		{"deepseek-r1-distill-llama", openPrompt},
		{"olmo-2", openPrompt},
		{"", openPrompt},
	} {
		if got := familyPrompt(c.model); got != c.want {
			t.Errorf("familyPrompt(%q) = %.30q, want %.30q", c.model, got, c.want)
		}
	}
}

func TestBasePromptIsShort(t *testing.T) {
	t.Parallel()
	for _, family := range []string{gptPrompt, claudePrompt, geminiPrompt, openPrompt} {
		if n := strings.Count(basePrompt+family, "\n"); n > 60 {
			t.Errorf("a base prompt has %d lines", n)
		}
	}
}
