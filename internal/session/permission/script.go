package permission

import (
	"slices"
	"strings"

	"rally/internal/session"

	"mvdan.cc/sh/v3/syntax"
)

// How a script is read:
//
//  1. It is parsed as bash. What does not parse is unreadable: bash would run
//     the lines before the error all the same.
//  2. A first walk finds variables that may hold anything (see arithmetic.go).
//  3. A second walk takes every simple command, wherever it stands, by its
//     canonical text, its paths and its redirects.
//  4. Programs that start other programs are looked through (wrappers.go);
//     scripts given as text (`sh -c`, `trap`, a here-document) are read alike.
//  5. Whatever cannot be known from the text alone makes the whole script
//     unreadable. The rest is still listed, for rules that deny it.

// Script is what a shell script would run and touch, as far as its text tells.
type Script struct {
	Text string
	// Commands are the simple commands, words joined by one space, quotes
	// removed where they change nothing. Wrappers are there as a whole and
	// again by the command within.
	Commands []string
	// Also are other names of some Commands ("/bin/rm x" is also "rm x");
	// only a rule that denies them counts.
	Also []string
	// Paths are the words that may name files, redirects included. A leading
	// ~ is the caller's to expand; relative ones are meant from the script's
	// directory and must be resolved through links step by step, not cleaned.
	Paths []string
	// Writes are the targets of output redirects. One that cannot be read is
	// there as its source text.
	Writes []string
	// Unreadable says that not all that would run could be told.
	Unreadable bool
}

// maxScript bounds the work that one script may cause.
const maxScript = 64 << 10

// maxDepth bounds scripts within scripts, maxWrappers wrappers of wrappers.
const (
	maxDepth    = 8
	maxWrappers = 16
)

// maxListed bounds the text of all commands: each level of nesting repeats
// the text of those within.
const maxListed = 16 * maxScript

// Commands reads a shell script. It runs nothing and opens nothing.
func Commands(script string) Script {
	// A script within may make a variable doubtful that was passed before, so
	// what the first reading learns of variables counts for the second.
	out, doubtful := Script{}, map[string]bool{}
	for range 2 {
		out = Script{Text: strings.TrimSpace(script)}
		r := &reader{out: &out, listed: new(int), doubtful: doubtful, dirs: []string{""}}
		r.read(script)
	}
	out.Commands = unique(out.Commands)
	out.Also = unique(out.Also)
	out.Paths = unique(out.Paths)
	out.Writes = unique(out.Writes)
	return out
}

// Patterns are what the rules for "bash" are asked about: the commands, or
// the whole text where the script is unreadable or runs nothing.
func (s Script) Patterns() []string {
	if s.Unreadable || len(s.Commands) == 0 {
		return []string{s.Text}
	}
	return s.Commands
}

// DecideScript decides whether the commands of a script may run. Its paths
// are separate requests, which the caller makes once it resolved them.
func DecideScript(rules Ruleset, script Script) Decision {
	const permission = "bash"
	out := Decide(rules, Request{Permission: permission, Patterns: script.Patterns()})
	if script.Unreadable {
		// An `allow` for something else must not carry what cannot be read.
		out = rules.one(permission, script.Text, func(r session.Rule) bool {
			return r.Action != session.Allow || everything(r.Pattern)
		})
	}
	if out.Action == session.Deny {
		return out
	}
	for _, other := range script.Also {
		d := rules.one(permission, other, anyRule)
		if d.Action == session.Deny && !everything(d.Rule.Pattern) {
			return d
		}
	}
	if script.Unreadable {
		for _, command := range script.Commands {
			if d := rules.one(permission, command, anyRule); d.Action == session.Deny {
				return d
			}
		}
	}
	return out
}

func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		old := seen[s]
		seen[s] = true
		return old
	})
}

// reader walks one script. Scripts within it have readers of their own that
// share all but the source.
type reader struct {
	src      string
	out      *Script
	listed   *int // bytes in out.Commands
	doubtful map[string]bool
	dirs     []string // where the script may be, relative to its start
	repeats  bool     // it has loops or functions
	posix    bool     // a shell without bash's own syntax will run it
	depth    int
}

func (r *reader) unreadable() { r.out.Unreadable = true }

// read takes in a script given as text.
func (r *reader) read(src string) {
	if len(src) > maxScript || r.depth > maxDepth || strings.ContainsRune(src, 0) || tooDeep(src) {
		r.unreadable()
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
	if err != nil {
		r.unreadable()
		return
	}
	r.src = src
	syntax.Walk(file, r.survey)
	syntax.Walk(file, r.visit)
}

// inner reads a script that this one holds as text.
func (r *reader) inner(src string, posix bool) {
	sub := *r
	sub.depth++
	sub.posix = posix
	sub.read(src)
	r.dirs, r.repeats = sub.dirs, r.repeats || sub.repeats
}

// tooDeep bounds nesting, so that neither the parser nor a walk can exhaust
// the stack.
func tooDeep(src string) bool {
	const limit = 200
	opens := strings.Count(src, "(") + strings.Count(src, "{") + strings.Count(src, "`")
	if opens < limit {
		return false
	}
	depth, deepest := 0, 0
	for _, c := range src {
		switch c {
		case '(', '{':
			depth++
		case ')', '}':
			depth = max(0, depth-1)
		}
		deepest = max(deepest, depth)
	}
	return deepest >= limit || strings.Count(src, "`") >= 2*limit
}

func (r *reader) visit(node syntax.Node) bool {
	switch n := node.(type) {
	case *syntax.Stmt:
		r.statement(n)
	case *syntax.CmdSubst:
		// Escapes inside backquotes are undone before the text is parsed.
		if n.TempFile || n.ReplyVar || n.Backquotes && strings.Contains(r.slice(n), `\`) {
			r.unreadable()
		}
	case *syntax.CoprocClause:
		// Only before a compound command is the first word a name.
		if _, simple := n.Stmt.Cmd.(*syntax.CallExpr); n.Name != nil && (simple || n.Stmt.Cmd == nil) {
			r.unreadable()
		}
	case *syntax.ParamExp:
		r.parameter(n)
	case *syntax.Assign:
		r.assign(n)
	case *syntax.DeclClause:
		r.declare(n)
	case *syntax.ArithmExp:
		r.arithmetic(n.X)
	case *syntax.ArithmCmd:
		if r.posix { // to others ((rm -f)) is a subshell in a subshell
			r.unreadable()
		}
		r.arithmetic(n.X)
	case *syntax.TestClause:
		if r.posix { // to others [[ a > b ]] writes b
			r.unreadable()
		}
	case *syntax.LetClause:
		r.arithmetic(n.Exprs...)
	case *syntax.CStyleLoop:
		r.arithmetic(n.Init, n.Cond, n.Post)
	case *syntax.BinaryTest:
		r.compare(n)
	case *syntax.UnaryTest:
		if (n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar) && !plainTest(n.X) {
			r.unreadable()
		}
	case *syntax.WordIter:
		r.paths(n.Items)
	case *syntax.TestDecl:
		r.unreadable()
	}
	return true
}

func (r *reader) statement(s *syntax.Stmt) {
	if s.Coprocess || s.Disown { // other shells' operators
		r.unreadable()
	}
	for _, redirect := range s.Redirs {
		r.redirect(redirect)
	}
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		return
	}
	if len(call.Args) == 0 {
		r.settings(call.Assigns)
		return
	}
	if len(call.Assigns) > 0 {
		// A variable may change what a program does, so a rule for the bare
		// program does not speak for this.
		r.add(r.slice(call))
	}
	r.call(call.Args, surroundings{redirects: s.Redirs})
}

// settings lists assignments to names that look like environment variables:
// GIT_EDITOR='rm x' makes the next git run rm.
func (r *reader) settings(assigns []*syntax.Assign) {
	for _, a := range assigns {
		if a.Name != nil && strings.ToUpper(a.Name.Value) == a.Name.Value {
			r.add(r.slice(a))
		}
	}
}

func (r *reader) declare(n *syntax.DeclClause) {
	r.add(r.slice(n))
	for _, a := range n.Args {
		if !a.Naked {
			continue
		}
		text := r.slice(a)
		option := strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+")
		switch {
		case option && strings.ContainsAny(text, "in"): // evaluates what is assigned
			r.unreadable()
		case !isName(strings.TrimLeft(text, "-+")):
			r.unreadable()
		}
	}
}

func (r *reader) redirect(n *syntax.Redirect) {
	if isHere(n.Op) {
		return
	}
	if n.Op == syntax.RdrIn || n.Op == syntax.DplIn {
		r.paths([]*syntax.Word{n.Word})
		return
	}
	if _, pipe := n.Word.Parts[0].(*syntax.ProcSubst); pipe && len(n.Word.Parts) == 1 {
		return // its commands are read like any others
	}
	target, ok := static(n.Word)
	if n.Op == syntax.DplOut && ok && isDescriptor(target) {
		return
	}
	if !ok {
		r.unreadable()
		r.out.Writes = append(r.out.Writes, r.slice(n.Word))
		return
	}
	switch target {
	case "/dev/null", "/dev/stdout", "/dev/stderr":
		return
	}
	for _, p := range r.from(named(n.Word, target)) {
		r.out.Writes = append(r.out.Writes, p)
		r.out.Paths = append(r.out.Paths, p)
	}
}

func isHere(op syntax.RedirOperator) bool {
	return op == syntax.Hdoc || op == syntax.DashHdoc || op == syntax.WordHdoc
}

func (r *reader) add(command string) {
	*r.listed += len(command)
	if *r.listed > maxListed {
		r.unreadable()
		return
	}
	r.out.Commands = append(r.out.Commands, command)
}

// slice is a node's source text, without line continuations.
func (r *reader) slice(n syntax.Node) string {
	start, end := n.Pos().Offset(), n.End().Offset()
	if end > uint(len(r.src)) || start > end {
		return ""
	}
	return strings.ReplaceAll(r.src[start:end], "\\\n", "")
}
