package tools

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Options are what the set of tools depends on.
type Options struct {
	// AllowPrivate lets webfetch reach this machine, private nets and
	// link-local addresses.
	AllowPrivate bool
	// RootCAs are trusted by webfetch; nil means the system's.
	RootCAs *x509.CertPool
}

// Registry holds the built-in tools. It is immutable.
type Registry struct {
	tools []Tool // sorted by name
}

// New returns all built-in tools.
func New(o Options) Registry {
	all := []Tool{
		newApplyPatch(), newBash(), newBashKill(), newBashOutput(), newEdit(), newGlob(), newGrep(), newInvalid(), newList(),
		newMultiEdit(), newPlanExit(), newQuestion(), newRead(), newTodoRead(), newTodoWrite(), newWebFetch(o), newWrite(),
	}
	slices.SortFunc(all, func(a, b Tool) int { return strings.Compare(a.Name(), b.Name()) })
	return Registry{tools: all}
}

// All lists every tool, sorted by name, those that are not offered included.
func (r Registry) All() []Tool { return slices.Clone(r.tools) }

// Offered lists the tools a model is shown by default, sorted by name.
//
// Not among them: question (nobody is there to answer), invalid (a place for
// broken calls to land), multiedit (edit calls of one step do the same),
// list (read on a folder and glob do the same). apply_patch is offered to the
// models that were trained on it, beside edit and write. Each of them still
// works when it is called.
func (r Registry) Offered(model string) []Tool {
	return slices.DeleteFunc(r.All(), func(t Tool) bool {
		switch t.Name() {
		case "question", "invalid", "multiedit", "list":
			return true
		case "apply_patch":
			return !patches(model)
		}
		return false
	})
}

// patches reports whether a model writes patches better than edits. It is a
// guess by name, as OpenCode makes it.
func patches(model string) bool {
	m := strings.ToLower(model)
	return strings.Contains(m, "gpt-") && !strings.Contains(m, "oss") && !strings.Contains(m, "gpt-4") && !strings.Contains(m, "gpt-3")
}

// Lookup finds a tool by name. Models write names in odd case: a name that
// differs in nothing else is taken.
func (r Registry) Lookup(name string) (Tool, bool) {
	name = strings.TrimSpace(name)
	for _, t := range r.tools {
		if t.Name() == name {
			return t, true
		}
	}
	for _, t := range r.tools {
		if strings.EqualFold(t.Name(), name) {
			return t, true
		}
	}
	return nil, false
}

// tool is a Tool whose arguments are decoded into A.
type tool[A any] struct {
	name, text, schema string
	access             func(env *Env, args A) ([]Access, error)
	run                func(ctx context.Context, env *Env, args A) (Result, error)
}

// Name implements Tool.
func (t tool[A]) Name() string { return t.name }

// Description implements Tool.
func (t tool[A]) Description() string { return strings.TrimSpace(t.text) }

// Schema implements Tool.
func (t tool[A]) Schema() json.RawMessage { return json.RawMessage(t.schema) }

// Access implements Tool.
func (t tool[A]) Access(env *Env, args json.RawMessage) ([]Access, error) {
	a, err := t.decode(args)
	if err != nil {
		return nil, err
	}
	return t.access(env, a)
}

// Run implements Tool.
func (t tool[A]) Run(ctx context.Context, env *Env, args json.RawMessage) (Result, error) {
	a, err := t.decode(args)
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	return t.run(ctx, env, a)
}

func (t tool[A]) decode(args json.RawMessage) (A, error) {
	var a A
	if err := json.Unmarshal(args, &a); err != nil {
		return a, fmt.Errorf("decode the arguments of %s: %w", t.name, err)
	}
	return a, nil
}

// nothing is the Access of a tool that touches nothing.
func nothing[A any](*Env, A) ([]Access, error) { return nil, nil }

// told is an error whose text is prose for the model.
type told string

// Error implements error.
func (t told) Error() string { return string(t) }

func tell(format string, args ...any) error { return told(fmt.Sprintf(format, args...)) }
