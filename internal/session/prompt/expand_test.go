package prompt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rally/internal/session"
)

// tree is a project with neighbours, and a read tool that keeps to it.
//
//	home/outside.txt
//	docs/guide.md             reference @guide
//	app/…                     root; app/cmd is the directory
type tree struct {
	base  string
	reads []string
}

func newTree(t *testing.T) *tree {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"home/outside.txt": "outside-secret", "docs/guide.md": "guide", "outside.txt": "outside-secret",
		"app/a.go": "a1\na2\na3\n", "app/lib/b.ts": "b1\n", "app/cmd/main.go": "m1\n", "app/cmd/a.go": "other\n",
		"app/docs/a.md": "first\nsecond\nthird\n", "app/p.png": "png", "app/odd#L1.txt": "odd\n", "app/.env": "KEY=1", "app/文档/说明.md": "zh\n",
	} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &tree{base: base}
}

func (f *tree) read(_ context.Context, path string, offset, limit int) (string, []*session.File, error) {
	f.reads = append(f.reads, strings.TrimPrefix(path, f.base+"/"))
	if !inside(filepath.Join(f.base, "app"), path) && !inside(filepath.Join(f.base, "docs"), path) {
		return "", nil, errors.New("refused: outside of the project")
	}
	if filepath.Ext(path) == ".png" {
		return "Image read successfully", []*session.File{{Mime: "image/png", URL: "data:image/png;base64,cG5n"}}, nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return "listing", nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	lines := strings.SplitAfter(string(b), "\n")
	if offset > 0 {
		lines = lines[min(offset-1, len(lines)):]
	}
	if limit > 0 {
		lines = lines[:min(limit, len(lines))]
	}
	return strings.Join(lines, ""), nil, nil
}

func (f *tree) lookup() Lookup {
	return Lookup{
		Root: filepath.Join(f.base, "app"), Directory: filepath.Join(f.base, "app/cmd"), Home: filepath.Join(f.base, "home"),
		Agents: []session.Agent{
			{Name: "explore", Mode: session.ModeSubagent},
			{Name: "build", Mode: session.ModePrimary},
			{Name: "team/rev", Mode: session.ModeAll},
			{Name: "title", Mode: session.ModeAll, Hidden: true},
		},
		References: []session.Reference{{Name: "guide", Path: filepath.Join(f.base, "docs")}},
		Stat:       os.Stat, Read: f.read,
		TaskDenied: func(agent string) bool { return agent == "team/rev" },
	}
}

// show prints parts one a line, so that whole results can be compared.
func (f *tree) show(parts []session.Part) []string {
	var out []string
	for _, p := range parts {
		line := ""
		switch p := p.(type) {
		case *session.Text:
			line = "text " + p.Text
			if p.Synthetic {
				line = "synthetic " + p.Text
			}
		case *session.File:
			line = fmt.Sprintf("file %s %s %s", p.Mime, p.Filename, p.URL)
		case *session.AgentRef:
			line = "agent " + p.Name
		case *session.Subtask:
			line = "subtask " + p.Agent
		default:
			line = string(p.Kind())
		}
		out = append(out, strings.ReplaceAll(line, f.base, "~"))
	}
	return out
}

func called(path, more string) string {
	return `synthetic Called the Read tool with the following input: {"filePath":"~/` + path + `"` + more + "}"
}

func plain(name, path string) string { return "file text/plain " + name + " file://~/" + path }

func TestExpandText(t *testing.T) {
	t.Parallel()
	f := newTree(t)
	aGo := []string{called("app/a.go", ""), "synthetic a1\na2\na3\n"}
	lines := func(offset, limit string, text string) []string {
		more := `,"offset":` + offset
		if limit != "" {
			more += `,"limit":` + limit
		}
		return []string{called("app/docs/a.md", more), "synthetic " + text, plain("docs/a.md", "app/docs/a.md")}
	}
	with := func(parts []string, more ...string) []string { return append(parts[:len(parts):len(parts)], more...) }
	task := "synthetic Use the message and context above to write a prompt, and call the task tool with it and with subagent: "
	for _, c := range []struct {
		text string
		want []string
	}{
		{"nothing here", nil},
		{"see @a.go.", with(aGo, plain("a.go", "app/a.go"))},
		{"(see @a.go): x", with(aGo, plain("a.go", "app/a.go"))},
		{"see @a.go, @a.go and @./a.go", with(aGo, plain("a.go", "app/a.go"))},
		{"看@a.go，谢谢", with(aGo, plain("a.go", "app/a.go"))},
		{"看@a.go的内容", with(aGo, plain("a.go", "app/a.go"))},
		{"@文档/说明.md。", []string{called("app/文档/说明.md", ""), "synthetic zh\n", "file text/plain 文档/说明.md file://~/app/%E6%96%87%E6%A1%A3/%E8%AF%B4%E6%98%8E.md"}},
		{"@main.go falls back to the directory", []string{called("app/cmd/main.go", ""), "synthetic m1\n", plain("main.go", "app/cmd/main.go")}},
		{"see @docs/ please", []string{called("app/docs", ""), "synthetic listing", "file application/x-directory docs/ file://~/app/docs"}},
		{"@docs/a.md#L2-2", lines("2", "1", "second\n")},
		{"@docs/a.md#L2-L3", lines("2", "2", "second\nthird\n")},
		{"@docs/a.md#2", lines("2", "1", "second\n")},
		{"@docs/a.md#L2-", lines("2", "", "second\nthird\n")},
		{"@docs/a.md#L3-2 is no range", nil},
		{"@docs/a.md#L0 is no line", nil},
		{"@odd#L1.txt", []string{called("app/odd#L1.txt", ""), "synthetic odd\n", "file text/plain odd#L1.txt file://~/app/odd%23L1.txt"}},
		{"@p.png", []string{called("app/p.png", ""), "synthetic Image read successfully", "file image/png p.png data:image/png;base64,cG5n"}},
		{"look at @../outside.txt", []string{"synthetic Read tool failed to read ~/outside.txt with the following error: refused: outside of the project"}},
		{"look at @~/outside.txt", []string{"synthetic Read tool failed to read ~/home/outside.txt with the following error: refused: outside of the project"}},
		{"@missing.go and @nobody", nil},
		{"me@a.go.org and `@a.go` and `x @a.go y`", nil},
		{"```\n@a.go\n```", nil},
		{"```go\n@a.go", nil},
		{"a ` alone @a.go", with(aGo, plain("a.go", "app/a.go"))},
		{"a `\n\n@a.go\n\n` b", with(aGo, plain("a.go", "app/a.go"))},
		{"wait @... and @. ", []string{called("app", ""), "synthetic listing", "file application/x-directory . file://~/app"}},
		{"@explore find it", []string{"agent explore", task + "explore."}},
		{"@team/rev: check, @team/rev", []string{"agent team/rev", task + "team/rev. Invoked by user; guaranteed to exist."}},
		{"@build and @title are not for tasks", nil},
		{"@guide/guide.md.", []string{called("docs/guide.md", ""), "synthetic guide", plain("guide/guide.md", "docs/guide.md")}},
		{"@guide", []string{called("docs", ""), "synthetic listing", "file application/x-directory guide file://~/docs"}},
		{"@guide/no.md", []string{"synthetic Path does not exist inside configured reference @guide: no.md"}},
		{"@guide/../outside.txt", []string{"synthetic Path escapes configured reference @guide: ../outside.txt"}},
		{"check [a.go, lib/b.ts] now", with(aGo, plain("a.go", "app/a.go"), called("app/lib/b.ts", ""), "synthetic b1\n", plain("lib/b.ts", "app/lib/b.ts"))},
		{"[a.go](url) x[a.go] ![a.go] [a.go, ] [x] [1, 2] [a.go]: y", nil},
		{"[a.go#L2-2]", []string{called("app/a.go", `,"offset":2,"limit":1`), "synthetic a2\n", plain("a.go", "app/a.go")}},
		{"@lib/b.ts then @explore then @a.go", append([]string{
			called("app/lib/b.ts", ""), "synthetic b1\n", plain("lib/b.ts", "app/lib/b.ts"),
			"agent explore", task + "explore.",
		}, with(aGo, plain("a.go", "app/a.go"))...)},
		{"@" + strings.Repeat("x", 5000), nil},
		{"@" + strings.Repeat("x", 300), nil},
		{"@a.go/b and @a\x00b", nil},
	} {
		got := f.show(Expand(t.Context(), Input{Text: c.text}, f.lookup()))
		want := append([]string{"text " + c.text}, c.want...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.60q (-want +got):\n%s", c.text, diff)
		}
	}
}

func TestExpandFiles(t *testing.T) {
	t.Parallel()
	f := newTree(t)
	got := f.show(Expand(t.Context(), Input{Text: "see @a.go", Files: []Attachment{
		{Path: filepath.Join(f.base, "app/a.go")},
		{Path: filepath.Join(f.base, "app/docs/a.md"), Lines: Lines{From: 2, To: 3}},
		{Path: "missing.txt"},
	}}, f.lookup()))
	want := []string{
		"text see @a.go", called("app/a.go", ""), "synthetic a1\na2\na3\n", plain("a.go", "app/a.go"),
		called("app/docs/a.md", `,"offset":2,"limit":2`), "synthetic second\nthird\n", plain("a.md", "app/docs/a.md"),
		"synthetic Read tool failed to read ~/app/cmd/missing.txt with the following error: open ~/app/cmd/missing.txt: no such file or directory",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExpandPassesOverOpaque(t *testing.T) {
	t.Parallel()
	f := newTree(t)
	text := "log: @a.go end @lib/b.ts"
	start := strings.Index(text, "@a.go")
	Expand(t.Context(), Input{Text: text, Opaque: []Range{{start, start + len("@a.go")}}}, f.lookup())
	if diff := cmp.Diff([]string{"app/lib/b.ts"}, f.reads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExpandDoesNotReadOnIntoOpaque(t *testing.T) {
	t.Parallel()
	f := newTree(t)
	Expand(t.Context(), Input{Text: "@lib/b.ts [a.go] @", Opaque: []Range{{5, 9}, {11, 15}}}, f.lookup())
	if diff := cmp.Diff([]string{"app/lib"}, f.reads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExpandParts(t *testing.T) {
	t.Parallel()
	f := newTree(t)
	look := f.lookup()
	look.Resource = func(_ context.Context, server, uri string) ([]ResourceContent, error) {
		if server != "files" {
			return nil, fmt.Errorf("no server %s", server)
		}
		return []ResourceContent{
			{Text: "resource text"},
			{Blob: "cG5n", Mime: "image/png", URI: uri},
			{Blob: "AAAA", Mime: "application/zip"},
			{Blob: strings.Repeat("A", maxBlob/3*4+8), Mime: "image/png"},
		}, nil
	}
	resource := func(server string) *session.File {
		return &session.File{Filename: "r", Source: []byte(`{"type":"resource","clientName":"` + server + `","uri":"x://1"}`)}
	}
	root := "file://" + f.base + "/app"
	got := f.show(Expand(t.Context(), Input{Parts: []session.Part{
		&session.Text{Text: "one @a.go"},
		&session.File{Mime: "text/plain", Filename: "docs", URL: root + "/docs/a.md?start=2&end=2"},
		&session.File{Mime: "text/plain", URL: "file:relative"},
		&session.File{Mime: "text/plain", Filename: "n.txt", URL: "data:text/plain;base64,aGkgPGI+"},
		&session.File{Mime: "text/plain", Filename: "u.txt", URL: "data:text/plain,a%20b"},
		&session.File{Mime: "text/plain", Filename: "bad.txt", URL: "data:text/plain;base64,???"},
		&session.File{Mime: "image/png", Filename: "p", URL: "data:image/png;base64,cG5n"},
		resource("files"), resource("files"), resource("other"),
		&session.AgentRef{Name: "explore"},
		&session.Subtask{Agent: "general"},
		&session.Text{Text: "two @a.go", Synthetic: true},
		&session.Patch{},
	}}, look))
	want := []string{
		"text one @a.go", called("app/a.go", ""), "synthetic a1\na2\na3\n", plain("a.go", "app/a.go"),
		called("app/docs/a.md", `,"offset":2,"limit":1`), "synthetic second\n", plain("docs", "app/docs/a.md"),
		`synthetic The attached file  was left out: "file:relative" is not the URL of a file.`,
		`synthetic Called the Read tool with the following input: {"filePath":"n.txt"}`, "synthetic hi <b>", "file text/plain n.txt data:text/plain;base64,aGkgPGI+",
		`synthetic Called the Read tool with the following input: {"filePath":"u.txt"}`, "synthetic a b", "file text/plain u.txt data:text/plain,a%20b",
		"synthetic The attached file bad.txt was left out: its content cannot be decoded: illegal base64 data at input byte 0",
		"file image/png p data:image/png;base64,cG5n",
		"synthetic Reading MCP resource: r (x://1)", "synthetic resource text", "synthetic [Binary MCP resource attached: x://1 (image/png)]",
		"file image/png x://1 data:image/png;base64,cG5n",
		"synthetic [Binary MCP resource omitted: r (application/zip, 3 B) is not a supported attachment type]",
		"synthetic [Binary MCP resource omitted: r (image/png, 11 MB) exceeds 10 MB]",
		"synthetic Reading MCP resource: r (x://1)", "synthetic Failed to read MCP resource r: no server other",
		"agent explore", "synthetic Use the message and context above to write a prompt, and call the task tool with it and with subagent: explore.",
		"subtask general", "synthetic two @a.go",
		"synthetic A patch part cannot be part of a prompt and was left out.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExpandSaysWhatMayNotBeLookedAt(t *testing.T) {
	t.Parallel()
	look := Lookup{
		Root: "/r", Directory: "/r",
		Stat: func(string) (fs.FileInfo, error) { return nil, fs.ErrPermission },
		Read: func(context.Context, string, int, int) (string, []*session.File, error) {
			return "", nil, errors.New("permission denied")
		},
	}
	got := (&tree{base: "/none"}).show(Expand(t.Context(), Input{Text: "@x"}, look))
	want := []string{"text @x", "synthetic Read tool failed to read /r/x with the following error: permission denied"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The user's text is stored as it was written, whatever is in it, and nothing
// is read twice.
func TestExpandKeepsTheText(t *testing.T) {
	t.Parallel()
	f := newTree(t)
	rapid.Check(t, func(t *rapid.T) {
		f.reads = nil
		words := rapid.SliceOf(rapid.SampledFrom([]string{
			"@a.go", "@lib/b.ts", "@docs/", "[a.go, lib/b.ts]", "`", "```", "\n", " ", "@", "[", "]", ",", ".", "@explore", "\xff", "，", "#L1-2", "x",
		})).Draw(t, "words")
		text := strings.Join(words, "")
		parts := Expand(context.Background(), Input{Text: text}, f.lookup())
		if text == "" {
			return
		}
		first, ok := parts[0].(*session.Text)
		if !ok || first.Text != text || first.Synthetic {
			t.Fatalf("the text became %#v", parts[0])
		}
		for _, p := range parts[1:] {
			if s, ok := p.(*session.Text); ok && !s.Synthetic {
				t.Fatalf("a text that the user did not write: %q", s.Text)
			}
		}
	})
}

// A prompt may be megabytes of someone's log: finding references in it takes
// time in proportion to its length.
func BenchmarkMentions(b *testing.B) {
	for _, piece := range []string{"@", "[", "`", "``` ` ", "@a.go ", "[a.go, b.go] ", "plain text "} {
		text := strings.Repeat(piece, (1<<20)/len(piece))
		b.Run(strings.TrimSpace(piece), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				mentions(text, nil)
			}
		})
	}
}

func FuzzMentions(f *testing.F) {
	for _, s := range []string{"@a.go", "`@a`", "```\n@a\n```", "[a.go, b.go]", "@", "[", "\xff@\xff", "@a，b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range mentions(text, nil) {
			if m.name == "" || !strings.Contains(text, m.name) {
				t.Fatalf("%q is not in the text", m.name)
			}
			for _, c := range candidates(m.name) {
				if !strings.HasPrefix(m.name, c) {
					t.Fatalf("%q does not begin %q", c, m.name)
				}
			}
		}
		end := 0
		for _, r := range codeRanges(text) {
			if r.Start < end || r.End <= r.Start || r.End > len(text) {
				t.Fatalf("bad range %v", r)
			}
			end = r.End
		}
	})
}
