package permission

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// static is the one value that a word always has, quotes removed. Words that
// bash may expand to something else or to several words have none.
func static(w *syntax.Word) (string, bool) {
	var b strings.Builder
	whole := prefix(w, &b)
	return b.String(), whole
}

// prefix writes the part of the word's value that is known and reports
// whether that is all of it.
func prefix(w *syntax.Word, b *strings.Builder) bool {
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if !unquote(p.Value, b) {
				return false
			}
		case *syntax.SglQuoted:
			if p.Dollar && strings.Contains(p.Value, `\`) {
				return false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if !quoted(p, b) {
				return false
			}
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp, *syntax.ProcSubst, *syntax.ExtGlob, *syntax.BraceExp:
			return false
		}
	}
	return true
}

// unquote takes the backslashes out of unquoted text and stops at what bash
// would expand: globs and braces.
func unquote(text string, b *strings.Builder) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			i++
			if i < len(text) && text[i] != '\n' {
				b.WriteByte(text[i])
			}
		case '{':
			if !strings.HasPrefix(text[i:], "{}") { // empty braces stay as they are
				return false
			}
			b.WriteString("{}")
			i++
		case '*', '?':
			return false
		case '[':
			if strings.IndexByte(text[i:], ']') > 0 || b.Len() > 0 {
				return false
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return true
}

func quoted(q *syntax.DblQuoted, b *strings.Builder) bool {
	if q.Dollar {
		return false
	}
	for _, part := range q.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			return false
		}
		for i := 0; i < len(lit.Value); i++ {
			if lit.Value[i] == '\\' && i+1 < len(lit.Value) && strings.IndexByte("$`\"\\\n", lit.Value[i+1]) >= 0 {
				i++
				if lit.Value[i] == '\n' {
					continue
				}
			}
			b.WriteByte(lit.Value[i])
		}
	}
	return true
}

// text is the canonical form of a command: quotes that change nothing are
// gone, so that `"rm"  -f x` is the same to a rule as `rm -f x`.
func (r *reader) text(words []*syntax.Word) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = r.word(w)
	}
	return strings.Join(out, " ")
}

func (r *reader) word(w *syntax.Word) string {
	if value, ok := static(w); ok && plain(value) {
		return value
	}
	return r.slice(w)
}

// plain reports whether a value needs no quotes.
func plain(value string) bool {
	return value != "" && !strings.ContainsAny(strings.ReplaceAll(value, "{}", ""), " \t\r\n'\"\\$`;&|<>()*?[]{}#")
}

// named marks a quoted ~ as the file name it is.
func named(w *syntax.Word, value string) string {
	if strings.HasPrefix(value, "~") {
		if lit, ok := w.Parts[0].(*syntax.Lit); !ok || !strings.HasPrefix(lit.Value, "~") {
			return "./" + value
		}
	}
	return value
}

// paths lists the words that may name files: all but options, and of those
// with expansions the directory in front.
func (r *reader) paths(words []*syntax.Word) {
	for _, w := range words {
		for _, p := range candidates(w) {
			r.out.Paths = append(r.out.Paths, r.from(p)...)
		}
	}
}

// candidates are the paths that one word may mean.
func candidates(w *syntax.Word) []string {
	value, ok := static(w)
	if !ok {
		return expanded(w)
	}
	if value == "/dev/null" || value == "" || value == "-" {
		return nil
	}
	var out []string
	if !strings.HasPrefix(value, "-") {
		out = append(out, named(w, value))
	}
	// of=/dev/sda, --file=/etc/passwd, -I/usr/include
	if _, after, found := strings.Cut(value, "="); found && outward(after) {
		out = append(out, after)
	}
	if len(value) > 2 && value[0] == '-' && value[1] != '-' && outward(value[2:]) {
		out = append(out, value[2:])
	}
	return out
}

func outward(s string) bool {
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~") || strings.HasPrefix(s, "..")
}

// expanded finds the directory in front of an expansion, the home directory
// behind $HOME, and the members of a brace expansion.
func expanded(w *syntax.Word) []string {
	var b strings.Builder
	parts := w.Parts
	home := len(parts) > 0 && isHome(parts[0])
	if home {
		b.WriteString("~")
		parts = parts[1:]
	}
	whole := prefix(&syntax.Word{Parts: parts}, &b)
	head := b.String()
	var out []string
	switch {
	case whole:
		out = append(out, head)
	case strings.Contains(head, "/"):
		out = append(out, head[:strings.LastIndexByte(head, '/')+1])
	}
	for _, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || !strings.Contains(lit.Value, "{") {
			continue
		}
		for _, piece := range strings.FieldsFunc(lit.Value, func(c rune) bool { return strings.ContainsRune("{},", c) }) {
			if outward(piece) {
				out = append(out, piece)
			}
		}
	}
	return out
}

func isHome(part syntax.WordPart) bool {
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		part = q.Parts[0]
	}
	p, ok := part.(*syntax.ParamExp)
	return ok && p.Param != nil && p.Param.Value == "HOME" && p.Exp == nil && p.Slice == nil && p.Repl == nil && !p.Excl && !p.Length
}

// from gives a path as seen from each directory that the script may be in.
func (r *reader) from(path string) []string {
	if strings.HasPrefix(path, "/") || strings.HasPrefix(path, "~") {
		return []string{path}
	}
	out := make([]string, 0, len(r.dirs))
	for _, dir := range r.dirs {
		if dir != "" {
			out = append(out, dir+"/"+path)
			continue
		}
		out = append(out, path)
	}
	return out
}

func isName(s string) bool {
	for i, c := range s {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func isDescriptor(s string) bool {
	return s == "-" || isNumber(strings.TrimSuffix(s, "-"))
}
