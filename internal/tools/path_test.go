package tools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolve(t *testing.T) {
	env := newEnv(t)
	env.Environ = []string{"HOME=" + env.Directory + "/home"}
	env.Directory = filepath.Join(env.Root, "sub")
	put(t, env, "file", "")
	for _, l := range []struct{ from, to string }{{"up", ".."}, {"self", "self"}, {"far", "/etc"}, {"dead", "not/there"}} {
		if err := os.Symlink(l.to, filepath.Join(env.Directory, l.from)); err != nil {
			t.Fatal(err)
		}
	}
	root, above := env.Root, filepath.Dir(env.Root)
	for path, want := range map[string]Place{
		"file":               {Path: root + "/sub/file", Pattern: "sub/file"},
		"./a/../file":        {Path: root + "/sub/file", Pattern: "sub/file"},
		".":                  {Path: root + "/sub", Pattern: "sub"},
		"..":                 {Path: root, Pattern: "."},
		"up/new/x":           {Path: root + "/new/x", Pattern: "new/x"},
		"up/..":              {Path: above, Pattern: "..", External: true, ExternalPattern: above + "/*"},
		"../../x":            {Path: above + "/x", Pattern: "../x", External: true, ExternalPattern: above + "/*"},
		"dead":               {Path: root + "/sub/not/there", Pattern: "sub/not/there"},
		"dead/x":             {Path: root + "/sub/not/there/x", Pattern: "sub/not/there/x"},
		"~/x":                {Path: root + "/home/x", Pattern: "home/x"},
		"far/no-such-file":   {Path: "/etc/no-such-file", External: true, ExternalPattern: "/etc/*"},
		"/":                  {Path: "/", External: true, ExternalPattern: "/*"},
		root + "x/y":         {Path: root + "x/y", Pattern: "../" + filepath.Base(root) + "x/y", External: true, ExternalPattern: root + "x/*"},
		"a\tb \"c\" é":       {Path: root + "/sub/a\tb \"c\" é", Pattern: "sub/a\tb \"c\" é"},
		"-rf":                {Path: root + "/sub/-rf", Pattern: "sub/-rf"},
		"sub//x///y/":        {Path: root + "/sub/sub/x/y", Pattern: "sub/sub/x/y"},
		"nowhere/../../file": {Path: root + "/file", Pattern: "file"},
	} {
		got, err := Resolve(env, path)
		if want.Pattern == "" {
			got.Pattern = ""
		}
		if err != nil {
			t.Errorf("%q: %v", path, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", path, d)
		}
	}
	for _, path := range []string{"", "a\x00b", "self", "self/x", strings.Repeat("x", 300)} {
		if got, err := Resolve(env, path); err == nil {
			t.Errorf("%q: %+v", path, got)
		}
	}
}

// Whatever the path, it is external or inside, absolute and clean, and what
// exists is what the kernel finds.
func FuzzResolve(f *testing.F) {
	for _, s := range []string{"a", "../x", "up/../..", "loop/a", "/etc/passwd", "~/x", "a//b/./c", "dead/../x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		env := newEnv(t)
		put(t, env, "a/b", "")
		for from, to := range map[string]string{"up": "..", "loop": "loop", "dead": "gone/x", "l": "a"} {
			if err := os.Symlink(to, filepath.Join(env.Directory, from)); err != nil {
				t.Fatal(err)
			}
		}
		p, err := Resolve(env, path)
		if err != nil {
			return
		}
		if !filepath.IsAbs(p.Path) || filepath.Clean(p.Path) != p.Path || p.External == Inside(env.Directory, p.Path) {
			t.Fatalf("%q: %+v", path, p)
		}
		real, err := filepath.EvalSymlinks(p.Path)
		if err == nil && real != p.Path {
			t.Fatalf("%q: %+v is still a link to %s", path, p, real)
		}
	})
}

func TestBound(t *testing.T) {
	env := newEnv(t)
	if out, path, cut := Bound(env, "short"); out != "short" || path != "" || cut {
		t.Errorf("%q %q %v", out, path, cut)
	}
	text := strings.Repeat("line\n", 3000)
	out, path, cut := Bound(env, text)
	if !cut || content(t, path) != text {
		t.Errorf("saved in %q", path)
	}
	holds(t, out, "\n\n...1,001 lines truncated...\n\nThe tool call succeeded but the output was truncated. Full output saved to: "+path)
	if strings.Count(out, "line\n") != 2000 {
		t.Errorf("%d lines", strings.Count(out, "line\n"))
	}
	out, _, _ = Bound(env, strings.Repeat("é", 100_000))
	holds(t, out, "bytes truncated...")
	if len(out) > defaultBytes+500 || strings.Contains(out, "\ufffd") {
		t.Errorf("%d bytes", len(out))
	}
	other := *env
	other.SessionID = "ses_2"
	_, kept, _ := Bound(&other, text)
	if err := RemoveOutputs(env.Outputs, "ses_1"); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(env.Outputs); len(left) != 1 || left[0].Name() != filepath.Base(kept) {
		t.Errorf("%v", left)
	}
	now := env.Now()
	if err := CleanOutputs(env.Outputs, now); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(env.Outputs); len(left) != 1 {
		t.Error("a new output was removed")
	}
	if err := CleanOutputs(env.Outputs, now+8*24*3600*1000); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(env.Outputs); len(left) != 0 {
		t.Error("an old output was kept")
	}
	if err := CleanOutputs("/no/such/folder", now); err != nil {
		t.Error(err)
	}
	env.Outputs = "/dev/null/x"
	out, path, cut = Bound(env, text)
	if holds(t, out, "could not be saved"); path != "" || !cut {
		t.Errorf("%q", path)
	}
}

func TestTodos(t *testing.T) {
	env := newEnv(t)
	var stored []Todo
	env.Todos = NewTodos(nil, func(list []Todo) error { stored = list; return nil })
	r := does(t, env, "todowrite", m{"todos": []m{{"content": "first thing", "status": "pending", "priority": "high"}, {"content": "b", "status": "completed", "priority": "low"}}})
	if r.Title != "1 todo" || len(stored) != 2 {
		t.Errorf("%q %v", r.Title, stored)
	}
	holds(t, does(t, env, "todoread", m{}).Output, `"content": "first thing"`)
}
