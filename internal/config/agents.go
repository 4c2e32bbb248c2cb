package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"rally/internal/session"
)

// AgentSet is what files and config say of agents. An entry may complete a
// built-in agent of its name (MergeAgent), so its Mode is empty when not given.
type AgentSet struct {
	List     []session.Agent
	Disabled []string
	Notices  []Notice
}

// FindAgents reads the agents of files and config; config stands above files.
func (c *Config) FindAgents() AgentSet {
	f := c.find([]string{"agent", "agents"}, markdown)
	set := AgentSet{}
	for _, file := range f.files {
		node, body, err := front(file.text, file.path)
		if err != nil {
			f.problem(file.path, err)
			continue
		}
		a, disabled, err := f.agent(file, node, body)
		if err != nil {
			f.problem(file.path, err)
			continue
		}
		set.add(a, disabled)
	}
	for _, a := range c.Agents {
		set.add(a.session(), a.Disable)
	}
	set.Notices = f.notices
	return set
}

// add puts an agent over one of its name. Rules are appended, so that a
// project cannot take away what the user's agent forbids.
func (s *AgentSet) add(a session.Agent, disabled bool) {
	s.Disabled = slices.DeleteFunc(s.Disabled, func(n string) bool { return n == a.Name })
	if disabled {
		s.Disabled = append(s.Disabled, a.Name)
	}
	for i, old := range s.List {
		if old.Name == a.Name {
			s.List[i] = MergeAgent(old, a)
			return
		}
	}
	s.List = append(s.List, a)
}

// MergeAgent lays over on base: what over gives replaces, its rules follow
// base's.
func MergeAgent(base, over session.Agent) session.Agent {
	out := base
	set(&out.Mode, over.Mode)
	set(&out.Description, over.Description)
	set(&out.Prompt, over.Prompt)
	set(&out.Model, over.Model)
	set(&out.Steps, over.Steps)
	set(&out.Temperature, over.Temperature)
	set(&out.TopP, over.TopP)
	set(&out.Source, over.Source)
	out.Rules = slices.Concat(base.Rules, over.Rules)
	out.Hidden = base.Hidden || over.Hidden
	out.ReadOnly = base.ReadOnly || over.ReadOnly
	return out
}

func set[T comparable](dst *T, v T) {
	var zero T
	if v != zero {
		*dst = v
	}
}

// session is the agent of a config entry. Its mode stays empty when not
// given, so that it does not change a built-in agent's.
func (a Agent) session() session.Agent {
	out := session.Agent{
		Name: a.Name, Mode: session.AgentMode(a.Mode), Description: a.Description, Prompt: a.Prompt,
		Steps: a.Steps, Temperature: a.Temperature, TopP: a.TopP, Hidden: a.Hidden,
	}
	if m, err := session.ParseModel(a.Model); err == nil {
		out.Model = m
		out.Model.Variant = a.Variant
	}
	for _, r := range a.Permission {
		out.Rules = append(out.Rules, r.Rule)
	}
	return out
}

// agent reads the front matter of rally, OpenCode and Claude Code alike.
// Unknown keys are theirs to know.
func (f *finder) agent(file found, node *yaml.Node, body string) (session.Agent, bool, error) {
	in := Agent{Name: file.name}
	if node != nil {
		if err := f.agentKeys(file, node, &in); err != nil {
			return session.Agent{}, false, err
		}
	}
	if body != "" {
		in.Prompt = body
	}
	out := in.session()
	out.Source = file.path
	rules, err := f.agentRules(file, node)
	if err != nil {
		return session.Agent{}, false, err
	}
	for _, r := range rules {
		if file.project && !f.c.Trusted && r.Action != session.Deny {
			f.note(file.path, node.Line, fmt.Sprintf("permission {%s: %s} was held back: %s", r.Action, r, whyLoosen))
			continue
		}
		out.Rules = append(out.Rules, ExpandHome(r, f.c.opts.Home))
	}
	return out, in.Disable, nil
}

func (f *finder) agentKeys(file found, node *yaml.Node, in *Agent) error {
	known := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, child := node.Content[i], node.Content[i+1]
		switch key.Value {
		case "permission", "tools":
			continue
		case "maxSteps":
			key = &yaml.Node{Kind: yaml.ScalarNode, Value: "steps", Line: key.Line}
		case "model":
			if _, err := session.ParseModel(child.Value); err != nil {
				if child.Value != "inherit" {
					f.note(file.path, child.Line, fmt.Sprintf("model %q is not of the form provider/model and is ignored", child.Value))
				}
				continue
			}
		}
		if fieldOf(reflect.TypeFor[Agent](), key.Value) != nil {
			known.Content = append(known.Content, key, child)
		}
	}
	if err := check(known, reflect.TypeFor[Agent](), file.path, ""); err != nil {
		return err
	}
	name := in.Name
	if err := known.Decode(in); err != nil {
		return err
	}
	if in.Name == "" {
		in.Name = name
	}
	return nil
}

// agentRules are the rules of `permission` in any of its forms, after those
// that follow from `tools`.
func (f *finder) agentRules(file found, node *yaml.Node) ([]session.Rule, error) {
	if node == nil {
		return nil, nil
	}
	rules := toolRules(value(node, "tools"))
	n := value(node, "permission")
	if n == nil {
		return rules, nil
	}
	wrong := func(n *yaml.Node, err error) error {
		return &Error{File: file.path, Line: n.Line, Key: "permission", Message: err.Error()}
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			var r Rule
			if err := r.UnmarshalYAML(item); err != nil {
				return nil, wrong(item, err)
			}
			rules = append(rules, r.Rule)
		}
		return rules, nil
	}
	more, err := permissionMap(n)
	if err != nil {
		return nil, wrong(n, err)
	}
	return append(rules, more...), nil
}

// permissionMap reads OpenCode's form: an action, or name → action, or name →
// {pattern → action}, in the order of the file.
func permissionMap(n *yaml.Node) ([]session.Rule, error) {
	if n.Kind == yaml.ScalarNode {
		r, err := ParseRule(session.Action(n.Value), "*")
		return []session.Rule{r}, err
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("must be an action, a map or a list of rules")
	}
	var out []session.Rule
	add := func(name, pattern, action string) error {
		r, err := ParseRule(session.Action(action), name+":"+pattern)
		out = append(out, r)
		return err
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i].Value, n.Content[i+1]
		if child.Kind == yaml.ScalarNode {
			if err := add(name, "*", child.Value); err != nil {
				return nil, err
			}
			continue
		}
		for j := 0; j+1 < len(child.Content); j += 2 {
			if err := add(name, child.Content[j].Value, child.Content[j+1].Value); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// toolRules turns `tools` into denies: OpenCode's map of tools that are off,
// or Claude Code's list of the only ones that are on. They never allow: an
// agent that lists Bash does not undo the user's rules for it.
func toolRules(n *yaml.Node) []session.Rule {
	deny := func(name string) session.Rule {
		return session.Rule{Permission: name, Pattern: "*", Action: session.Deny}
	}
	var out []session.Rule
	if n == nil {
		return nil
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i+1].Value == "false" {
				out = append(out, deny(permissionOf(n.Content[i].Value)))
			}
		}
		return out
	}
	var on []string
	for _, item := range n.Content {
		on = append(on, permissionOf(item.Value))
	}
	if n.Kind == yaml.ScalarNode {
		for _, name := range strings.Split(n.Value, ",") {
			on = append(on, permissionOf(name))
		}
	}
	if len(on) == 0 || slices.Contains(on, "*") || slices.Contains(on, "") {
		return nil
	}
	for _, name := range []string{"read", "edit", "bash", "glob", "grep", "list", "task", "todowrite", "webfetch", "websearch", "skill"} {
		if !slices.Contains(on, name) {
			out = append(out, deny(name))
		}
	}
	return out
}

// permissionOf is the permission name of a tool in any dialect.
func permissionOf(tool string) string {
	name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(tool)), "(")
	switch name {
	case "write", "multiedit", "apply_patch", "notebookedit", "patch":
		return "edit"
	case "ls":
		return "list"
	case "agent":
		return "task"
	case "todoread":
		return "todowrite"
	case "bashoutput", "killbash", "killshell", "bash_output", "bash_kill":
		return "bash"
	}
	return strings.TrimPrefix(name, "mcp__")
}
