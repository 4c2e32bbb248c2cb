package permission

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shell takes in the script that a shell is given.
func (r *reader) shell(words []*syntax.Word, ctx surroundings) {
	script := false
	i := 0
	for ; i < len(words); i++ {
		value, ok := static(words[i])
		if !ok || ctx.marked(value) {
			r.unreadable()
			return
		}
		if value == "--" || value == "-" {
			i++
			break
		}
		if len(value) < 2 || value[0] != '-' && value[0] != '+' {
			break
		}
		switch {
		case strings.HasPrefix(value, "--"):
			if !slices.Contains([]string{"--login", "--norc", "--noprofile", "--posix", "--noediting", "--verbose"}, value) {
				r.unreadable()
				return
			}
		case strings.ContainsAny(value, "oO"):
			i++
		case strings.ContainsAny(value, "is"):
			r.unreadable()
			return
		}
		script = script || !strings.HasPrefix(value, "--") && strings.Contains(value, "c")
	}
	if i < len(words) {
		r.shellOperand(words[i], script, ctx)
		return
	}
	if text, ok := stdin(ctx.redirects); ok && !script && !ctx.appended {
		r.inner(text, ctx.posix)
		return
	}
	r.unreadable()
}

func (r *reader) shellOperand(w *syntax.Word, script bool, ctx surroundings) {
	value, ok := static(w)
	switch {
	case !ok || ctx.marked(value):
		r.unreadable()
	case script:
		r.inner(value, ctx.posix)
	case device(value) || ctx.appended:
		r.unreadable()
	}
}

// device reports whether a path stands for data that is not a file's.
func device(p string) bool {
	p = path.Clean(p)
	return p == "-" || strings.HasPrefix(p, "/dev/") || strings.HasPrefix(p, "/proc/")
}

// stdin is the text that a here-document or here-string gives a command.
func stdin(redirects []*syntax.Redirect) (string, bool) {
	var last *syntax.Redirect
	for _, n := range redirects {
		if n.N != nil && n.N.Value != "0" {
			continue
		}
		if !isHere(n.Op) {
			return "", false
		}
		last = n
	}
	if last == nil {
		return "", false
	}
	if last.Op == syntax.WordHdoc {
		text, ok := static(last.Word)
		return text + "\n", ok
	}
	if last.Hdoc == nil { // the body is empty
		return "", true
	}
	return hereText(last.Hdoc)
}

// hereText is a here-document's body when nothing in it is expanded.
func hereText(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || strings.Contains(lit.Value, `\`) {
			return "", false
		}
		b.WriteString(lit.Value)
	}
	return b.String(), true
}

// find takes in what -exec and its like would run.
func (r *reader) find(words []*syntax.Word, ctx surroundings) {
	if ctx.appended {
		r.unreadable() // -exec may be among what is added
	}
	for i := 0; i < len(words); i++ {
		value, ok := static(words[i])
		if ctx.marked(value) || !ok && !anchored(words[i]) {
			r.unreadable()
			continue
		}
		switch value {
		case "-exec", "-execdir", "-ok", "-okdir":
		case "-fprint", "-fprint0", "-fprintf", "-fls":
			if i+1 < len(words) {
				r.out.Writes = append(r.out.Writes, r.word(words[i+1]))
			}
			continue
		default:
			continue
		}
		end := i + 1
		for ; end < len(words); end++ {
			v, _ := static(words[end])
			before, _ := static(words[end-1])
			if v == ";" || v == "+" && before == "{}" {
				break
			}
		}
		if end > i+1 {
			r.call(words[i+1:end], surroundings{appended: true, mark: "{}"})
		}
		i = end
	}
}

// anchored reports whether a word that expands cannot become an option.
func anchored(w *syntax.Word) bool {
	var b strings.Builder
	prefix(w, &b)
	return b.Len() > 0 && b.String()[0] != '-' && !unquotedExpansion(w)
}

func unquotedExpansion(w *syntax.Word) bool {
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted, *syntax.ExtGlob:
		case *syntax.Lit:
			if strings.Contains(p.Value, "{") {
				return true
			}
		default:
			return true
		}
	}
	return false
}
