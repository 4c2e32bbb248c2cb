package config

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"rally/internal/session"
)

// FindCommands reads the slash commands of files and config; config stands
// above files. Those of an untrusted project are not Trusted.
func (c *Config) FindCommands() ([]session.Command, []Notice) {
	f := c.find([]string{"command", "commands"}, markdown)
	var list []session.Command
	name := func(c session.Command) string { return c.Name }
	for _, file := range f.files {
		node, body, err := front(file.text, file.path)
		if err != nil {
			f.problem(file.path, err)
			continue
		}
		cmd := session.Command{
			Name: file.name, Template: body, Source: file.path, Trusted: !file.project || c.Trusted,
			Description: frontText(node, "description"), Agent: frontText(node, "agent"),
			Model: f.commandModel(file, node),
		}
		if v := frontText(node, "subtask"); v == "true" || v == "false" {
			on := v == "true"
			cmd.Subtask = &on
		}
		list = put(list, cmd, name)
	}
	for i, in := range c.Commands {
		origin := c.origins[entries(c.merged, "commands")[i]]
		if t := value(entries(c.merged, "commands")[i], "template"); t != nil {
			origin = c.origins[t]
		}
		cmd := session.Command{
			Name: in.Name, Description: in.Description, Template: in.Template, Agent: in.Agent, Subtask: in.Subtask,
			Source: origin.File, Trusted: origin.Layer != LayerProject || c.Trusted,
		}
		if m, err := session.ParseModel(in.Model); err == nil {
			cmd.Model = m
			cmd.Model.Variant = in.Variant
		}
		list = put(list, cmd, name)
	}
	return list, f.notices
}

func (f *finder) commandModel(file found, node *yaml.Node) session.Model {
	text := frontText(node, "model")
	if text == "" || text == "inherit" {
		return session.Model{}
	}
	m, err := session.ParseModel(text)
	if err != nil {
		f.note(file.path, value(node, "model").Line, fmt.Sprintf("model %q is not of the form provider/model and is ignored", text))
		return session.Model{}
	}
	m.Variant = frontText(node, "variant")
	return m
}

func frontText(node *yaml.Node, key string) string {
	if node == nil {
		return ""
	}
	return text(node, key)
}

// FindSkills reads the skills of the user and the project: folders with a
// SKILL.md. The nearest of a name wins.
func (c *Config) FindSkills() ([]session.Skill, []Notice) {
	f := c.find([]string{"skill", "skills"}, func(base string) bool { return base == "SKILL.md" })
	var list []session.Skill
	for _, file := range f.files {
		node, _, err := front(file.text, file.path)
		if err != nil {
			f.problem(file.path, err)
			continue
		}
		name := frontText(node, "name")
		if name == "" {
			name = path.Base(path.Dir(file.name))
		}
		if name == "." || name == "/" {
			f.note(file.path, 0, "the skill has no name")
			continue
		}
		skill := session.Skill{Name: name, Description: frontText(node, "description"), Dir: filepath.Dir(file.path), File: file.path}
		list = put(list, skill, func(s session.Skill) string { return s.Name })
	}
	return list, f.notices
}

// FindReferences are the configured folders, with absolute paths.
func (c *Config) FindReferences() []session.Reference {
	var out []session.Reference
	for i, r := range c.References {
		origin := c.origins[value(entries(c.merged, "references")[i], "path")]
		out = append(out, session.Reference{Name: r.Name, Path: c.named(strings.TrimSuffix(r.Path, "/"), origin)})
	}
	return out
}
