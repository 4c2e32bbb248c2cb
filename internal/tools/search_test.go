package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestGlob(t *testing.T) {
	env := newEnv(t)
	put(t, env, ".gitignore", "out/\n*.log\n")
	for i, f := range []string{"src/a.go", "src/b.go", ".hidden/c.go", "out/d.go", "x.log", ".git/e.go", "deep/er/f.go"} {
		path := put(t, env, f, "package x\n")
		at := time.Unix(int64(1000-i), 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []struct{ to, from string }{{".", "loop"}, {"src/a.go", "link.go"}} {
		if err := os.Symlink(l.to, filepath.Join(env.Directory, l.from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args m
		want []string
	}{
		{m{"pattern": "**/*.go"}, []string{"src/a.go", "src/b.go", ".hidden/c.go", "deep/er/f.go"}},
		{m{"pattern": "*.go"}, []string{"src/a.go", "src/b.go", ".hidden/c.go", "deep/er/f.go"}},
		{m{"pattern": "src/*.go"}, []string{"src/a.go", "src/b.go"}},
		{m{"pattern": "{src,deep}/**/*.go"}, []string{"src/a.go", "src/b.go", "deep/er/f.go"}},
		{m{"pattern": "out/*.go"}, []string{"out/d.go"}},
		{m{"pattern": "*.go", "path": "out"}, []string{"out/d.go"}},
		{m{"pattern": env.Directory + "/deep/**"}, []string{"deep/er/f.go"}},
		{m{"pattern": "./src/a.go"}, []string{"src/a.go"}},
	} {
		var want []string
		for _, w := range c.want {
			want = append(want, filepath.Join(env.Directory, w))
		}
		if d := cmp.Diff(strings.Join(want, "\n"), does(t, env, "glob", c.args).Output); d != "" {
			t.Errorf("%v: %s", c.args, d)
		}
	}
	holds(t, does(t, env, "glob", m{"pattern": "*.log"}).Output, "No files found", "1 file that fits is left out by ignore rules")
	if got := does(t, env, "glob", m{"pattern": "*.py"}).Output; got != "No files found" {
		t.Errorf("%q", got)
	}
	holds(t, fails(t, env, "glob", m{"pattern": "*", "path": "src/a.go"}), "must be a directory")
	holds(t, fails(t, env, "glob", m{"pattern": "*", "path": "nowhere"}), "File not found")
	holds(t, fails(t, env, "glob", m{"pattern": "[a"}), "not complete")
}

func TestGrep(t *testing.T) {
	env := newEnv(t)
	put(t, env, ".gitignore", "out/\n")
	put(t, env, "src/a.go", "package a\n// NEEDLE one\r\nx\ny\n// needle two")
	put(t, env, "src/b.txt", "NEEDLE\nNEEDLE\n")
	put(t, env, "out/d.go", "NEEDLE\n")
	put(t, env, "bin", "NEEDLE\x00")
	put(t, env, "long.js", strings.Repeat("x", 3<<20)+"NEEDLE\n")
	at := time.Unix(1000, 0)
	for _, f := range []string{"src/a.go", "src/b.txt", "long.js"} {
		if err := os.Chtimes(filepath.Join(env.Directory, f), at, at); err != nil {
			t.Fatal(err)
		}
	}
	dir := env.Directory
	for _, c := range []struct {
		args m
		want string
	}{
		{m{"pattern": "NEEDLE", "path": "src"}, "Found 3 matches\n" + dir + "/src/a.go:\n  Line 2: // NEEDLE one\n\n" + dir + "/src/b.txt:\n  Line 1: NEEDLE\n  Line 2: NEEDLE"},
		{m{"pattern": "NEEDLE", "path": "src/a.go"}, "Found 1 match\n" + dir + "/src/a.go:\n  Line 2: // NEEDLE one"},
		{m{"pattern": "(?i)needle", "include": "*.go"}, "Found 2 matches\n" + dir + "/src/a.go:\n  Line 2: // NEEDLE one\n  Line 5: // needle two"},
		{m{"pattern": "NEEDLE|two$", "include": "*.go"}, "Found 2 matches\n" + dir + "/src/a.go:\n  Line 2: // NEEDLE one\n  Line 5: // needle two"},
		{m{"pattern": "one$", "include": "src/**"}, "Found 1 match\n" + dir + "/src/a.go:\n  Line 2: // NEEDLE one"},
		{m{"pattern": "NEEDLE", "path": "out"}, "Found 1 match\n" + dir + "/out/d.go:\n  Line 1: NEEDLE"},
		{m{"pattern": "NEEDLE", "path": "src", "output_mode": "count"}, "Found 3 matches in the files\n" + dir + "/src/a.go: 1\n" + dir + "/src/b.txt: 2"},
		{m{"pattern": "NEEDLE", "output_mode": "files_with_matches"}, "Found 3 files\n" + dir + "/long.js\n" + dir + "/src/a.go\n" + dir + "/src/b.txt"},
		{m{"pattern": "^x$", "context": 1, "include": "*.go"}, "Found 1 match\n" + dir + "/src/a.go:\n  Line 2- // NEEDLE one\n  Line 3: x\n  Line 4- y"},
		{m{"pattern": "NEEDLE|^y", "context": 1, "include": "*.go"}, "Found 2 matches\n" + dir + "/src/a.go:\n  Line 1- package a\n  Line 2: // NEEDLE one\n  Line 3- x\n  Line 4: y\n  Line 5- // needle two"},
		{m{"pattern": "nowhere at all", "path": "src"}, "No files found"},
	} {
		if d := cmp.Diff(c.want, does(t, env, "grep", c.args).Output); d != "" {
			t.Errorf("%v: %s", c.args, d)
		}
	}
	holds(t, does(t, env, "grep", m{"pattern": "absent"}).Output, "No files found", "1 file that fits is left out")
	holds(t, fails(t, env, "grep", m{"pattern": "("}), "not a valid regular expression")
	holds(t, fails(t, env, "grep", m{"pattern": ""}), "pattern is required")
	holds(t, fails(t, env, "grep", m{"pattern": "a", "path": "nowhere"}), "File not found")

	put(t, env, "many", strings.Repeat("hit\n", 500))
	r := does(t, env, "grep", m{"pattern": "hit"})
	holds(t, r.Output, "Found 100 matches (more matches available)", "Line 100: hit", "Results truncated")
	if strings.Contains(r.Output, "Line 101") || len(r.Output) > 60_000 {
		t.Errorf("%d bytes", len(r.Output))
	}
	holds(t, does(t, env, "grep", m{"pattern": "hit", "output_mode": "count"}).Output, "many: 500")
}

func TestList(t *testing.T) {
	env := newEnv(t)
	for _, f := range []string{"a/b/c", "a/b/d", "a/e", "node_modules/x", "z"} {
		put(t, env, f, "")
	}
	want := env.Directory + "/\n  a/\n    b/\n      c\n    e\n  z"
	if d := cmp.Diff(want, does(t, env, "list", m{"ignore": []string{"d"}}).Output); d != "" {
		t.Error(d)
	}
}

// What git ignores is what we ignore.
func TestIgnoreAgreesWithGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	git := func(t *rapid.T, dir string, in string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 1) {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	paths := []string{
		"a", "b.o", "c+", "d(1)", "x/a", "x/b.o", "x/y/a", "x/y/b.o", "x/y/z/a", "out/a", "x/out/b.o", "{q}", "sp ace",
	}
	piece := rapid.SampledFrom([]string{
		"a", "*.o", "/a", "x/", "/x/y", "x/a", "out/", "**/a", "x/**", "x/**/a", "!a", "!x/y/a", "*", "!*/", "?.o", "[ab]", "[!a]*", "[^a]*", "y", "c+",
		"d(1)", "# a", "", "a ", `\!a`, "x/*", "!x/y", "/*", "**", "{q}", "sp*", "/**/a", "out", "x**", "!/x/a", `sp\ ace`, "a/", "*/a", "x/y/", "a\r",
	})
	base := t.TempDir()
	count := 0
	rapid.Check(t, func(t *rapid.T) {
		count++
		dir := filepath.Join(base, fmt.Sprint(count))
		for _, p := range paths {
			full := filepath.Join(dir, p)
			if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []string{".gitignore", "x/.gitignore"} {
			text := strings.Join(rapid.SliceOfN(piece, 0, 4).Draw(t, at), "\n")
			if err := os.WriteFile(filepath.Join(dir, at), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		git(t, dir, "", "init", "-q")
		want := strings.Split(strings.TrimSuffix(git(t, dir, "", "-c", "core.quotepath=false", "ls-files", "-o", "--exclude-standard", "-z"), "\x00"), "\x00")
		var got []string
		found := tree{root: dir, ignore: ignoresAbove(dir, dir)}.files(context.Background())
		for _, h := range found.hits {
			got = append(got, h.rel)
		}
		slices.Sort(want)
		slices.Sort(got)
		if d := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); d != "" {
			t.Fatal(d)
		}
	})
}

// The literals never lose a match.
func TestLiteralsAgreeWithTheExpression(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"ab", "a", "b", "(?:ab|cd)", ".", "x*", "c+", "(ab)?", "^", "$", "[ab]", `\bab`, "(?i:ab)", "|", "cde{2}", "(ab){0,1}"}), 1, 5).Draw(t, "pattern"), "")
		re, err := regexp.Compile(pattern)
		if err != nil {
			return
		}
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"ab", "a", "b", "cd", "x", "\n", "cdee", "AB", "\r\n"}), 0, 20).Draw(t, "text"), "")
		s := scan{matcher: &matcher{re: re, literals: requiredLiterals(pattern), limit: 1000}}
		s.chunk([]byte(text))
		var want, got []string
		for i, l := range strings.Split(text, "\n") {
			if l = strings.TrimSuffix(l, "\r"); re.MatchString(l) && (l != "" || i < strings.Count(text, "\n")) {
				want = append(want, fmt.Sprint(i+1, l))
			}
		}
		for _, l := range s.out.lines {
			got = append(got, fmt.Sprint(l.number, l.text))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%q on %q: %s", pattern, text, d)
		}
	})
}

// A large tree costs bounded memory and ends with the context.
func TestSearchIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 20,000 files")
	}
	env := newEnv(t)
	for i := range 200 {
		dir := filepath.Join(env.Directory, fmt.Sprint("d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 100 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", j)), []byte("text\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	big, err := os.Create(filepath.Join(env.Directory, "big"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if _, err := big.WriteString(strings.Repeat("0123456789abcde\n", 4096)); err != nil {
			t.Fatal(err)
		}
	}
	_ = big.Close()
	if peak := peakHeap(func() {
		does(t, env, "glob", m{"pattern": "**/*"})
		does(t, env, "grep", m{"pattern": "absent text"})
		does(t, env, "grep", m{"pattern": "t.xt", "output_mode": "count"})
	}); peak > 100<<20 {
		t.Errorf("the heap grew by %d bytes", peak)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	start := time.Now()
	_, err = call(ctx, t, env, "grep", m{"pattern": `[a-z]\d{9}z`})
	if !errors.Is(err, context.Canceled) || time.Since(start) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// peakHeap is by how much the heap grows at most while f runs.
func peakHeap(f func()) uint64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&now)
	start, peak := now.HeapAlloc, uint64(0)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > start {
				peak = max(peak, now.HeapAlloc-start)
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	f()
	close(done)
	<-stopped
	return peak
}

func BenchmarkGrepGoTree(b *testing.B) {
	env := newEnv(b)
	out, err := exec.CommandContext(b.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		b.Skip("the Go source tree is not known: " + err.Error())
	}
	env.Directory = filepath.Join(strings.TrimSpace(string(out)), "src")
	env.Root = env.Directory
	for _, pattern := range []string{"zzz_absent", `func \(r \*Reader\) Read`, `[A-Z]\w+Mutex\b`, `\d{4}-\d{2}-\d{2}T`} {
		b.Run(pattern, func(b *testing.B) {
			for b.Loop() {
				does(b, env, "grep", m{"pattern": pattern, "output_mode": "count"})
			}
			rg, err := exec.LookPath("rg")
			if err != nil {
				b.Log("ripgrep is not installed: nothing to compare with")
				return
			}
			start := time.Now()
			_ = exec.CommandContext(b.Context(), rg, "--count", "--hidden", pattern, env.Directory).Run()
			b.ReportMetric(float64(time.Since(start).Nanoseconds()), "rg-ns")
		})
	}
}
