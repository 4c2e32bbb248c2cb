package loop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rally/internal/session"
	"rally/internal/session/permission"
	"rally/internal/tools"
)

// gate decides about calls before any tool code runs (invariant 10). It is
// the only place where rules meet calls, at every depth of child session.
type gate struct {
	rules permission.Ruleset
	// people are the rules without the agent's own. They decide about tasks for
	// agents that the user named: an agent's own rules say whom it may call by
	// itself.
	people permission.Ruleset
	named  []string
	env    *tools.Env
	onAsk  OnAsk
	keep   bool // go on after a refusal that a person might not have given
}

// hidden reports whether a tool is not even offered.
func (g *gate) hidden(tool string) bool {
	if tool == taskName && len(g.named) > 0 {
		return permission.Hidden(g.people, tool)
	}
	return permission.Hidden(g.rules, tool)
}

// allowsLoop reports whether a rule lets a tool repeat the same call.
func (g *gate) allowsLoop(tool string) bool {
	d := permission.Decide(g.rules, permission.Request{Permission: "doom_loop", Patterns: []string{tool}})
	return d.Action == session.Allow
}

// question is one request with the decision on it.
type question struct {
	permission string
	patterns   []string
	decision   permission.Decision
}

// String names what was asked for.
func (q *question) String() string { return q.permission + " " + strings.Join(q.patterns, ", ") }

// refuse decides about a call. nil lets it run; all parts of a call must be
// allowed, and one that is denied refuses the whole.
func (g *gate) refuse(t *turn, part *session.Tool, access []tools.Access) *refusal {
	worst := g.worst(access)
	if worst == nil {
		return nil
	}
	if worst.decision.Action == session.Ask {
		worst.decision.By = session.ByOnAsk
	}
	asked := worst.decision.Action == session.Ask
	allowed := asked && g.onAsk == OnAskAllow
	t.emit(t.session, session.Permission{
		CallID: part.CallID, Tool: part.Tool, Permission: worst.permission, Patterns: worst.patterns,
		Action: map[bool]session.Action{true: session.Allow, false: session.Deny}[allowed],
		Rule:   ruleText(worst.decision.Rule), By: worst.decision.By,
	})
	if allowed {
		return nil
	}
	return g.refusal(t, part, worst, asked)
}

// worst is the question with the strictest answer; nil when all are allowed.
func (g *gate) worst(access []tools.Access) *question {
	var worst *question
	for _, a := range access {
		for _, q := range g.questions(a) {
			if q.decision.Action == session.Allow {
				continue
			}
			if worst == nil || q.decision.Action == session.Deny && worst.decision.Action == session.Ask {
				worst = &q
			}
		}
	}
	return worst
}

func (g *gate) refusal(t *turn, part *session.Tool, q *question, asked bool) *refusal {
	denial := session.Denial{
		SessionID: t.session.ID, CallID: part.CallID, Tool: part.Tool, Permission: q.permission, Patterns: q.patterns,
		Rule: ruleText(q.decision.Rule), By: q.decision.By,
	}
	meta := session.Metadata{}
	meta.Set(session.MetaDenied, denial)
	what := q.String()
	if !asked {
		return &refusal{metadata: meta, text: fmt.Sprintf(
			"This call was refused and nothing of it ran: the rule %q does not allow %s. "+
				"Do not look for a way around the rule: do the task without it, or say what cannot be done.", denial.Rule, what)}
	}
	no := &refusal{metadata: meta, text: fmt.Sprintf(
		"This call was refused and nothing of it ran: %s needs a person's permission, and nobody is here to give it. "+
			"Do the task without it, or say what is needed.", what)}
	if part.Tool == planExit {
		return planned()
	}
	if g.keep {
		return no
	}
	no.now = g.onAsk == OnAskFail
	no.stop = &end{
		reason: session.ReasonRefused,
		err:    session.NewError(session.UnknownError, fmt.Sprintf("%s was refused: it needs permission and nobody was there to give it", what)),
	}
	return no
}

// ruleText is a rule as flags write it; empty where no rule matched.
func ruleText(r session.Rule) string {
	if r == (session.Rule{}) {
		return ""
	}
	return string(r.Action) + ": " + r.String()
}

// questions puts what a call would touch to the rules.
func (g *gate) questions(a tools.Access) []question {
	if a.Script != "" {
		return g.script(a)
	}
	return []question{g.ask(a.Permission, a.Patterns...)}
}

func (g *gate) ask(name string, patterns ...string) question {
	request := permission.Request{Permission: name, Patterns: patterns}
	d := permission.Decide(g.rules, request)
	if d.Action == session.Deny && name == taskName && !slices.ContainsFunc(patterns, func(p string) bool { return !slices.Contains(g.named, p) }) {
		d = permission.Decide(g.people, request)
	}
	return question{permission: name, patterns: patterns, decision: d}
}

// script asks about every command of a shell script, every path outside the
// project, and every file it would write or read by name.
func (g *gate) script(a tools.Access) []question {
	script := permission.Commands(a.Script)
	out := []question{{
		permission: a.Permission, patterns: script.Patterns(), decision: permission.DecideScript(g.rules, script),
	}}
	for _, path := range script.Writes {
		out = append(out, g.path(a.Dir, path, "edit")...)
	}
	for _, path := range script.Paths {
		if !slices.Contains(script.Writes, path) {
			out = append(out, g.path(a.Dir, path, "read")...)
		}
	}
	return out
}

// path asks about a word of a script that names, or may name, a file.
func (g *gate) path(dir, path, permission string) []question {
	place, err := tools.Resolve(g.env, inDir(dir, path))
	if err != nil || harmless(place.Path) {
		return nil // no file has such a name, or there is nothing in it
	}
	info, err := os.Stat(place.Path)
	reads := permission == "read"
	if _, none := os.Stat(filepath.Dir(place.Path)); reads && none != nil {
		return nil // a regular expression, not a path
	}
	var out []question
	if place.External {
		out = append(out, g.ask("external_directory", place.ExternalPattern))
	}
	if !reads || err == nil && info.Mode().IsRegular() {
		out = append(out, g.ask(permission, place.Pattern))
	}
	return out
}

// harmless are devices that hold nothing and keep nothing.
func harmless(path string) bool {
	switch path {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/stdin", "/dev/stdout", "/dev/stderr":
		return true
	}
	return strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// inDir is path as a script in dir means it. It is not cleaned: what ".."
// leads to depends on links.
func inDir(dir, path string) string {
	if filepath.IsAbs(path) || path == "~" || strings.HasPrefix(path, "~/") {
		return path
	}
	return dir + string(filepath.Separator) + path
}
