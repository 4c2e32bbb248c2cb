package prompt

import (
	_ "embed" // the prompts are .md files beside the code
	"fmt"
	"strings"
	"time"

	"rally/internal/session"
)

// Base prompts. Every family gets base.md; what only some models need to be
// told stands in a file of its own and follows it.
var (
	//go:embed base.md
	basePrompt string
	//go:embed gpt.md
	gptPrompt string
	//go:embed claude.md
	claudePrompt string
	//go:embed gemini.md
	geminiPrompt string
	//go:embed open.md
	openPrompt string
)

// Instruction is one instruction file (AGENTS.md and the like).
type Instruction struct {
	Path string // as the model should see it: absolute
	Text string
}

// ServerInstruction is what an MCP server says about its tools.
type ServerInstruction struct {
	Server string
	Text   string
}

// Context is what the system prompt takes from files and servers. The order
// of each list is the order in the prompt; skills without a description are
// not listed.
type Context struct {
	Instructions []Instruction
	MCP          []ServerInstruction
	Skills       []session.Skill
	References   []session.Reference
}

// Options are what the system prompt is made of.
type Options struct {
	Agent session.Agent
	Model session.Model
	// UserSystem stands in place of the base prompt or the agent's.
	UserSystem string
	// AppendSystem follows whichever of them is there.
	AppendSystem string
	Directory    string // absolute
	Root         string // absolute; the repository's top, or Directory
	IsRepo       bool
	Platform     string // GOOS
	// Date is the start of the session, not of the step: a date that changed
	// at midnight would void the provider's cache. It is shown in UTC, so
	// another process in another time zone sends the same bytes.
	Date time.Time
	Context
	// Structured says that the answer must come through StructuredTool.
	Structured bool
}

// System is the system prompt: who the model is, then environment,
// instructions, MCP instructions, skills and the note on structured output.
// Sections are separated by a blank line; empty ones are left out.
func System(o Options) string {
	sections := []string{
		o.base(), o.AppendSystem, o.environment(), o.references(), o.instructions(), o.mcp(), o.skills(),
	}
	if o.Structured {
		sections = append(sections, structuredNote)
	}
	var out []string
	for _, s := range sections {
		if s = strings.Trim(s, "\n"); strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n\n")
}

func (o Options) base() string {
	switch {
	case o.UserSystem != "":
		return o.UserSystem
	case o.Agent.Prompt != "":
		return o.Agent.Prompt
	}
	return strings.TrimSpace(basePrompt) + "\n\n" + strings.TrimSpace(familyPrompt(o.Model.ID))
}

// familyPrompt is what models of one family need to be told, by a piece of
// the model's id. Order counts: "deepseek-r1-distill-llama" is an open model
// whatever else its name holds.
func familyPrompt(model string) string {
	model = strings.ToLower(model)
	holds := func(pieces ...string) bool {
		for _, p := range pieces {
			if strings.Contains(model, p) {
				return true
			}
		}
		return false
	}
	switch {
	case holds("gpt-oss", "qwen", "llama", "mistral", "devstral", "deepseek", "glm", "kimi", "gemma", "phi-"):
		return openPrompt
	case holds("claude"):
		return claudePrompt
	case holds("gemini"):
		return geminiPrompt
	case holds("gpt", "codex") || isReasoner(model):
		return gptPrompt
	}
	return openPrompt
}

// isReasoner recognises o1, o3-mini, openai/o4-mini and the like.
func isReasoner(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	return len(model) >= 2 && model[0] == 'o' && model[1] >= '1' && model[1] <= '9'
}

func (o Options) environment() string {
	repo := "no"
	if o.IsRepo {
		repo = "yes"
	}
	var b strings.Builder
	b.WriteString("The environment you work in:\n<env>\n")
	fmt.Fprintf(&b, "Working directory: %s\n", o.Directory)
	fmt.Fprintf(&b, "Project root: %s\n", o.Root)
	fmt.Fprintf(&b, "Git repository: %s\n", repo)
	fmt.Fprintf(&b, "Platform: %s\n", o.Platform)
	if !o.Date.IsZero() {
		fmt.Fprintf(&b, "Session started: %s\n", o.Date.UTC().Format("Mon Jan 02 2006"))
	}
	b.WriteString("</env>")
	return b.String()
}

func (o Options) references() string {
	if len(o.References) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Folders outside the project that you may read. The user names them as @name or @name/path.\n<available_references>\n")
	for _, r := range o.References {
		fmt.Fprintf(&b, "  <reference name=\"%s\" path=\"%s\" />\n", escape(r.Name), escape(r.Path))
	}
	b.WriteString("</available_references>")
	return b.String()
}

func (o Options) instructions() string {
	var out []string
	for _, i := range o.Instructions {
		if text := strings.TrimSpace(i.Text); text != "" {
			out = append(out, "Instructions from: "+i.Path+"\n"+text)
		}
	}
	return strings.Join(out, "\n\n")
}

func (o Options) mcp() string {
	var b strings.Builder
	for _, s := range o.MCP {
		if text := strings.TrimSpace(s.Text); text != "" {
			fmt.Fprintf(&b, "<server name=\"%s\">\n%s\n</server>\n", escape(s.Server), text)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "What the connected MCP servers say about their tools:\n<mcp_instructions>\n" + b.String() + "</mcp_instructions>"
}

func (o Options) skills() string {
	var b strings.Builder
	for _, s := range o.Skills {
		if s.Description != "" {
			fmt.Fprintf(&b, "  <skill>\n    <name>%s</name>\n    <description>%s</description>\n    <location>%s</location>\n  </skill>\n",
				escape(s.Name), escape(s.Description), escape(s.File))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "Skills hold instructions for particular kinds of work. When a task matches the description of one, load it with the skill tool before you begin.\n" +
		"<available_skills>\n" + b.String() + "</available_skills>"
}

// escaper keeps a name or description from ending the element it stands in.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(s string) string { return escaper.Replace(s) }
