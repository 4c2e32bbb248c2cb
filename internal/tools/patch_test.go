package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func patchOf(lines ...string) m {
	return m{"patchText": "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch"}
}

func TestApplyPatch(t *testing.T) {
	for _, c := range []struct {
		name, before string
		patch        []string
		want         string
	}{
		{"change", "a\nb\nc\n", []string{"@@", " a", "-b", "+B", " c"}, "a\nB\nc\n"},
		{"no @@", "a\nb\n", []string{"-b", "+B"}, "a\nB\n"},
		{"crlf", "a\r\nb\r\n", []string{"@@", "-b", "+B", "+C"}, "a\r\nB\r\nC\r\n"},
		{"bom", "\xef\xbb\xbfa\n", []string{"@@", "-a", "+b"}, "\xef\xbb\xbfb\n"},
		{"latin1", "\xe9\nb\n", []string{"@@", " é", "-b", "+ü"}, "\xe9\n\xfc\n"},
		{"context stays as it is", "  x’s\t\nb\n", []string{"@@", " x's", "-b", "+c"}, "  x’s\t\nc\n"},
		{"after a line", "f\nx\ng\nx\n", []string{"@@ g", "-x", "+y"}, "f\nx\ng\ny\n"},
		{"after two lines", "f\nx\ng\nx\nh\nx\n", []string{"@@ g", "@@ h", "-x", "+y"}, "f\nx\ng\nx\nh\ny\n"},
		{"two chunks", "a\nb\nc\nd\n", []string{"@@", "-a", "+A", "@@", "-d", "+D"}, "A\nb\nc\nD\n"},
		{"insert after context", "a\nb\n", []string{"@@ a", "+x"}, "a\nx\nb\n"},
		{"append", "a\n", []string{"@@", "+b"}, "a\nb\n"},
		{"append without line end", "a", []string{"@@", "+b"}, "a\nb"},
		{"end of file", "x\na\nx\n", []string{"@@", "-x", "+y", "*** End of File"}, "x\na\ny\n"},
		{"no final newline", "a\nb", []string{"@@", "-b", "+c"}, "a\nc"},
		{"delete all", "a\n", []string{"@@", "-a"}, ""},
		{"empty context", "a\n\nb\n", []string{"@@", " a", "", "-b", "+c"}, "a\n\nc\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newEnv(t)
			path := put(t, env, "f", c.before)
			r := does(t, env, "apply_patch", patchOf(append([]string{"*** Update File: f"}, c.patch...)...))
			if got := content(t, path); got != c.want {
				t.Errorf("got %q, wanted %q", got, c.want)
			}
			if r.Output != "Success. Updated the following files:\nM f" {
				t.Errorf("%q", r.Output)
			}
		})
	}
}

func TestApplyPatchFiles(t *testing.T) {
	env := newEnv(t)
	put(t, env, "gone", "x\n")
	from := put(t, env, "from", "a\n")
	if err := os.Chmod(from, 0o755); err != nil {
		t.Fatal(err)
	}
	r := does(t, env, "apply_patch", patchOf("*** Add File: new/f", "+one", "+", "+two", "*** Delete File: gone",
		"*** Update File: from", "*** Move to: to/here", "@@", "-a", "+b", "*** Update File: new/f", "@@", "-one", "+1"))
	if d := cmp.Diff("Success. Updated the following files:\nA new/f\nD gone\nM to/here", strings.Replace(r.Output, "M new/f", "A new/f", 1)); d != "" {
		t.Error(d)
	}
	if got := content(t, filepath.Join(env.Directory, "new/f")); got != "1\n\ntwo\n" {
		t.Errorf("%q", got)
	}
	moved := filepath.Join(env.Directory, "to/here")
	info, err := os.Stat(moved)
	if err != nil || info.Mode() != 0o755 || content(t, moved) != "b\n" {
		t.Errorf("%v %v", info, err)
	}
	for _, name := range []string{"gone", "from"} {
		if _, err := os.Stat(filepath.Join(env.Directory, name)); !os.IsNotExist(err) {
			t.Errorf("%s is still there", name)
		}
	}
	if len(stamps(t, r)) != 2 {
		t.Errorf("%v", stamps(t, r))
	}
	holds(t, r.Metadata.Text("diff"), "+two", "-x")
}

// All or nothing.
func TestApplyPatchRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		patch m
		says  []string
	}{
		{"no markers", m{"patchText": "hello"}, []string{"missing Begin/End markers"}},
		{"empty", m{"patchText": "*** Begin Patch\n*** End Patch"}, []string{"empty patch"}},
		{"no hunks", patchOf(""), []string{"no hunks found"}},
		{"lost space", patchOf("*** Update File: a", "@@", " a", "lost"), []string{`line 5 of the patch ("lost")`}},
		{"second fails", patchOf("*** Update File: a", "@@", "-a", "+b", "*** Update File: b", "@@", "-nowhere", "+x"), []string{"Nothing was changed", "Failed to find expected lines in", "nowhere"}},
		{"add exists", patchOf("*** Add File: a", "+x"), []string{"exists already"}},
		{"delete missing", patchOf("*** Delete File: nope"), []string{"File not found"}},
		{"context missing", patchOf("*** Update File: a", "@@ def x", "-a", "+b"), []string{"Failed to find context 'def x'"}},
		{"no chunks", patchOf("*** Update File: a"), []string{"has no chunks"}},
		{"write fails", patchOf("*** Update File: a", "@@", "-a", "+b", "*** Delete File: b", "*** Add File: a/b", "+x"), []string{"Nothing was changed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newEnv(t)
			a, b := put(t, env, "a", "a\n"), put(t, env, "b", "b\n")
			holds(t, fails(t, env, "apply_patch", c.patch), c.says...)
			if content(t, a) != "a\n" || content(t, b) != "b\n" {
				t.Errorf("%q %q", content(t, a), content(t, b))
			}
			if left, _ := os.ReadDir(env.Directory); len(left) != 2 {
				t.Errorf("%v", left)
			}
		})
	}
}

func TestMultiEdit(t *testing.T) {
	env := newEnv(t)
	path := put(t, env, "f", "a\nb\n")
	holds(t, fails(t, env, "multiedit", m{"filePath": "f", "edits": []m{{"oldString": "a", "newString": "x"}, {"oldString": "zz", "newString": "y"}}}),
		"Nothing was changed: edit 2 of 2 failed")
	if content(t, path) != "a\nb\n" {
		t.Error("it was changed")
	}
	does(t, env, "multiedit", m{"filePath": "f", "edits": []m{{"oldString": "a", "newString": "x"}, {"oldString": "x", "newString": "y"}}})
	if content(t, path) != "y\nb\n" {
		t.Errorf("%q", content(t, path))
	}
}

func FuzzParsePatch(f *testing.F) {
	f.Add("*** Begin Patch\n*** Update File: a\n@@ x\n a\n-b\n+c\n*** End of File\n*** Add File: b\n+x\n*** End Patch")
	f.Add("cat <<EOF\n*** Begin Patch\n*** Delete File: a\n*** End Patch\nEOF")
	f.Fuzz(func(t *testing.T, text string) {
		sections, err := parsePatch(text)
		if err != nil {
			return
		}
		for _, s := range sections {
			if s.path == "" {
				t.Fatalf("a section without a path in %q", text)
			}
			_, _ = applyChunks("f", []byte("a\nb\r\nx\n"), s.chunks)
		}
	})
}

// Lines that a patch does not name stay as they are.
func TestApplyPatchKeepsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"a", "b", "", " x", "é", "\xe9", "it’s"})
		ends := rapid.SampledFrom([]string{"\n", "\r\n"})
		var lines []string
		n := rapid.IntRange(1, 8).Draw(t, "n")
		for i := range n {
			end := ends.Draw(t, "end")
			if i == n-1 && rapid.Bool().Draw(t, "open") {
				end = ""
			}
			lines = append(lines, line.Draw(t, "line")+end)
		}
		at := rapid.IntRange(0, n-1).Draw(t, "at")
		lines[at] = "unique" + lines[at][len(strings.TrimRight(lines[at], "\r\n")):]
		before := strings.Join(lines, "")
		got, err := applyChunks("f", []byte(before), []chunk{{lines: []patchLine{{'-', "unique"}, {'+', "new"}}}})
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Replace(before, "unique", "new", 1); string(got) != want {
			t.Fatalf("%q became %q", before, got)
		}
	})
}
