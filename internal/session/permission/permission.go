// Package permission decides whether a tool call may run.
//
// It is pure: rules and a request in, a decision out. It opens no file, runs
// nothing and knows no tool. Rules are an ordered list and the last one that
// matches wins; Merge puts the lists of all layers in their order, Decide
// walks them, and Commands reads a shell script into the commands it would
// run, so that a rule speaks of every program and not of the first word.
//
// What it promises: no script is allowed by a rule for one of its parts, and
// what it cannot read is never allowed by a rule for something else. What it
// does not do: look inside the programs that run. docs/permissions.md has the
// threat model.
package permission

import (
	"slices"

	"rally/internal/session"
)

// Request is what a call would touch, under one permission name.
type Request struct {
	Permission string
	Patterns   []string // none means "*": the permission as a whole
}

// Decision is the answer to a Request.
type Decision struct {
	Action session.Action
	// Rule decided; the zero Rule when none matched, which asks.
	Rule session.Rule
	// Pattern is the one of the request that Rule decided.
	Pattern string
	By      session.DecidedBy
}

// Sourced is a rule with what its layer may do.
type Sourced struct {
	session.Rule
	By session.DecidedBy
	// Tighten rules count only where they are stricter than what the rules
	// before them say: a project that nobody trusts may forbid, not permit.
	Tighten bool
}

// Ruleset is all that decides about the calls of one session. The zero value
// asks about everything.
type Ruleset struct {
	Rules []Sourced
	// Guards hold the rules of read-only agents: the session's own and those
	// above it. Each list is judged apart from Rules and the stricter verdict
	// stands, so no layer can loosen them.
	Guards [][]session.Rule
}

// Layers are the lists that make up a Ruleset, lowest first.
type Layers struct {
	Defaults []session.Rule
	User     []session.Rule
	Agent    []session.Rule
	Project  []session.Rule
	Session  []session.Rule // from flags; stored with the session
	// TrustProject lets Project loosen what the layers below say.
	TrustProject bool
	// ReadOnly says the agent's rules stand whatever the other layers allow.
	ReadOnly bool
	// Above are the rules of the read-only agents that started this session,
	// directly or through others; they stand likewise.
	Above [][]session.Rule
}

// Merge orders the layers. Denies of the session are repeated last, since a
// flag that denies always wins. A read-only agent's rules are also a guard,
// and stand below the user's: its own `allow` must not undo a user's `deny`.
func Merge(l Layers) Ruleset {
	out := Ruleset{Guards: slices.Clone(l.Above)}
	add := func(rules []session.Rule, by session.DecidedBy, tighten bool) {
		for _, r := range rules {
			out.Rules = append(out.Rules, Sourced{Rule: r, By: by, Tighten: tighten})
		}
	}
	add(l.Defaults, session.ByRule, false)
	if l.ReadOnly {
		out.Guards = append(out.Guards, l.Agent)
		add(l.Agent, session.ByRule, false)
		add(l.User, session.ByRule, false)
	} else {
		add(l.User, session.ByRule, false)
		add(l.Agent, session.ByRule, false)
	}
	add(l.Project, session.ByRule, !l.TrustProject)
	add(l.Session, session.ByFlag, false)
	for _, r := range l.Session {
		if r.Action == session.Deny {
			add([]session.Rule{r}, session.ByFlag, false)
		}
	}
	return out
}

// Decide answers a request: one denied pattern denies it, all allowed allow
// it, anything else asks.
func Decide(rules Ruleset, request Request) Decision {
	patterns := request.Patterns
	if len(patterns) == 0 {
		patterns = []string{"*"}
	}
	var worst Decision
	for i, pattern := range patterns {
		d := rules.one(request.Permission, pattern, anyRule)
		if i == 0 || stricter(d.Action, worst.Action) {
			worst = d
		}
	}
	return worst
}

// one decides a single pattern by the rules that count says matter.
func (r Ruleset) one(permission, pattern string, count func(session.Rule) bool) Decision {
	out := Decision{Action: session.Ask, Pattern: pattern, By: session.ByRule}
	for _, rule := range r.Rules {
		if !matches(rule.Rule, permission, pattern) || !count(rule.Rule) {
			continue
		}
		if rule.Tighten && !stricter(rule.Action, out.Action) {
			continue
		}
		out.Action, out.Rule, out.By = rule.Action, rule.Rule, rule.By
	}
	for _, list := range r.Guards {
		guard := Decision{Action: session.Allow, Pattern: pattern, By: session.ByRule}
		for _, rule := range list {
			if matches(rule, permission, pattern) && count(rule) {
				guard.Action, guard.Rule = rule.Action, rule
			}
		}
		if stricter(guard.Action, out.Action) {
			out = guard
		}
	}
	return out
}

func anyRule(session.Rule) bool { return true }

func matches(rule session.Rule, permission, pattern string) bool {
	return Match(rule.Permission, permission) && Match(rule.Pattern, pattern)
}

// stricter reports whether a forbids more than b. An action that is none of
// the three counts as deny.
func stricter(a, b session.Action) bool { return strictness(a) > strictness(b) }

func strictness(a session.Action) int {
	switch a {
	case session.Allow:
		return 0
	case session.Ask:
		return 1
	case session.Deny:
		return 2
	}
	return 2
}

// ForTool is the permission name that governs a tool: all that write files
// are "edit", all others have their own name.
func ForTool(tool string) string {
	switch tool {
	case "write", "edit", "multiedit", "apply_patch":
		return "edit"
	case "todoread":
		return "todowrite"
	case "bash_output", "bash_kill":
		return "bash"
	}
	return tool
}

// Hidden reports whether a tool is not even offered to the model: the last
// rule that speaks of its permission denies everything.
func Hidden(rules Ruleset, tool string) bool {
	permission := ForTool(tool)
	var last session.Rule
	for _, r := range rules.Rules {
		if Match(r.Permission, permission) && (!r.Tighten || r.Action == session.Deny) {
			last = r.Rule
		}
	}
	return closes(last) || slices.ContainsFunc(rules.Guards, func(list []session.Rule) bool {
		var guard session.Rule
		for _, r := range list {
			if Match(r.Permission, permission) {
				guard = r
			}
		}
		return closes(guard)
	})
}

func closes(r session.Rule) bool { return r.Action == session.Deny && everything(r.Pattern) }

// Defaults are the rules below all others: what happens inside the project is
// allowed; paths outside it, environment files and doom loops ask; what needs
// a person is denied. Folders that rally itself hands to the model (outputs,
// skills, references) are open although they are outside.
func Defaults(open ...string) []session.Rule {
	rules := []session.Rule{
		{Permission: "*", Pattern: "*", Action: session.Allow},
		{Permission: "doom_loop", Pattern: "*", Action: session.Ask},
		{Permission: "external_directory", Pattern: "*", Action: session.Ask},
	}
	for _, dir := range open {
		rules = append(rules,
			session.Rule{Permission: "external_directory", Pattern: dir, Action: session.Allow},
			session.Rule{Permission: "external_directory", Pattern: dir + "/*", Action: session.Allow})
	}
	return append(rules,
		session.Rule{Permission: "question", Pattern: "*", Action: session.Deny},
		session.Rule{Permission: "plan_enter", Pattern: "*", Action: session.Deny},
		session.Rule{Permission: "plan_exit", Pattern: "*", Action: session.Deny},
		session.Rule{Permission: "read", Pattern: "*.env", Action: session.Ask},
		session.Rule{Permission: "read", Pattern: "*.env.*", Action: session.Ask},
		session.Rule{Permission: "read", Pattern: "*.env.example", Action: session.Allow},
	)
}

// Replace puts new flag rules on top of a session's stored ones: stored rules
// of a permission that a new rule names go, the rest stay.
func Replace(stored, flags []session.Rule) []session.Rule {
	named := map[string]bool{}
	for _, r := range flags {
		named[r.Permission] = true
	}
	var out []session.Rule
	for _, r := range stored {
		if !named[r.Permission] {
			out = append(out, r)
		}
	}
	return append(out, flags...)
}
