package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"rally/internal/tools"
)

// Server is one entry of the configuration: either Command or URL is set.
type Server struct {
	Name    string
	Command []string
	Env     []string // KEY=value, above Options.Environ
	URL     string
	Headers map[string]string
	// Timeout is how long it may take to start and list what it offers; 0
	// means 5 s. A call may be silent for it, too, but at least for 2 m.
	Timeout  time.Duration
	Required bool
	Enabled  bool
}

const (
	defaultTimeout = 5 * time.Second
	minSilence     = 2 * time.Minute // of a call
)

// Options are what all servers share.
type Options struct {
	Dir     string   // where programs run
	Environ []string // of programs, without provider keys
	// Client is the way to servers with a URL; nil means the default one. Its
	// Timeout is not used.
	Client *http.Client
	// Reserved are names that no tool may get: those of the built-in tools.
	Reserved []string
	Version  string // of rally, told to servers
	// Notice gets one line for each thing that is missing; nil drops them.
	// It is called from one goroutine at a time.
	Notice func(string)
	Now    func() time.Time // nil: Status has no times
}

// RequiredError is that a server is missing without which a run must not begin.
type RequiredError struct {
	Server string
	Err    error
}

// Error implements error.
func (e *RequiredError) Error() string {
	return fmt.Sprintf("MCP server %q is required, but %v", e.Server, e.Err)
}

// Unwrap gives the cause.
func (e *RequiredError) Unwrap() error { return e.Err }

// Set is the connected servers of a run. It is safe for concurrent use.
type Set struct {
	opts    Options
	servers []*server // in the order of the configuration

	mu      sync.Mutex
	tools   []tools.Tool // sorted by name
	prompts []Prompt
	said    map[string]bool // notices, each once
}

// Start starts all enabled servers at the same time and returns when each of
// them is connected or has failed, which costs no more than the longest
// timeout. A server that is missing is a notice; a required one makes Start
// fail with a *RequiredError, and the end of ctx with its error: nothing is
// left running then.
//
// Close must be called on the set.
func Start(ctx context.Context, servers []Server, o Options) (*Set, error) {
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	s := &Set{opts: o, said: map[string]bool{}}
	for _, conf := range servers {
		s.servers = append(s.servers, newServer(conf, &s.opts))
	}
	var wg sync.WaitGroup
	for _, one := range s.servers {
		if one.conf.Enabled {
			wg.Go(func() { one.start(ctx) })
		}
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		s.Close()
		return nil, err
	}
	for _, one := range s.servers {
		if one.err == nil {
			continue
		}
		if one.conf.Required {
			s.Close()
			return nil, &RequiredError{Server: one.conf.Name, Err: one.err}
		}
		s.notice("MCP server %q is left out: %v", one.conf.Name, one.err)
	}
	s.build()
	return s, nil
}

// Close ends all servers and returns when no process of theirs lives: stdin is
// closed, half a second later TERM, a second later KILL. It may be called
// twice.
func (s *Set) Close() {
	var wg sync.WaitGroup
	for _, one := range s.servers {
		wg.Go(one.close)
	}
	wg.Wait()
}

// Tools are those of all servers, sorted by name. They stay as they are until
// Refresh, whatever the servers do.
func (s *Set) Tools() []tools.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tools)
}

// Refresh asks those servers again that said their lists have changed, or that
// were started again. It is called between turns, so that all steps of a turn
// have the same tools.
func (s *Set) Refresh(ctx context.Context) {
	var wg sync.WaitGroup
	for _, one := range s.servers {
		if one.conf.Enabled {
			wg.Go(func() { one.refresh(ctx) })
		}
	}
	wg.Wait()
	s.build()
}

// Instruction is what a server says about how to use it.
type Instruction struct {
	Server string
	Text   string
}

// Instructions are those of the servers that have some, in their order.
func (s *Set) Instructions() []Instruction {
	var out []Instruction
	for _, one := range s.servers {
		if text := strings.TrimSpace(one.offered().instructions); text != "" {
			out = append(out, Instruction{Server: one.conf.Name, Text: text})
		}
	}
	return out
}

// build makes tools and prompts of what the servers offer.
func (s *Set) build() {
	taken := names{}
	for _, name := range s.opts.Reserved {
		taken[name] = true
	}
	var list []tools.Tool
	resources := false
	for _, one := range s.servers {
		offer := one.offered()
		resources = resources || offer.resources
		for _, t := range offer.tools {
			made, err := newTool(one, t, taken)
			if err != nil {
				s.notice("tool %q of MCP server %q is left out: %v", t.Name, one.conf.Name, err)
				continue
			}
			list = append(list, made)
		}
	}
	if resources {
		for _, t := range []tools.Tool{listResources{s}, readResource{s}} {
			if !taken[t.Name()] {
				list = append(list, t)
			}
		}
	}
	slices.SortFunc(list, func(a, b tools.Tool) int { return strings.Compare(a.Name(), b.Name()) })
	prompts := s.findPrompts()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.prompts = list, prompts
}

// find is the server of that name.
func (s *Set) find(name string) (*server, error) {
	var known []string
	for _, one := range s.servers {
		if one.conf.Name == name && one.conf.Enabled {
			return one, nil
		}
		if one.conf.Enabled {
			known = append(known, one.conf.Name)
		}
	}
	if len(known) == 0 {
		return nil, tell("There is no MCP server %q, nor any other.", name)
	}
	return nil, tell("There is no MCP server %q. There are: %s.", name, strings.Join(known, ", "))
}

func (s *Set) notice(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.Notice != nil && !s.said[text] {
		s.said[text] = true
		s.opts.Notice(text)
	}
}

// told is an error whose text is prose for the model.
type told string

// Error implements error.
func (t told) Error() string { return string(t) }

func tell(format string, args ...any) error { return told(fmt.Sprintf(format, args...)) }
