package session

// Agent is a way to work: a prompt, a model, rules, limits. Built-in ones come
// from package prompt, others from files and config.
type Agent struct {
	Name        string
	Mode        AgentMode
	Description string
	// Prompt replaces the model family's base prompt; empty keeps that.
	Prompt      string
	Model       Model // zero: not given; Variant counts only with it
	Steps       int   // 0: no limit
	Temperature *float64
	TopP        *float64
	// Rules come after the defaults and the user's; the last match wins.
	Rules    []Rule
	Hidden   bool
	ReadOnly bool   // its restrictions stand whatever a session allows
	Source   string // the file it came from; empty for built-in ones
}

// AgentMode says where an agent may be used.
type AgentMode string

// The modes of an agent.
const (
	ModePrimary  AgentMode = "primary"
	ModeSubagent AgentMode = "subagent"
	ModeAll      AgentMode = "all"
)

// Command is a slash command: a template that becomes a prompt.
type Command struct {
	Name        string
	Description string
	Template    string
	Agent       string // empty: the session's
	Model       Model
	Subtask     *bool  // nil follows the agent's mode
	Source      string // the file it came from
	// Trusted commands may run the shell spans of their template.
	Trusted bool
}

// Skill is a folder with instructions that the model may load by name.
type Skill struct {
	Name        string
	Description string
	Dir         string // absolute
	File        string // SKILL.md, absolute
}

// Reference is a folder outside the project that prompts may name as @alias.
type Reference struct {
	Name string
	Path string // absolute
}
