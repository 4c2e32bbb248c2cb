package mcp

import (
	"context"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"rally/internal/session"
)

// Prompt is a prompt of a server, which people run as a command.
type Prompt struct {
	Name        string // server:prompt, cleaned
	Server      string
	Description string
	Arguments   []Argument

	remote string
}

// Argument is one argument of a prompt.
type Argument struct {
	Name        string
	Description string
	Required    bool
}

// Prompts are those of all servers, sorted by name.
func (s *Set) Prompts() []Prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.prompts)
}

// findPrompts lists what the servers offered; of two with one name the first
// counts.
func (s *Set) findPrompts() []Prompt {
	var out []Prompt
	for _, one := range s.servers {
		for _, p := range one.offered().prompts {
			name := cleanName(one.conf.Name) + ":" + cleanName(p.Name)
			if p.Name == "" || slices.ContainsFunc(out, func(o Prompt) bool { return o.Name == name }) {
				continue
			}
			made := Prompt{Name: name, Server: one.conf.Name, Description: firstSet(p.Description, p.Title), remote: p.Name}
			for _, a := range p.Arguments {
				if a != nil {
					made.Arguments = append(made.Arguments, Argument{a.Name, firstSet(a.Description, a.Title), a.Required})
				}
			}
			out = append(out, made)
		}
	}
	slices.SortFunc(out, func(a, b Prompt) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Prompt asks the server for a prompt, with arguments by position: the last
// one that the prompt has takes what is left. A missing required argument is
// an error that names all of them.
func (s *Set) Prompt(ctx context.Context, name string, args []string) (text string, files []*session.File, err error) {
	all := s.Prompts()
	i := slices.IndexFunc(all, func(p Prompt) bool { return p.Name == name })
	if i < 0 {
		return "", nil, tell("There is no prompt %q of an MCP server.", name)
	}
	p := all[i]
	values, err := p.fill(args)
	if err != nil {
		return "", nil, err
	}
	one, err := s.find(p.Server)
	if err != nil {
		return "", nil, err
	}
	r, err := ask(ctx, one, func(ctx context.Context, l *link) (*sdk.GetPromptResult, error) {
		return l.session.GetPrompt(ctx, &sdk.GetPromptParams{Name: p.remote, Arguments: values})
	})
	if err != nil {
		return "", nil, err
	}
	var out content
	for _, m := range r.Messages {
		if m != nil {
			out.add(m.Content)
		}
	}
	out.omitted()
	return strings.Join(out.texts, "\n"), out.files, nil
}

// fill gives each argument its value.
func (p Prompt) fill(args []string) (map[string]string, error) {
	var usage []string
	for _, a := range p.Arguments {
		if a.Required {
			usage = append(usage, a.Name)
		} else {
			usage = append(usage, "["+a.Name+"]")
		}
	}
	out := map[string]string{}
	for i, a := range p.Arguments {
		switch {
		case i >= len(args):
			if a.Required {
				return nil, tell("The prompt %s needs the argument %q: %s %s", p.Name, a.Name, p.Name, strings.Join(usage, " "))
			}
		case i == len(p.Arguments)-1:
			out[a.Name] = strings.Join(args[i:], " ")
		default:
			out[a.Name] = args[i]
		}
	}
	return out, nil
}
