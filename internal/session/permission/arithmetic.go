package permission

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bash evaluates text as arithmetic in many places, and the text may hold an
// array subscript with a command substitution in it: after x='a[$(rm f)]',
// $((x)) runs rm. So arithmetic may name only variables that hold numbers as
// far as the script tells; a variable set to anything else is doubtful, and
// arithmetic over a doubtful one is unreadable.

// survey notes doubtful variables and whether parts of the script repeat.
func (r *reader) survey(node syntax.Node) bool {
	switch n := node.(type) {
	case *syntax.Assign:
		if n.Name != nil && !numericAssign(n) {
			r.doubtful[n.Name.Value] = true
		}
	case *syntax.ForClause:
		r.repeats = true
		if iter, ok := n.Loop.(*syntax.WordIter); ok && (n.Select || !numericItems(iter)) {
			r.doubtful[iter.Name.Value] = true
		}
	case *syntax.WhileClause, *syntax.FuncDecl:
		r.repeats = true
	case *syntax.ParamExp:
		if n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			r.doubtful[n.Param.Value] = true
		}
	case *syntax.CallExpr:
		r.surveyCall(n)
	}
	return true
}

// surveyCall notes the variables that a builtin sets from data.
func (r *reader) surveyCall(n *syntax.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	name := lastWord(n.Args)
	switch name {
	case "read", "mapfile", "readarray", "getopts", "printf", "wait", "export", "declare", "local", "readonly", "typeset":
	default:
		return
	}
	r.doubtful["REPLY"], r.doubtful["MAPFILE"], r.doubtful["OPTARG"] = true, true, true
	for _, w := range n.Args[1:] {
		if v, ok := static(w); ok {
			v, _, _ = strings.Cut(v, "=")
			// -vname and -pname attach the name to the option.
			r.doubtful[v] = true
			if len(v) > 2 && v[0] == '-' {
				r.doubtful[v[2:]] = true
			}
		}
	}
}

// lastWord is the command's name behind `command` and `builtin`.
func lastWord(args []*syntax.Word) string {
	for _, w := range args {
		v, ok := static(w)
		if !ok {
			return ""
		}
		if v != "command" && v != "builtin" && !strings.HasPrefix(v, "-") {
			return v
		}
	}
	return ""
}

func numericAssign(a *syntax.Assign) bool {
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			if e.Value != nil && !numericWord(e.Value) {
				return false
			}
		}
		return true
	}
	return a.Value == nil || numericWord(a.Value)
}

func numericItems(iter *syntax.WordIter) bool {
	if !iter.InPos.IsValid() {
		return false
	}
	for _, w := range iter.Items {
		bounds := strings.Split(strings.TrimSuffix(strings.TrimPrefix(w.Lit(), "{"), "}"), "..")
		for _, b := range bounds {
			if !isNumber(b) {
				return false
			}
		}
	}
	return true
}

// numericWord reports whether a word's value is a number whatever happens.
func numericWord(w *syntax.Word) bool {
	if v, ok := static(w); ok {
		return v == "" || isNumber(strings.TrimPrefix(v, "-"))
	}
	if len(w.Parts) != 1 {
		return false
	}
	part := w.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 && !q.Dollar {
		part = q.Parts[0]
	}
	switch p := part.(type) {
	case *syntax.ArithmExp:
		return true
	case *syntax.ParamExp:
		return countParam(p)
	}
	return false
}

// countParam is ${#x}, $#, $?, $$ or $!: numbers by nature.
func countParam(p *syntax.ParamExp) bool {
	if p.Excl || p.Exp != nil || p.Slice != nil || p.Repl != nil || p.Param == nil {
		return false
	}
	switch p.Param.Value {
	case "#", "?", "$", "!":
		return true
	}
	return p.Length
}

// arithmetic checks expressions that bash will evaluate; nil ones are absent.
func (r *reader) arithmetic(exprs ...syntax.ArithmExpr) {
	for _, expr := range exprs {
		if expr == nil {
			continue
		}
		syntax.Walk(expr, func(node syntax.Node) bool {
			switch n := node.(type) {
			case *syntax.Word:
				r.operand(n)
				return false
			case *syntax.FlagsArithm:
				r.unreadable()
			}
			return true
		})
	}
}

// operand checks one word of an arithmetic expression.
func (r *reader) operand(w *syntax.Word) {
	parts := w.Parts
	if len(parts) == 1 {
		if q, ok := parts[0].(*syntax.DblQuoted); ok && !q.Dollar {
			parts = q.Parts
		}
	}
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			// Beside another part, a name is only a piece of one.
			if !r.certain(p.Value) || len(parts) > 1 && !isNumber(p.Value) {
				r.unreadable()
			}
		case *syntax.ArithmExp:
		case *syntax.ParamExp:
			simple := p.Exp == nil && p.Slice == nil && p.Repl == nil && !p.Excl && p.Names == 0
			if !countParam(p) && (!simple || p.Param == nil || !isName(p.Param.Value) || r.doubtful[p.Param.Value]) {
				r.unreadable()
			}
		default: // quoted text, command output: anything
			r.unreadable()
		}
	}
}

// certain reports whether a bare word in arithmetic is a number or the name
// of a variable that holds one.
func (r *reader) certain(s string) bool {
	if isName(s) {
		return !r.doubtful[s]
	}
	return strings.Trim(s, "0123456789abcdefABCDEFxX#@_. ") == ""
}

// parameter checks an expansion for what bash evaluates in it.
func (r *reader) parameter(p *syntax.ParamExp) {
	if p.Excl && p.Names == 0 && !allMembers(p.Index) { // the value names what to expand
		r.unreadable()
	}
	if p.Flags != nil || p.NestedParam != nil || p.Width || p.IsSet || len(p.Modifiers) > 0 {
		r.unreadable()
	}
	if p.Exp != nil && p.Exp.Op == syntax.OtherParamOps && (p.Exp.Word == nil || !strings.ContainsAny(p.Exp.Word.Lit(), "QUuLEAaKk")) {
		r.unreadable() // @P expands the value once more
	}
	r.index(p.Index)
	if p.Slice != nil {
		r.arithmetic(p.Slice.Offset, p.Slice.Length)
	}
}

func (r *reader) index(x syntax.ArithmExpr) {
	if !allMembers(x) {
		r.arithmetic(x)
	}
}

// allMembers reports whether a subscript is @ or *.
func allMembers(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

// assign checks an assignment: its subscript, and names that change what a
// command name means or what the shell itself runs.
func (r *reader) assign(a *syntax.Assign) {
	r.index(a.Index)
	if a.Name != nil && steers(a.Name.Value) {
		r.unreadable()
	}
	if a.Array != nil {
		for _, e := range a.Array.Elems {
			r.index(e.Index)
		}
	}
}

func steers(name string) bool {
	switch name {
	case "PATH", "ENV", "CDPATH", "SHELLOPTS", "PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "EXECIGNORE", "POSIXLY_CORRECT":
		return true
	}
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "BASH") || strings.HasPrefix(name, "DYLD_")
}

// compare checks [[ x -eq y ]], whose sides are arithmetic.
func (r *reader) compare(n *syntax.BinaryTest) {
	numeric := []syntax.BinTestOperator{syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr}
	if !slices.Contains(numeric, n.Op) {
		return
	}
	for _, side := range []syntax.TestExpr{n.X, n.Y} {
		if w, ok := side.(*syntax.Word); ok {
			r.operand(w)
		}
	}
}

// plainTest reports whether a test's operand is a bare variable name.
func plainTest(x syntax.TestExpr) bool {
	w, ok := x.(*syntax.Word)
	if !ok {
		return false
	}
	v, ok := static(w)
	return ok && isName(v)
}
