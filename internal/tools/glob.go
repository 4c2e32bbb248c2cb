package tools

import (
	"context"
	_ "embed"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"rally/internal/session"
)

//go:embed glob.md
var globText string

// maxFound is how many files or matches a search shows.
const maxFound = 100

const globSchema = `{"type":"object","properties":{
"pattern":{"type":"string","description":"Such as **/*.go or src/**/*.{ts,tsx}; without a slash it matches names at any depth","minLength":1},
"path":{"type":"string","description":"The folder to search; the session's directory if absent"}},
"required":["pattern"],"additionalProperties":false}`

type globArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
}

func newGlob() Tool {
	return tool[globArgs]{name: "glob", text: globText, schema: globSchema, access: globAccess, run: runGlob}
}

// where is the folder to walk and the pattern for what is below it. The part
// of a pattern before its first wildcard names a folder.
func (a globArgs) where(env *Env) (Place, string, error) {
	if !doublestar.ValidatePattern(a.Pattern) {
		return Place{}, "", tell("The pattern %q is not complete: a bracket or brace is left open.", a.Pattern)
	}
	base, pattern := doublestar.SplitPattern(path.Clean(a.Pattern))
	dir := a.Path
	switch {
	case !strings.Contains(a.Pattern, "/"):
		pattern = "**/" + pattern
	case filepath.IsAbs(base):
		dir = base
	case dir == "":
		dir = base
	default:
		dir += "/" + base
	}
	if dir == "" {
		dir = "."
	}
	p, err := Resolve(env, dir)
	if err != nil {
		return p, "", err
	}
	if info, err := os.Stat(p.Path); err == nil && !info.IsDir() {
		return p, "", tell("glob path must be a directory: %s", p.Path)
	}
	return p, pattern, nil
}

func globAccess(env *Env, args globArgs) ([]Access, error) {
	p, _, err := args.where(env)
	if err != nil {
		return nil, err
	}
	return p.Access("glob", args.Pattern), nil
}

func runGlob(ctx context.Context, env *Env, args globArgs) (Result, error) {
	p, pattern, err := args.where(env)
	if err != nil {
		return Result{}, err
	}
	if _, err := os.Stat(p.Path); err != nil {
		return Result{}, missing(p.Path, err)
	}
	t := tree{
		root: p.Path, ignore: ignoresAbove(env.Root, p.Path),
		keep: func(rel string) bool { return doublestar.MatchUnvalidated(pattern, rel) },
	}
	found, err := t.search(ctx)
	if err != nil {
		return Result{}, err
	}
	hits, partial := found.hits, found.partial
	meta := session.Metadata{}
	meta.Set("count", min(len(hits), maxFound))
	meta.Set("truncated", partial || len(hits) > maxFound)
	if len(hits) == 0 {
		return Result{Output: t.none(ctx, found), Title: args.Pattern, Metadata: meta}, nil
	}
	var b strings.Builder
	for _, h := range hits[:min(len(hits), maxFound)] {
		b.WriteString(strings.ToValidUTF8(filepath.Join(p.Path, h.rel), "\ufffd") + "\n")
	}
	if len(hits) > maxFound {
		b.WriteString("\n(Results are truncated: showing first 100 results of " + group(len(hits)) +
			", the newest. Consider using a more specific path or pattern.)")
	}
	if partial {
		b.WriteString("\n" + partialNote)
	}
	return Result{Output: strings.TrimRight(b.String(), "\n"), Title: args.Pattern, Metadata: meta, Bounded: true}, nil
}

// partialNote tells that a bound of the search was reached.
const partialNote = "(The search was stopped before its end: there is too much to look at. Consider using a more specific path.)"
