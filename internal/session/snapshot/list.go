package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxNested is how many nested repositories and submodules are looked into.
const maxNested = 100

// A project is a git repository that says what is ignored. Without one the
// shadow repository lends its program and .gitignore files decide.
type project struct {
	gitDir string // empty: the shadow's, with an index that is not there
	top    string // its work tree
}

// projectOf is the repository at top, as top/.git says. The path is given to
// git outright: looking for it would end at a repository of another owner.
func projectOf(top string) project {
	gitDir := filepath.Join(top, ".git")
	if _, err := os.Stat(gitDir); err != nil {
		return project{top: top}
	}
	return project{gitDir: gitDir, top: top}
}

// ask completes a call that asks about the project from dir.
func (t *Tree) ask(p project, dir string, stdin []byte, args ...string) call {
	c := call{args: args, dir: dir, gitDir: p.gitDir, workTree: p.top, stdin: stdin}
	if p.gitDir == "" {
		c.index = filepath.Join(t.repo, "no-index")
	}
	return c
}

// A candidate is a file or link that a tree may hold.
type candidate struct {
	name string // relative to the work directory, with slashes
	info fs.FileInfo
}

// list is what is there of the project's files: tracked, or not ignored.
func (t *Tree) list(ctx context.Context) ([]candidate, error) {
	l := &lister{tree: t, seen: map[string]bool{}}
	err := l.add(ctx, projectOf(t.opts.Root), "")
	return l.found, err
}

type lister struct {
	tree   *Tree
	found  []candidate
	nested int
	seen   map[string]bool // unmerged files are listed once a stage
}

// add lists the files below prefix, which is empty or ends with a slash.
func (l *lister) add(ctx context.Context, p project, prefix string) error {
	dir := l.tree.path(prefix)
	out, err := l.files(ctx, p, dir)
	if exitCode(err) > 0 && p.gitDir != "" { // a repository that git cannot read
		out, err = l.files(ctx, project{top: dir}, dir)
	}
	if err != nil {
		return err
	}
	var nested []string
	for b := range bytes.SplitSeq(out, []byte{0}) {
		name := prefix + strings.TrimSuffix(string(b), "/") // a repository has a slash
		if len(b) == 0 || l.seen[name] {
			continue
		}
		l.seen[name] = true
		info, err := os.Lstat(l.tree.path(name))
		switch {
		case err != nil || !usable(name) || l.tree.excluded(l.tree.path(name)):
		case info.IsDir():
			nested = append(nested, name+"/")
		case isPlain(info):
			if l.found = append(l.found, candidate{name, info}); len(l.found) > l.tree.opts.Limits.Files {
				return fmt.Errorf("the work directory has more than %d files", l.tree.opts.Limits.Files)
			}
		}
	}
	for _, name := range nested {
		p := projectOf(strings.TrimSuffix(l.tree.path(name), "/"))
		if p.gitDir == "" { // a submodule that is not checked out
			continue
		}
		if l.nested++; l.nested > maxNested {
			return nil
		}
		if err := l.add(ctx, p, name); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) files(ctx context.Context, p project, dir string) ([]byte, error) {
	return l.tree.output(ctx, l.tree.ask(p, dir, nil, "ls-files", "-z", "--cached", "--others", "--exclude-standard"))
}

// usable reports whether a name can stand in a tree and in a patch part, and
// is not one of rally's temporary files.
func usable(name string) bool {
	if !utf8.ValidString(name) {
		return false
	}
	base := name[strings.LastIndexByte(name, '/')+1:]
	if strings.HasPrefix(base, ".rally-") && strings.HasSuffix(base, ".tmp") {
		return false
	}
	return plain(name)
}

// plain reports whether a slash-separated name stays below where it starts
// and outside of any repository's own folder.
func plain(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") {
			return false
		}
	}
	return true
}

// path is where a name of a tree is on disk.
func (t *Tree) path(name string) string {
	return filepath.Join(t.opts.WorkTree, filepath.FromSlash(name))
}

// excluded reports whether path belongs to rally itself.
func (t *Tree) excluded(path string) bool {
	if within(t.opts.Dir, path) {
		return true
	}
	for _, own := range t.opts.Exclude {
		if within(own, path) || strings.HasPrefix(path, own+"-") {
			return true
		}
	}
	return false
}
