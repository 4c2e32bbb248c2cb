package snapshot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// big is over the limit of untracked files.
var big = strings.Repeat("0123456789abcde\n", 1<<17+1)

// TestSteps holds, for each kind of project and change, which files a patch
// names, and Invariants 14 and I34: revert and unrevert go back and forth and
// touch nothing else.
func TestSteps(t *testing.T) {
	type names = []string
	repo := func(w *world) { w.git("", "init", "-q") }
	tests := []struct {
		name   string
		dir    string
		before func(w *world)
		step   func(w *world)
		want   names
	}{
		{"nothing", "", func(w *world) { w.write("a", "1") }, func(*world) {}, nil},
		{
			"edit, create, delete", "",
			func(w *world) { repo(w); w.write("a", "1"); w.write("d/b", "1"); w.write("keep", "1") },
			func(w *world) { w.write("a", "2"); w.write("n/e/w", "1"); w.remove("d") },
			names{"a", "d/b", "n/e/w"},
		},
		{
			"no repository", "",
			func(w *world) { w.write("a", "1"); w.write(".gitignore", "out/\n"); w.write("out/x", "1") },
			func(w *world) { w.write("a", "2"); w.write("out/x", "2"); w.write("out/y", "2") },
			names{"a"},
		},
		{
			"rename of a folder", "",
			func(w *world) { repo(w); w.write("old/a", "1"); w.write("old/b", "1") },
			func(w *world) { w.must(os.Rename(w.path("old"), w.path("new"))) },
			names{"new/a", "new/b", "old/a", "old/b"},
		},
		{
			"modes", "",
			func(w *world) {
				w.write("a", "1")
				w.write("secret", "1")
				w.must(os.Chmod(w.path("secret"), 0o600))
				w.write("shown", "1")
				w.must(os.Chmod(w.path("shown"), 0o604))
				w.write("tool", "1")
				w.must(os.Chmod(w.path("tool"), 0o750))
			},
			func(w *world) {
				w.must(os.Chmod(w.path("a"), 0o744))
				w.remove("secret")
				w.write("tool", "2")
				w.must(os.Chmod(w.path("shown"), 0o750))
			},
			names{"a", "secret", "shown", "tool"},
		},
		{
			"links", "",
			func(w *world) { w.write("a", "1"); w.link("a", "l"); w.link("/nowhere", "m"); w.write("f", "1") },
			func(w *world) {
				w.remove("l")
				w.link("b", "l")
				w.remove("m")
				w.remove("f")
				w.link("a", "f")
				w.link("../..", "up")
			},
			names{"f", "l", "m", "up"},
		},
		{
			"file and folder change places", "",
			func(w *world) { w.write("x", "1"); w.write("y/z", "1"); w.write("y/w/v", "1") },
			func(w *world) { w.remove("x"); w.write("x/a/b", "1"); w.remove("y"); w.write("y", "1") },
			names{"x", "x/a/b", "y", "y/w/v", "y/z"},
		},
		{
			"folder becomes a link", "",
			func(w *world) { w.write("d/x", "1"); w.write("e/x", "keep") },
			func(w *world) { w.remove("d"); w.link("e", "d") },
			names{"d", "d/x"},
		},
		{
			"large files", "",
			func(w *world) { w.write("big", big); w.write("grows", "1"); w.write("shrinks", big) },
			func(w *world) {
				w.write("big", big+"more")
				w.write("grows", big)
				w.write("shrinks", "1")
				w.write("newbig", big)
			},
			names{"grows"},
		},
		{
			"sub-directory of a repository", "sub/dir",
			func(w *world) {
				repo(w)
				w.write("../../.gitignore", "*.log\n")
				w.write("../../other/a", "1")
				w.write("a", "1")
				w.write("../.gitignore", "*.tmp\n")
				w.write(".gitignore", "*.bak\n")
				w.write("x.bak", "1")
			},
			func(w *world) {
				w.write("a", "2")
				w.write("../../other/a", "2")
				w.write("x.log", "1")
				w.write("x.tmp", "1")
				w.write("x.bak", "2")
			},
			names{"a"},
		},
		{
			"exclude file and tracked though ignored", "",
			func(w *world) {
				repo(w)
				w.write(".git/info/exclude", "private\n")
				w.write("private", "1")
				w.write(".gitignore", "gen\n")
				w.write("gen", "1")
				w.git("", "add", "-f", "gen")
			},
			func(w *world) { w.write("private", "2"); w.write("gen", "2") },
			names{"gen"},
		},
		{
			"no longer ignored", "",
			func(w *world) {
				repo(w)
				w.write(".gitignore", ".env\nmodules/\n/sub/x\n")
				w.write(".env", "key")
				w.write("modules/a", "1")
				w.write("sub/x", "1")
			},
			func(w *world) { w.remove(".gitignore"); w.write("fresh", "1") },
			names{".gitignore", "fresh"},
		},
		{
			"no longer ignored below a sub-directory", "sub",
			func(w *world) {
				repo(w)
				w.write("../.gitignore", "*.key\n")
				w.write(".gitignore", ".env\n")
				w.write(".env", "1")
				w.write("a.key", "1")
			},
			func(w *world) { w.write(".gitignore", "!*.key\n"); w.write("n", "1") },
			names{".gitignore", "n"},
		},
		{
			"ignored from now on", "",
			func(w *world) { repo(w); w.write("same", "1"); w.write("changes", "1"); w.write("goes", "1") },
			func(w *world) {
				w.write(".gitignore", "same\nchanges\ngoes\nnew\n")
				w.write("changes", "2")
				w.remove("goes")
				w.write("new", "1")
			},
			names{".gitignore", "changes", "goes"},
		},
		{
			"nested repository and submodule", "",
			func(w *world) {
				repo(w)
				lib := filepath.Join(filepath.Dir(w.opts.Root), "lib")
				w.must(os.MkdirAll(lib, 0o755))
				gitIn(w.t, lib, "init", "-q")
				w.must(os.WriteFile(filepath.Join(lib, "l"), []byte("1"), 0o644))
				gitIn(w.t, lib, "add", ".")
				gitIn(w.t, lib, "commit", "-q", "-m", "x")
				w.git("", "submodule", "--quiet", "add", lib, "mod")
				w.write("nested/a", "1")
				w.write("nested/.gitignore", "ign\n")
				w.git("nested", "init", "-q")
			},
			func(w *world) {
				w.write("mod/l", "2")
				w.write("mod/n", "1")
				w.write("nested/a", "2")
				w.write("nested/ign", "1")
			},
			names{"mod/l", "mod/n", "nested/a"},
		},
		{
			"becomes a repository", "",
			func(w *world) { w.write("a", "1"); w.write("s/b", "1") },
			func(w *world) {
				repo(w)
				w.git("s", "init", "-q")
				w.write("s/b", "2")
				w.git("", "add", "a")
				w.git("", "commit", "-q", "-m", "x")
			},
			names{"s/b"},
		},
		{
			"attributes convert nothing", "",
			func(w *world) {
				repo(w)
				w.git("", "config", "core.autocrlf", "true")
				w.write(".gitattributes", "* text=auto eol=crlf ident filter=lfs working-tree-encoding=UTF-16\n")
				w.write("a", "1\r\n2\n$Id$\n")
			},
			func(w *world) { w.write("a", "1\n2\r\n$Id: x$\r\n"); w.write("b", "\r\n") },
			names{"a", "b"},
		},
		{
			"odd names", "",
			func(w *world) {
				w.write("a\nb\t\"c", "1")
				w.write("-x", "1")
				w.write("*", "1")
				w.write(":(top)é", "1")
			},
			func(w *world) {
				w.write("a\nb\t\"c", "2")
				w.write("-x", "2")
				w.remove("*")
				w.write(":(top)é", "2")
				w.write(" ", "1")
				w.write("bad\xff", "1")
				w.write(".rally-1.tmp", "1")
			},
			names{" ", "*", "-x", ":(top)é", "a\nb\t\"c"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.dir)
			tt.before(w)
			from := w.track()
			before := w.state()
			tt.step(w)
			patch := w.patch(from)
			after := w.state()
			if d := cmp.Diff(tt.want, w.names(patch.Files)); d != "" {
				t.Fatalf("patch (-want +got):\n%s", d)
			}
			_, undo := w.revert(patch)
			// What the patch names is as it was, all else as it is.
			named := map[string]bool{}
			for _, file := range patch.Files {
				rel, _ := filepath.Rel(w.opts.Root, file)
				named[rel] = true
			}
			want := map[string]string{}
			for name, v := range after {
				if !named[name] && v != "folder" {
					want[name] = v
				}
			}
			for name, v := range before {
				if named[name] && v != "folder" {
					want[name] = v
				}
			}
			got := map[string]string{}
			for name, v := range w.state() {
				if v != "folder" {
					got[name] = v
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("after revert (-want +got):\n%s", d)
			}
			undo()
			w.same(after)
			if g := w.garbage(); g != nil {
				t.Errorf("left behind: %v", g)
			}
			if w.tree.Off() {
				t.Error(w.tree.Reason())
			}
		})
	}
}
