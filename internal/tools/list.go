package tools

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"rally/internal/session"
)

//go:embed list.md
var listText string

const listSchema = `{"type":"object","properties":{
"path":{"type":"string","description":"The folder; the session's directory if absent"},
"ignore":{"type":"array","items":{"type":"string"},"description":"Patterns of files and folders to leave out"}},
"required":[],"additionalProperties":false}`

type listArgs struct {
	Path   string   `json:"path"`
	Ignore []string `json:"ignore"`
}

func newList() Tool {
	where := func(env *Env, args listArgs) (Place, string, error) {
		return globArgs{Pattern: "**/*", Path: args.Path}.where(env)
	}
	return tool[listArgs]{
		name: "list", text: listText, schema: listSchema,
		access: func(env *Env, args listArgs) ([]Access, error) {
			p, _, err := where(env, args)
			if err != nil {
				return nil, err
			}
			return p.Access("list", p.Pattern), nil
		},
		run: func(ctx context.Context, env *Env, args listArgs) (Result, error) {
			p, _, err := where(env, args)
			if err != nil {
				return Result{}, err
			}
			return listTree(ctx, env, p, args.Ignore)
		},
	}
}

// ballast lists folders that hold what programs made, not what people wrote.
func ballast() []string {
	return []string{
		"node_modules", "__pycache__", "dist", "build", "target", "vendor", "bin", "obj", ".idea", ".vscode",
		".zig-cache", "zig-out", ".coverage", "coverage", "tmp", "temp", ".cache", "cache", "logs", ".venv", "venv", "env",
	}
}

func listTree(ctx context.Context, env *Env, p Place, ignored []string) (Result, error) {
	out := func(rel string) bool {
		return slices.ContainsFunc(ignored, func(pattern string) bool {
			pattern = strings.TrimSuffix(pattern, "/")
			name := rel[strings.LastIndexByte(rel, '/')+1:]
			return doublestar.MatchUnvalidated(pattern, rel) || doublestar.MatchUnvalidated(pattern, name)
		})
	}
	t := tree{
		root: p.Path, ignore: ignoresAbove(env.Root, p.Path),
		keep: func(rel string) bool { return !out(rel) },
		skip: func(rel string) bool {
			return slices.Contains(ballast(), rel[strings.LastIndexByte(rel, '/')+1:]) || out(rel)
		},
	}
	found, err := t.search(ctx)
	if err != nil {
		return Result{}, err
	}
	hits, partial := found.hits, found.partial
	slices.SortFunc(hits, func(a, b hit) int { return strings.Compare(a.rel, b.rel) })
	meta := session.Metadata{}
	meta.Set("count", min(len(hits), maxFound))
	meta.Set("truncated", partial || len(hits) > maxFound)
	if len(hits) == 0 {
		return Result{Output: t.none(ctx, found), Title: p.Pattern, Metadata: meta, Bounded: true}, nil
	}
	var b strings.Builder
	b.WriteString(p.Path + "/\n")
	var above []string
	for _, h := range hits[:min(len(hits), maxFound)] {
		names := strings.Split(strings.ToValidUTF8(h.rel, "\ufffd"), "/")
		same := 0
		for same < len(names)-1 && same < len(above) && above[same] == names[same] {
			same++
		}
		for i := same; i < len(names)-1; i++ {
			b.WriteString(strings.Repeat("  ", i+1) + names[i] + "/\n")
		}
		above = names[:len(names)-1]
		b.WriteString(strings.Repeat("  ", len(names)) + names[len(names)-1] + "\n")
	}
	if len(hits) > maxFound {
		b.WriteString("\n(Showing 100 of " + group(len(hits)) + " files. List a folder below to see more.)")
	}
	if partial {
		b.WriteString("\n" + partialNote)
	}
	return Result{Output: strings.TrimRight(b.String(), "\n"), Title: p.Pattern, Metadata: meta, Bounded: true}, nil
}
