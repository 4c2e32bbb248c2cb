package tools

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEditBytes(t *testing.T) {
	for _, c := range []struct {
		name, before, old, new string
		all                    bool
		want                   string
	}{
		{"bom", "\xef\xbb\xbfa\n", "a", "b", false, "\xef\xbb\xbfb\n"},
		{"crlf", "a\r\nb\r\n", "a\nb", "a\nc", false, "a\r\nc\r\n"},
		{"crlf inserted", "a\r\nb\r\n", "b", "b\nc", false, "a\r\nb\r\nc\r\n"},
		{"mixed", "a\r\nb\nc\r\n", "b", "B", false, "a\r\nB\nc\r\n"},
		{"latin1", "A\xe9\nB\n", "B", "C", false, "A\xe9\nC\n"},
		{"latin1 text", "A\xe9\nB\xe9\n", "Bé", "Cü", false, "A\xe9\nC\xfc\n"},
		{"utf16", "\xff\xfea\x00\r\x00\n\x00b\x00", "a\nb", "c\nd", false, "\xff\xfec\x00\r\x00\n\x00d\x00"},
		{"utf16 exact is not by byte", "\xff\xfea\x00b\x00", "b", "é", false, "\xff\xfea\x00\xe9\x00"},
		{"literal dollar", "x=1;y=2", "y=2", "y=$&$1$$", false, "x=1;y=$&$1$$"},
		{"all", "a a a", "a", "b", true, "b b b"},
		{"all over line ends", "a\nb\r\na\r\nb\r\n", "a\nb", "x\ny", true, "x\ny\r\nx\r\ny\r\n"},
		{"no final newline", "a\nb", "b", "c", false, "a\nc"},
		{"trailing newline of old", "a\n  b\nc\n", "b  \n", "B\n", false, "a\nB\nc\n"},
		{"typography", "it’s “x”\nit’s\n", `it's "x"`, "y", false, "y\nit’s\n"},
		{"half an ellipsis", "a…b .. c\n", "..", "x", false, "a…b x c\n"},
		{"narrow space", "a\u202fb c\u202fd\n", "a b", "x", false, "x c\u202fd\n"},
		{"indentation", "if x {\n\t\tfoo()\n\t\t\tbar()\n}\n", "foo()\n\tbar()", "baz()", false, "if x {\nbaz()\n}\n"},
		{"indentation tells places apart", "  a\n    b\n\n  a\n      b\n", "a\n  b", "x", false, "x\n\n  a\n      b\n"},
		{"trimmed lines", "  a  \n b\n", "a\n\tb", "x", false, "x\n"},
		{"white space", "x  =   1\n", "x = 1", "x = 2", false, "x = 2\n"},
		{"white space in a line", "let x  =   1;\n", "x = 1", "y", false, "let y;\n"},
		{"escapes", "a\tb\n", `a\tb`, "c", false, "c\n"},
		{"trimmed ends", "foo(a)\n", "\n  foo(a)\n\n", "b", false, "b\n"},
		{"anchors", "func f() {\n  one(a)\n  two(b)\n  three(c)\n}\n", "func f() {\n  one(x)\n  two(b)\n  three(z)\n}", "gone", false, "gone\n"},
		{"context", "begin\nalpha\nbeta\nq\nend\n", "begin\nalpha\nbeta\nsomething else here\nend", "gone", false, "gone\n"},
		{"new file", "", "", "x", false, "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newEnv(t)
			path := put(t, env, "f", c.before)
			does(t, env, "edit", m{"filePath": path, "oldString": c.old, "newString": c.new, "replaceAll": c.all})
			if got := content(t, path); got != c.want {
				t.Errorf("got %q, wanted %q", got, c.want)
			}
		})
	}
}

func TestEditRefused(t *testing.T) {
	big := "start\n" + strings.Repeat("x\n", 8) + "end\n"
	for _, c := range []struct {
		name, before, old, new string
		all                    bool
		says                   []string
	}{
		{"two", "a\na\n", "a", "b", false, []string{"multiple matches", "2 places", "1: a", "2: a"}},
		{"none", "func main() {\n\treturn 1\n}\n", "func main() {\n\treturn 22222222222", "b", false, []string{"Could not find oldString", "1: func main() {"}},
		{"nothing near", "abc\n", "something quite different", "b", false, []string{"No line of the file is like it"}},
		{"same", "a", "a", "a", false, []string{"identical"}},
		{"empty", "a", "", "b", false, []string{"oldString cannot be empty"}},
		{"latin1 cannot", "A\xe9", "A", "€", false, []string{"Latin-1", "U+20AC"}},
		{"two guesses", "f {\n abcdefgh\n}\nf {\n abcdefgi\n}\n", "f {\n abcdefgx\n}", "z", true, []string{"several places are like it"}},
		{"too long", big, "start\nx\nx\nend", "z", false, []string{"Could not find"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newEnv(t)
			path := put(t, env, "f", c.before)
			holds(t, fails(t, env, "edit", m{"filePath": path, "oldString": c.old, "newString": c.new, "replaceAll": c.all}), c.says...)
			if got := content(t, path); got != c.before {
				t.Errorf("the file is %q", got)
			}
		})
	}
	env := newEnv(t)
	put(t, env, "config.yaml", "")
	holds(t, fails(t, env, "edit", m{"filePath": "config.yml", "oldString": "a", "newString": "b"}), "File not found", "config.yaml")
	holds(t, fails(t, env, "edit", m{"filePath": ".", "oldString": "a", "newString": "b"}), "directory")
}

func TestEditKeepsTheFileApart(t *testing.T) {
	env := newEnv(t)
	path := put(t, env, "real", "a\n")
	if err := os.Chmod(path, 0o754); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(env.Directory, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	r := does(t, env, "edit", m{"filePath": link, "oldString": "a", "newString": "b"})
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o754 || content(t, path) != "b\n" {
		t.Errorf("mode %v, content %q, %v", info.Mode(), content(t, path), err)
	}
	if l, err := os.Lstat(link); err != nil || l.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", l, err)
	}
	if s := stamps(t, r); len(s) != 1 || s[0].Path != path || s[0].Hash != hashOf([]byte("b\n")) {
		t.Errorf("stamps %v", s)
	}
	holds(t, r.Metadata.Text("diff"), "-a\n+b\n")
	left, _ := filepath.Glob(filepath.Join(env.Directory, ".rally-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestEditSeesOthersChanges(t *testing.T) {
	env := newEnv(t)
	path := put(t, env, "f", "aa\nbb\n")
	does(t, env, "read", m{"filePath": path})
	does(t, env, "edit", m{"filePath": path, "oldString": "aa", "newString": "AA"})
	does(t, env, "edit", m{"filePath": path, "oldString": "bb", "newString": "BB"})
	put(t, env, "f", "AA\nBB\nother\n")
	holds(t, fails(t, env, "edit", m{"filePath": path, "oldString": "AA", "newString": "x"}), "Read it again")

	// The next process knows it from the stored metadata.
	stored := does(t, env, "read", m{"filePath": path})
	put(t, env, "f", "AA\nBB\nother!\n")
	next := newEnv(t)
	next.Files.Seed(stored.Metadata)
	holds(t, fails(t, next, "edit", m{"filePath": path, "oldString": "AA", "newString": "x"}), "Read it again")
}

// Outside of the span nothing changes, whatever the bytes are.
func TestEditOutsideTheSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "b", " ", "\t", "\n", "\r\n", "\r", "é", "’", "\xe9", "\xff", "\u202f", "x = 1", "\\n", "\x00"})
		draw := func(name string) string { return strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, name), "") }
		before, old, fresh := draw("before"), draw("old"), draw("new")
		all := rapid.Bool().Draw(t, "all")
		spans, _, err := findSpans([]byte(before), old, all)
		if old == "" || err != nil {
			return
		}
		got, err := change{OldString: old, NewString: fresh, ReplaceAll: all}.apply("f", []byte(before), true)
		if err != nil {
			return
		}
		rest, at := got, 0
		for i, s := range spans {
			if s.start < at || s.end < s.start || s.end > len(before) {
				t.Fatalf("spans %v of %q", spans, before)
			}
			kept := before[at:s.start]
			if i == 0 && !bytes.HasPrefix(rest, []byte(kept)) {
				t.Fatalf("before the span: %q became %q", before, got)
			}
			at = s.end
			cut := bytes.Index(rest, []byte(kept))
			if cut < 0 {
				t.Fatalf("between the spans: %q became %q", before, got)
			}
			rest = rest[cut+len(kept):]
		}
		if !bytes.HasSuffix(rest, []byte(before[at:])) {
			t.Fatalf("after the span: %q became %q", before, got)
		}
	})
}

func FuzzFindSpans(f *testing.F) {
	f.Add([]byte("a\r\nb"), "a\nb", true)
	f.Add([]byte("\xff\xfea\x00"), "a", false)
	f.Add([]byte("it’s"), "it's", false)
	f.Add([]byte("x{\n a\n}\n"), "x{\nb\n}", false)
	f.Fuzz(func(t *testing.T, content []byte, old string, all bool) {
		spans, _, err := findSpans(content, old, all)
		if err != nil {
			return
		}
		at := 0
		for _, s := range spans {
			if s.start < at || s.end < s.start || s.end > len(content) {
				t.Fatalf("spans %v of %q for %q", spans, content, old)
			}
			at = s.end
		}
	})
}

func TestPlainTextMapsBack(t *testing.T) {
	text := "a’b…c\u202fd\xffé"
	plain, at := plainText(text)
	if want := "a'b...c d\xffé"; plain != want {
		t.Fatalf("%q", plain)
	}
	var got []int
	for i := range len(plain) + 1 {
		got = append(got, at(i))
	}
	// Inside the ellipsis, which begins at 5 and ends at 8, there is no place.
	want := []int{0, 1, 4, 5, -1, -1, 8, 9, 12, 13, 14, 15, 16}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func BenchmarkEdit10MB(b *testing.B) {
	env := newEnv(b)
	path := put(b, env, "big", strings.Repeat("a line of text that is fifty characters long here\n", 200_000)+"needle\n")
	for i := 0; b.Loop(); i++ {
		old, fresh := "needle", "NEEDLE"
		if i%2 == 1 {
			old, fresh = fresh, old
		}
		does(b, env, "edit", m{"filePath": path, "oldString": old, "newString": fresh})
	}
}
