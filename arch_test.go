// Package rally_test holds what must be true of the repository as a whole.
package rally_test

import (
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	nouns      = "rally/internal/session"
	store      = "rally/internal/session/store"
	prompt     = "rally/internal/session/prompt"
	permission = "rally/internal/session/permission"
	snapshot   = "rally/internal/session/snapshot"
	loop       = "rally/internal/session/loop"
	llm        = "rally/internal/llm"
	openai     = "rally/internal/llm/openai"
	anthropic  = "rally/internal/llm/anthropic"
	scripted   = "rally/internal/llm/scripted"
	tools      = "rally/internal/tools"
	mcp        = "rally/internal/tools/mcp"
	compact    = "rally/internal/compact"
	config     = "rally/internal/config"
	batch      = "rally/internal/batch"
	command    = "rally/cmd/rally"
)

// rooms says which of our packages each package may import: arrows point down
// only, and siblings do not know each other but where the table says so.
var rooms = map[string][]string{
	"rally":    {},
	nouns:      {},
	store:      {nouns},
	prompt:     {nouns},
	permission: {nouns},
	snapshot:   {nouns},
	config:     {nouns},
	batch:      {},
	llm:        {nouns},
	openai:     {nouns, llm},
	anthropic:  {nouns, llm},
	scripted:   {nouns, llm},
	tools:      {nouns},
	mcp:        {nouns, tools},
	compact:    {nouns, llm},
	loop:       {nouns, store, prompt, permission, snapshot, compact, tools, llm},
	command: {
		nouns, store, prompt, permission, snapshot, compact, tools, mcp, llm, openai, anthropic, scripted,
		loop, config, batch,
	},
}

// owners says which packages alone may import a library (and what is below
// its path).
var owners = []struct {
	library string
	rooms   []string
}{
	{"database/sql", []string{store}},
	{"github.com/mattn/go-sqlite3", []string{store}},
	{"github.com/openai/openai-go", []string{openai, llm}},
	{"github.com/anthropics/anthropic-sdk-go", []string{anthropic, llm}},
	{"github.com/modelcontextprotocol/go-sdk", []string{mcp}},
	{"github.com/spf13/cobra", []string{command}},
	{"github.com/spf13/viper", []string{command}},
	{"github.com/fatih/color", []string{command}},
	{"github.com/schollz/progressbar", []string{command}},
}

// forbiddenNames are packages that become a drawer for everything.
var forbiddenNames = strings.Fields("app core common util utils helpers types models errors log pubsub message agent manager service ui mocks pkg")

// A file is a Go file of ours with what it imports.
type file struct {
	path    string
	pkg     string // import path
	test    bool
	imports []string
}

func TestArchitecture(t *testing.T) {
	for _, f := range goFiles(t) {
		allowed, known := rooms[f.pkg]
		if !known {
			t.Errorf("%s: package %s is not in the table of rooms; add it to arch_test.go and ARCHITECTURE.md", f.path, f.pkg)
			continue
		}
		if name := f.pkg[strings.LastIndex(f.pkg, "/")+1:]; slices.Contains(forbiddenNames, name) {
			t.Errorf("%s: a package named %q collects what has no home; name it by what it does", f.path, name)
		}
		for _, imported := range f.imports {
			checkOwn(t, f, allowed, imported)
			checkLibrary(t, f, imported)
		}
	}
}

// checkOwn lets a test import more than its package may: it drives real
// neighbours instead of mocks. The nouns stay a leaf even there.
func checkOwn(t *testing.T, f file, allowed []string, imported string) {
	t.Helper()
	if imported != "rally" && !strings.HasPrefix(imported, "rally/") || imported == f.pkg {
		return
	}
	if f.test && f.pkg != nouns && imported != command {
		return
	}
	if !slices.Contains(allowed, imported) {
		t.Errorf("%s: %s must not import %s", f.path, f.pkg, imported)
	}
}

func checkLibrary(t *testing.T, f file, imported string) {
	t.Helper()
	if f.pkg == nouns && !f.test && strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
		t.Errorf("%s: the nouns import the standard library alone, not %s", f.path, imported)
	}
	if f.test {
		return
	}
	for _, o := range owners {
		if (imported == o.library || strings.HasPrefix(imported, o.library+"/")) && !slices.Contains(o.rooms, f.pkg) {
			t.Errorf("%s: %s belongs to %s", f.path, o.library, strings.Join(o.rooms, ", "))
		}
	}
}

// goFiles parses the import clauses of every Go file below the root, whatever
// its build tags say.
func goFiles(t *testing.T) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			files = append(files, parse(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func parse(t *testing.T, path string) file {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	f := file{path: path, pkg: "rally", test: strings.HasSuffix(path, "_test.go")}
	if dir := filepath.ToSlash(filepath.Dir(path)); dir != "." {
		f.pkg += "/" + dir
	}
	for _, spec := range tree.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		f.imports = append(f.imports, imported)
	}
	for _, group := range tree.Comments {
		for _, c := range group.List {
			if constraint.IsGoBuild(c.Text) && strings.Contains(c.Text, "ignore") {
				f.test = true // a generator, not part of the program
			}
		}
	}
	return f
}
