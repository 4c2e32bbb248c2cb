package main

import (
	"slices"
	"strings"

	"rally/internal/config"
	"rally/internal/session"
	"rally/internal/session/prompt"
)

// found is what people keep in files beside the configuration, merged with
// what is built in.
type found struct {
	agents       []session.Agent
	instructions []prompt.Instruction
	skills       []session.Skill
	references   []session.Reference
	notices      []config.Notice
}

// discover reads agents, instructions, skills and references. open are the
// folders outside the project that any agent may read.
func discover(cfg *config.Config, open ...string) found {
	set := cfg.FindAgents()
	out := found{agents: mergeAgents(prompt.Agents(open...), set), notices: set.Notices, references: cfg.FindReferences()}
	files, notices := cfg.FindInstructions()
	for _, f := range files {
		out.instructions = append(out.instructions, prompt.Instruction{Path: f.Path, Text: f.Text})
	}
	out.notices = append(out.notices, notices...)
	out.skills, notices = cfg.FindSkills()
	out.notices = append(out.notices, notices...)
	return out
}

// mergeAgents lays the user's and project's agents over the built-in ones.
func mergeAgents(builtin []session.Agent, set config.AgentSet) []session.Agent {
	agents := slices.Clone(builtin)
	for _, a := range set.List {
		i := slices.IndexFunc(agents, func(b session.Agent) bool { return b.Name == a.Name })
		if i >= 0 {
			agents[i] = config.MergeAgent(agents[i], a)
			continue
		}
		if a.Mode == "" {
			a.Mode = session.ModeAll
		}
		agents = append(agents, a)
	}
	return slices.DeleteFunc(agents, func(a session.Agent) bool { return slices.Contains(set.Disabled, a.Name) })
}

// visible lists the agents that people may name, by name.
func (f *found) visible() []session.Agent {
	out := slices.DeleteFunc(slices.Clone(f.agents), func(a session.Agent) bool { return a.Hidden })
	slices.SortFunc(out, func(a, b session.Agent) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// agent finds one by name.
func (f *found) agent(name string) (session.Agent, error) {
	i := slices.IndexFunc(f.agents, func(a session.Agent) bool { return a.Name == name })
	if i >= 0 {
		return f.agents[i], nil
	}
	var names []string
	for _, a := range f.visible() {
		names = append(names, a.Name)
	}
	return session.Agent{}, usagef(didYouMean(config.Near(name, names), "the agents are "+strings.Join(names, ", ")), "there is no agent %q", name)
}

// context is loop.Options.Context. The files were read when the process
// began: every step of a turn sends the same.
func (f *found) context(string, string) prompt.Context {
	return prompt.Context{Instructions: f.instructions, Skills: f.skills, References: f.references}
}
