// Package config turns layers of YAML, environment and flags into one typed
// Config, and finds the agents, commands, skills and instructions that people
// keep in files.
//
// Each layer is read strictly, as YAML nodes that remember their file and
// line; what a project may not say is taken out (trust.go); the nodes are
// merged (merge.go); {env:NAME} and {file:path} are replaced in what is left
// (expand.go); the result is decoded. Show prints the merged nodes with the
// layer each came from. Nothing is ever written, and nothing is discovered
// until it is asked for.
package config

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"rally/internal/session"
)

// Config is the whole configuration. docs/config.md says what each key means.
type Config struct {
	Model           string      `yaml:"model"`
	SmallModel      string      `yaml:"small_model"`
	Agent           string      `yaml:"agent"`
	OnAsk           string      `yaml:"on_ask" oneof:"reject fail allow"`
	ContinueOnDeny  bool        `yaml:"continue_on_deny"`
	Title           string      `yaml:"title" oneof:"prompt model off"`
	Shell           string      `yaml:"shell"`
	Snapshot        bool        `yaml:"snapshot"`
	Limits          Limits      `yaml:"limits"`
	Retry           Retry       `yaml:"retry"`
	Timeouts        Timeouts    `yaml:"timeouts"`
	CAFile          string      `yaml:"ca_file"`
	Compaction      Compaction  `yaml:"compaction"`
	ToolOutput      ToolOutput  `yaml:"tool_output"`
	SubagentDepth   int         `yaml:"subagent_depth"`
	Permission      []Rule      `yaml:"permission" merge:"append"`
	Providers       []Provider  `yaml:"providers"`
	Agents          []Agent     `yaml:"agents"`
	Commands        []Command   `yaml:"commands"`
	MCP             []MCP       `yaml:"mcp"`
	Instructions    []string    `yaml:"instructions" merge:"append"`
	References      []Reference `yaml:"references"`
	Hooks           []Hook      `yaml:"hooks" merge:"append"`
	TrustedProjects []string    `yaml:"trusted_projects" merge:"append"`
	Secrets         []string    `yaml:"secrets" merge:"append"`

	// Dir and Root are the real paths of the directory and its repository.
	Dir  string `yaml:"-"`
	Root string `yaml:"-"`
	// Trusted says that project files may do what the user's may.
	Trusted bool `yaml:"-"`
	// Held lists what project files said and may not say.
	Held []Held `yaml:"-"`

	opts    Options
	merged  *yaml.Node
	origins map[*yaml.Node]Origin
}

// Limits end a run; 0 means none.
type Limits struct {
	Steps   int           `yaml:"steps"`
	Cost    float64       `yaml:"cost"` // USD
	Tokens  int64         `yaml:"tokens"`
	Timeout time.Duration `yaml:"timeout"`
}

// Retry bounds how long a request is tried; attempts include the first.
type Retry struct {
	Attempts    int           `yaml:"attempts"`
	MaxWait     time.Duration `yaml:"max_wait"`
	OfflineWait time.Duration `yaml:"offline_wait"`
}

// Timeouts are a provider stream's deadlines.
type Timeouts struct {
	Connect   time.Duration `yaml:"connect"`
	FirstByte time.Duration `yaml:"first_byte"`
	Idle      time.Duration `yaml:"idle"`
}

// Compaction says when and how history is summarised.
type Compaction struct {
	Auto             bool     `yaml:"auto"`
	Prune            bool     `yaml:"prune"`
	Reserve          int      `yaml:"reserve"`
	TailTurns        int      `yaml:"tail_turns"`
	Model            string   `yaml:"model"`
	OverflowPatterns []string `yaml:"overflow_patterns"`
}

// ToolOutput bounds what one call puts into the conversation.
type ToolOutput struct {
	MaxLines int `yaml:"max_lines"`
	MaxBytes int `yaml:"max_bytes"`
}

// Provider is where models are.
type Provider struct {
	ID        string            `yaml:"id"`
	Type      string            `yaml:"type" oneof:"openai openai-compatible anthropic"`
	API       string            `yaml:"api" oneof:"chat responses"`
	BaseURL   string            `yaml:"base_url"`
	APIKey    string            `yaml:"api_key" secret:"true"`
	Headers   map[string]string `yaml:"headers" secret:"true"`
	Reasoning Reasoning         `yaml:"reasoning"`
	Models    []Model           `yaml:"models"`
	// Err is an {env:NAME} or {file:path} of this entry that cannot be
	// replaced. It counts only if the provider is used.
	Err error `yaml:"-"`
}

// Reasoning is a provider's habit; nil leaves it to the provider's type.
type Reasoning struct {
	Replay    *bool `yaml:"replay"`
	ThinkTags *bool `yaml:"think_tags"`
}

// Model is what the user knows of a model; zero values are unknown.
type Model struct {
	ID       string    `yaml:"id"`
	Context  int64     `yaml:"context"`
	Output   int64     `yaml:"output"`
	Cost     *Cost     `yaml:"cost"`
	Input    []string  `yaml:"input"`
	Variants []Variant `yaml:"variants"`
}

// Cost is USD per million tokens; nil is unknown.
type Cost struct {
	Input      *float64 `yaml:"input"`
	Output     *float64 `yaml:"output"`
	CacheRead  *float64 `yaml:"cache_read"`
	CacheWrite *float64 `yaml:"cache_write"`
}

// Variant is a named set of request options.
type Variant struct {
	Name    string         `yaml:"name"`
	Options map[string]any `yaml:"options"`
}

// Agent is an agent as YAML has it, in config files and in front matter.
type Agent struct {
	Name        string   `yaml:"name"`
	Mode        string   `yaml:"mode" oneof:"primary subagent all"`
	Description string   `yaml:"description"`
	Prompt      string   `yaml:"prompt"`
	Model       string   `yaml:"model"`
	Variant     string   `yaml:"variant"`
	Steps       int      `yaml:"steps"`
	Temperature *float64 `yaml:"temperature"`
	TopP        *float64 `yaml:"top_p"`
	Hidden      bool     `yaml:"hidden"`
	Disable     bool     `yaml:"disable"`
	Permission  []Rule   `yaml:"permission" merge:"append"`
}

// Command is a slash command as YAML has it.
type Command struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Template    string `yaml:"template"`
	Agent       string `yaml:"agent"`
	Model       string `yaml:"model"`
	Variant     string `yaml:"variant"`
	Subtask     *bool  `yaml:"subtask"`
}

// MCP is a server of tools: a command or a URL.
type MCP struct {
	Name     string            `yaml:"name"`
	Command  []string          `yaml:"command"`
	Env      []string          `yaml:"env" secret:"true"` // KEY=value
	URL      string            `yaml:"url"`
	Headers  map[string]string `yaml:"headers" secret:"true"`
	Timeout  time.Duration     `yaml:"timeout"`
	Required bool              `yaml:"required"`
	Enabled  *bool             `yaml:"enabled"` // nil is true
}

// Reference is a folder outside the project that prompts may name.
type Reference struct {
	Name string `yaml:"name"`
	Path string `yaml:"path"`
}

// Hook is a program that looks at, or changes, what happens.
type Hook struct {
	Event   string        `yaml:"event" oneof:"chat.message tool.before tool.after text.complete turn.close"`
	Match   string        `yaml:"match"`
	Command []string      `yaml:"command"`
	Timeout time.Duration `yaml:"timeout"`
}

// Rule is a permission rule, written {allow: "bash:git *"}.
type Rule struct {
	session.Rule
	// Layer is where it comes from; project rules stand above agents' and
	// only tighten unless the project is trusted.
	Layer Layer
}

// UnmarshalYAML reads {action: "permission:pattern"}.
func (r *Rule) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return fmt.Errorf("a rule is one of allow, ask, deny with \"permission:pattern\"")
	}
	rule, err := ParseRule(session.Action(n.Content[0].Value), n.Content[1].Value)
	r.Rule = rule
	return err
}

// ParseRule reads "permission:pattern"; without a colon the pattern is "*".
func ParseRule(action session.Action, text string) (session.Rule, error) {
	if action != session.Allow && action != session.Ask && action != session.Deny {
		return session.Rule{}, fmt.Errorf("action %q is none of allow, ask, deny", action)
	}
	permission, pattern, found := strings.Cut(text, ":")
	if !found {
		pattern = "*"
	}
	if permission == "" || pattern == "" {
		return session.Rule{}, fmt.Errorf("rule %q is not of the form permission:pattern", text)
	}
	return session.Rule{Permission: permission, Pattern: pattern, Action: action}, nil
}

// ExpandHome replaces a leading ~/ or $HOME/ in the pattern of a rule about
// paths. Patterns for bash are text and stay.
func ExpandHome(r session.Rule, home string) session.Rule {
	if r.Permission == "bash" || home == "" {
		return r
	}
	for _, prefix := range []string{"~", "$HOME"} {
		rest, ok := strings.CutPrefix(r.Pattern, prefix)
		if ok && (rest == "" || rest[0] == '/') {
			r.Pattern = home + rest
		}
	}
	return r
}

// Rules are the permission rules of the user's layers and of the project's,
// each in order.
func (c *Config) Rules() (user, project []session.Rule) {
	for _, r := range c.Permission {
		if r.Layer == LayerProject {
			project = append(project, r.Rule)
		} else {
			user = append(user, r.Rule)
		}
	}
	return user, project
}

// Error is what is wrong with the configuration, where, and what to do.
type Error struct {
	File    string // empty for environment and flags
	Line    int    // 0 when the file as a whole is meant
	Key     string
	Message string
	Hint    string // may be empty
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		b.WriteString(": ")
	}
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Notice is a remark about a file that was left out, in whole or in part.
type Notice struct {
	File string
	Line int // 0 when unknown
	Text string
}

func (n Notice) String() string {
	if n.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Text)
	}
	return n.File + ": " + n.Text
}
