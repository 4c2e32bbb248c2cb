package tools

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignore is the ignore rules of one folder, on top of those of the folders
// above it. nil has no rules. It is immutable.
type ignore struct {
	above *ignore
	dir   string // absolute
	rules []ignoreRule
}

// ignoreRule is one line of a .gitignore.
type ignoreRule struct {
	pattern string // for doublestar
	negate  bool
	folder  bool // matches folders only
	name    bool // is about the last element alone
	plain   bool // has no wildcard
}

// maxIgnoreFile is how much of an ignore file is read.
const maxIgnoreFile = 1 << 20

// below adds the rules of a folder; names are the ignore files it has.
func (g *ignore) below(dir string, names ...string) *ignore {
	var rules []ignoreRule
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxIgnoreFile {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue // unreadable rules are no rules
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if r, ok := parseIgnore(line); ok {
				rules = append(rules, r)
			}
		}
	}
	if len(rules) == 0 {
		return g
	}
	return &ignore{above: g, dir: dir, rules: rules}
}

// ignoresAbove collects the rules that hold in dir: those of the folders from
// root down to it, without dir's own.
func ignoresAbove(root, dir string) *ignore {
	if !Inside(root, dir) {
		return nil
	}
	var g *ignore
	if root != dir || isRepository(root) {
		g = g.below(root, filepath.Join(".git", "info", "exclude"))
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil || rel == "." {
		return g
	}
	at := root
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		g = g.below(at, ".gitignore", ".ignore")
		at = filepath.Join(at, name)
		if g.match(at, true) {
			return nil // a folder named outright is searched though it is ignored
		}
	}
	return g
}

func isRepository(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ".git"))
	return err == nil
}

// match reports whether path is ignored. The last rule of the innermost
// folder that has one decides. That a folder above path is ignored is not
// looked at: nobody walks into those.
func (g *ignore) match(path string, folder bool) bool {
	name := filepath.Base(path)
	for ; g != nil; g = g.above {
		rel := strings.TrimPrefix(path[len(g.dir):], "/")
		for i := len(g.rules) - 1; i >= 0; i-- {
			if r := &g.rules[i]; (folder || !r.folder) && r.match(rel, name) {
				return !r.negate
			}
		}
	}
	return false
}

func (r *ignoreRule) match(rel, name string) bool {
	if r.name {
		rel = name
	}
	if r.plain {
		return rel == r.pattern
	}
	return doublestar.MatchUnvalidated(r.pattern, rel)
}

// parseIgnore reads one line as git does.
func parseIgnore(line string) (ignoreRule, bool) {
	var r ignoreRule
	line = trimTrailingBlanks(strings.TrimSuffix(line, "\r"))
	if line == "" || line[0] == '#' {
		return r, false
	}
	if line[0] == '!' {
		r.negate, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.folder, line = true, strings.TrimSuffix(line, "/")
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	r.name = !anchored
	if r.name {
		// Without a slash two stars are one.
		for strings.Contains(line, "**") {
			line = strings.ReplaceAll(line, "**", "*")
		}
	}
	r.plain = !strings.ContainsAny(line, `*?[\`)
	r.pattern = line
	if !r.plain {
		r.pattern = forDoublestar(line)
		if !doublestar.ValidatePattern(r.pattern) {
			return r, false
		}
	}
	return r, true
}

// trimTrailingBlanks takes off blanks that no backslash guards.
func trimTrailingBlanks(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// forDoublestar escapes what only doublestar gives a meaning, and makes a
// trailing /** match what is in the folder but not the folder.
func forDoublestar(line string) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			b.WriteByte(c)
			i++
			b.WriteByte(line[i])
		case class:
			class = c != ']'
			b.WriteByte(c)
		case c == '[':
			class = true
			b.WriteByte(c)
		case c == '{' || c == '}':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	out := b.String()
	if strings.HasSuffix(out, "/**") {
		out += "/*"
	}
	return out
}
