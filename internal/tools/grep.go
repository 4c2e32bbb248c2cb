package tools

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"rally/internal/session"
)

//go:embed grep.md
var grepText string

const grepSchema = `{"type":"object","properties":{
"pattern":{"type":"string","description":"The regular expression"},
"path":{"type":"string","description":"The folder or file to search; the session's directory if absent"},
"include":{"type":"string","description":"Only files whose path or name matches, such as *.go"},
"output_mode":{"type":"string","enum":["content","files_with_matches","count"],"description":"content if absent"},
"context":{"type":"integer","minimum":0,"maximum":20,"description":"Lines to show before and after each match"}},
"required":["pattern"],"additionalProperties":false}`

type grepArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
	Include string `json:"include"`
	Mode    string `json:"output_mode"`
	Context int    `json:"context"`
}

const (
	modeFiles = "files_with_matches"
	modeCount = "count"
)

func newGrep() Tool {
	return tool[grepArgs]{name: "grep", text: grepText, schema: grepSchema, access: grepAccess, run: runGrep}
}

func (a grepArgs) where(env *Env) (Place, error) {
	if a.Path == "" {
		return place(env, env.Directory), nil
	}
	return Resolve(env, a.Path)
}

func grepAccess(env *Env, args grepArgs) ([]Access, error) {
	p, err := args.where(env)
	if err != nil {
		return nil, err
	}
	return p.Access("grep", args.Pattern), nil
}

func (a grepArgs) compile() (*matcher, error) {
	if a.Pattern == "" {
		return nil, tell("pattern is required")
	}
	re, err := regexp.Compile(a.Pattern)
	if err != nil {
		return nil, tell("The pattern is not a valid regular expression (RE2): %v. Escape what is meant literally with a backslash.", err)
	}
	if a.Include != "" && !doublestar.ValidatePattern(a.Include) {
		return nil, tell("The include pattern %q is not complete: a bracket or brace is left open.", a.Include)
	}
	m := &matcher{re: re, literals: requiredLiterals(a.Pattern), context: a.Context}
	if m.limit = maxFound + 1; a.Mode == modeCount {
		m.limit, m.countOnly, m.context = 0, true, 0
	} else if a.Mode == modeFiles {
		m.limit, m.context = 1, 0
	}
	return m, nil
}

// keep is the filter of the include pattern.
func (a grepArgs) keep() func(string) bool {
	if a.Include == "" {
		return nil
	}
	pattern := strings.TrimPrefix(a.Include, "/")
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	return func(rel string) bool { return doublestar.MatchUnvalidated(pattern, rel) }
}

func runGrep(ctx context.Context, env *Env, args grepArgs) (Result, error) {
	m, err := args.compile()
	if err != nil {
		return Result{}, err
	}
	p, err := args.where(env)
	if err != nil {
		return Result{}, err
	}
	info, err := os.Stat(p.Path)
	if err != nil {
		return Result{}, missing(p.Path, err)
	}
	var files listing
	t := tree{root: p.Path, keep: args.keep()}
	switch {
	case info.IsDir():
		t.ignore = ignoresAbove(env.Root, p.Path)
		if files, err = t.search(ctx); err != nil {
			return Result{}, err
		}
	case info.Mode().IsRegular():
		t.root, files.hits = filepath.Dir(p.Path), []hit{{rel: filepath.Base(p.Path)}}
	default:
		return Result{}, notRegular(p.Path, info)
	}
	r := report{mode: args.Mode, limits: env.Limits}
	cut, err := m.search(ctx, t.root, files.hits, r.add)
	if err != nil {
		return Result{}, err
	}
	r.partial = r.partial || files.partial || cut
	meta := session.Metadata{}
	meta.Set("matches", r.matches)
	meta.Set("truncated", r.partial || r.more)
	out := r.text()
	if r.matches == 0 {
		out = "No files found"
		if r.partial {
			out += "\n" + partialNote
		} else if info.IsDir() {
			out = t.none(ctx, files)
		}
	}
	return Result{Output: out, Title: args.Pattern, Metadata: meta, Bounded: true}, nil
}

// report writes what was found, file by file.
type report struct {
	mode    string
	limits  Limits
	b       strings.Builder
	files   int
	matches int
	more    bool // more was found than is shown
	partial bool // not everything was searched
}

// add takes the matches of the next file and reports whether more are wanted.
func (r *report) add(path string, found fileMatches) bool {
	path = strings.ToValidUTF8(path, "\ufffd")
	room := r.b.Len() < r.limits.bytes()-maxLine
	switch r.mode {
	case modeFiles, modeCount:
		r.matches += found.count
		if !room || (r.mode == modeFiles && r.files >= maxFound) {
			r.more = true
			return r.mode == modeCount
		}
		r.files++
		r.b.WriteString(path)
		if r.mode == modeCount {
			r.b.WriteString(": " + group(found.count))
		}
		r.b.WriteByte('\n')
		return true
	}
	r.files++
	if r.files > 1 {
		r.b.WriteByte('\n')
	}
	r.b.WriteString(path + ":\n")
	for i, line := range found.lines {
		if line.match && (r.matches >= maxFound || r.b.Len() > r.limits.bytes()-maxLine) {
			r.more = true
			return false
		}
		if line.match {
			r.matches++
		}
		if i > 0 && line.number > found.lines[i-1].number+1 && found.context {
			r.b.WriteString("  --\n")
		}
		r.b.WriteString(line.String())
	}
	r.more = r.more || found.more
	return !r.more
}

func (r *report) text() string {
	var head string
	switch r.mode {
	case modeFiles:
		head = "Found " + plural(r.files, "file", "files")
	case modeCount:
		head = "Found " + plural(r.matches, "match", "matches") + " in the files"
	default:
		head = "Found " + plural(r.matches, "match", "matches")
	}
	if r.more {
		head += " (more matches available)"
	}
	out := head + "\n" + r.b.String()
	if r.more {
		out += "\n(Results truncated. Consider using a more specific path or pattern.)"
	}
	if r.partial {
		out += "\n" + partialNote
	}
	return strings.TrimRight(out, "\n")
}
