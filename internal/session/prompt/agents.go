package prompt

import (
	_ "embed" // the prompts are .md files beside the code
	"path/filepath"
	"slices"
	"strings"

	"rally/internal/session"
)

var (
	//go:embed ask.md
	askPrompt string
	//go:embed architect.md
	architectPrompt string
	//go:embed explore.md
	explorePrompt string
	//go:embed compaction.md
	compactionPrompt string
	//go:embed title.md
	titlePrompt string
	//go:embed summary.md
	summaryPrompt string
)

// Agents are the built-in agents, in the order of a listing. Their rules come
// on top of the defaults; open are the folders outside the project that the
// defaults open, which agents that begin with "nothing" must open again.
func Agents(open ...string) []session.Agent {
	titleTemperature := 0.5
	return []session.Agent{
		{
			Name: "build", Mode: session.ModePrimary,
			Description: "The default: changes files and runs commands to do the task",
		},
		{
			Name: planAgent, Mode: session.ModePrimary, ReadOnly: true,
			Description: "Studies the task and writes a plan; changes nothing else",
			Rules: slices.Concat(
				rules(session.Deny, "edit"), shellRules(), []session.Rule{rule("task", "general", session.Deny)},
				rules(session.Ask, "plan_exit")),
		},
		{
			Name: "ask", Mode: session.ModePrimary, ReadOnly: true, Prompt: strings.TrimSpace(askPrompt),
			Description: "Answers questions about the project; changes nothing",
			Rules:       readingRules(open),
		},
		{
			Name: "architect", Mode: session.ModePrimary, ReadOnly: true, Prompt: strings.TrimSpace(architectPrompt),
			Description: "Designs a change and its steps; changes nothing",
			Rules:       readingRules(open),
		},
		{
			Name: "general", Mode: session.ModeSubagent,
			Description: "Does a part of a larger task on its own: research or work in several steps. Several can run side by side",
			Rules:       rules(session.Deny, "todowrite"),
		},
		{
			Name: "explore", Mode: session.ModeSubagent, ReadOnly: true, Prompt: strings.TrimSpace(explorePrompt),
			Description: "Finds files and answers questions about the code by searching it, and changes nothing. " +
				"Say how thorough it is to be: quick, medium or very thorough",
			Rules: slices.Concat(readingRules(open), rules(session.Deny, "task", "todowrite", "skill")),
		},
		hidden("compaction", compactionPrompt, nil),
		hidden("title", titlePrompt, &titleTemperature),
		hidden("summary", summaryPrompt, nil),
	}
}

func hidden(name, prompt string, temperature *float64) session.Agent {
	return session.Agent{
		Name: name, Mode: session.ModePrimary, Hidden: true, ReadOnly: true, Prompt: strings.TrimSpace(prompt),
		Temperature: temperature, Rules: rules(session.Deny, "*"),
	}
}

// WithPlanFile lets the plan agent write its plan to file, an absolute path,
// and nothing else; root is the project's. Any other agent comes back as it
// is.
func WithPlanFile(a session.Agent, file, root string) session.Agent {
	if a.Name != planAgent || file == "" {
		return a
	}
	pattern := file
	if rel, err := filepath.Rel(root, file); err == nil {
		pattern = rel // as the tools name what they write
	}
	a.Rules = slices.Concat(a.Rules, []session.Rule{
		rule("edit", filepath.ToSlash(pattern), session.Allow),
		rule("external_directory", filepath.ToSlash(filepath.Join(filepath.Dir(file), "*")), session.Allow),
	})
	return a
}

// readingRules allow what reads and nothing else. A rule that denies all comes
// first, so what the defaults guard is guarded again.
func readingRules(open []string) []session.Rule {
	out := slices.Concat(
		rules(session.Deny, "*"),
		rules(session.Allow, "read", "grep", "glob", "list", "webfetch", "websearch", "skill", "todowrite", StructuredTool),
		[]session.Rule{
			rule("read", "*.env", session.Ask),
			rule("read", "*.env.*", session.Ask),
			rule("read", "*.env.example", session.Allow),
			rule("task", "explore", session.Allow),
		},
		rules(session.Ask, "doom_loop", "external_directory"),
	)
	for _, dir := range open {
		out = append(out, rule("external_directory", dir, session.Allow), rule("external_directory", dir+"/*", session.Allow))
	}
	return append(out, shellRules()...)
}

// Commands that read: they write to no file and start nothing, whatever their
// arguments. Redirects are judged as edits by the gate.
var shellAllowed = []string{
	"basename *", "cat *", "cd *", "cmp *", "comm *", "cut *", "df *", "diff *", "dirname *", "du *", "echo *", "egrep *", "false",
	"fgrep *", "grep *", "head *", "ls *", "nl *", "pwd *", "readlink *", "realpath *", "sort", "sort -n", "sort -r", "sort -u",
	"sort -nr", "sort -rn", "stat *", "tail *", "test *", "tr *", "true", "type *", "uname *", "uniq", "uniq -c", "uniq -d",
	"uniq -u", "wc *", "which *",
}

// Commands that read unless an argument makes them do more.
var shellGuarded = []string{"find *", "rg *"}

// Git commands that read.
var gitAllowed = []string{
	"blame *", "branch", "branch -a", "branch -v", "branch --list *", "branch --show-current", "cat-file *", "describe *", "diff *",
	"log *", "ls-files *", "ls-tree *", "merge-base *", "remote", "remote -v", "rev-list *", "rev-parse *", "shortlog *", "show *",
	"stash list *", "status *", "tag", "tag --list *",
}

// Arguments that make a command write or run something. One that only the
// shell can tell (a variable, a brace expansion) may be any of them.
var shellRefused = []string{
	"find *-delete*", "find *-exec*", "find *-fls*", "find *-fprint*", "find *-ok*", "find *$*", "find *{*",
	"rg *--pre*", "rg *--hostname-bin*", "rg *$*", "rg *{*",
	"git *--ext-diff*", "git *--ou*", "git *$*", "git *{*,*}*",
}

// shellRules let a read-only agent run commands that read.
func shellRules() []session.Rule {
	out := rules(session.Deny, "bash")
	for _, pattern := range slices.Concat(shellAllowed, shellGuarded) {
		out = append(out, rule("bash", pattern, session.Allow))
	}
	for _, pattern := range gitAllowed {
		out = append(out, rule("bash", "git "+pattern, session.Allow), rule("bash", "git --no-pager "+pattern, session.Allow))
	}
	for _, pattern := range shellRefused {
		out = append(out, rule("bash", pattern, session.Deny))
	}
	return out
}

func rule(permission, pattern string, action session.Action) session.Rule {
	return session.Rule{Permission: permission, Pattern: pattern, Action: action}
}

// rules are rules about whole permissions.
func rules(action session.Action, permissions ...string) []session.Rule {
	out := make([]session.Rule, 0, len(permissions))
	for _, p := range permissions {
		out = append(out, rule(p, "*", action))
	}
	return out
}
