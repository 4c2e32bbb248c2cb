package mcp

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Status is how one server is doing.
type Status struct {
	Server       string
	Target       string // the command, or the address without what may be secret
	Enabled      bool
	Err          error // why it is missing; nil if it is connected
	Started      time.Duration
	Version      string // what the server calls itself
	Tools        []string
	Prompts      []string
	Resources    []string // one line each
	Instructions string
}

// Status asks the servers for what they offer, in the order of the
// configuration.
func (s *Set) Status(ctx context.Context) []Status {
	out := make([]Status, len(s.servers))
	for i, one := range s.servers {
		out[i] = one.status(ctx)
		for _, t := range s.Tools() {
			if t, ok := t.(tool); ok && t.server == one {
				out[i].Tools = append(out[i].Tools, t.name)
			}
		}
		for _, p := range s.Prompts() {
			if p.Server == one.conf.Name {
				out[i].Prompts = append(out[i].Prompts, p.Name)
			}
		}
	}
	return out
}

func (s *server) status(ctx context.Context) Status {
	out := Status{Server: s.conf.Name, Enabled: s.conf.Enabled, Target: strings.Join(s.conf.Command, " ")}
	if s.conf.URL != "" {
		out.Target = plainURL(s.conf.URL)
	}
	s.state.Lock()
	found := s.offer
	out.Err, out.Started = s.err, s.took
	s.state.Unlock()
	out.Instructions = strings.TrimSpace(found.instructions)
	if found.info != nil {
		out.Version = strings.TrimSpace(found.info.Name + " " + found.info.Version)
	}
	if found.resources && out.Err == nil {
		limit, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		out.Resources, out.Err = s.resources(limit)
		slices.Sort(out.Resources)
	}
	return out
}
