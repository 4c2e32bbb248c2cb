package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dead fails unless no process with the given command line lives soon.
func dead(t *testing.T, command string) {
	t.Helper()
	for range 100 {
		if out, _ := exec.CommandContext(t.Context(), "pgrep", "-f", "^"+command).Output(); len(out) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%q still lives", command)
}

func exitOf(r Result) string { return string(r.Metadata["exit"]) }

func TestBashExitCode(t *testing.T) {
	env := newEnv(t)
	for _, c := range []struct{ command, exit, says string }{
		{"echo out; echo err >&2; exit 41", "41", "out\nerr\n\n<shell_metadata>\nExit code: 41\n</shell_metadata>"},
		{"true", "0", "(no output)\n\n<shell_metadata>\nExit code: 0"},
		{"kill -SEGV $$", "139", "Exit code: 139 (ended by signal 11, segmentation fault)"},
		{"no-such-program-here", "127", "not found"},
		{"cat; tty; test -e /dev/tty && (: > /dev/tty) 2>&1", "1", "not a tty"},
		{"pwd", "0", env.Directory + "\n"},
		{"echo $TERM $GIT_TERMINAL_PROMPT $PAGER", "0", "dumb 0 cat"},
	} {
		r := does(t, env, "bash", m{"command": c.command})
		if exitOf(r) != c.exit {
			t.Errorf("%s: exit %s", c.command, exitOf(r))
		}
		holds(t, r.Output, c.says)
	}
	holds(t, fails(t, env, "bash", m{"command": "true", "workdir": "nowhere"}), "not a folder")
	holds(t, fails(t, env, "bash", m{"command": "a\x00b"}), "NUL")
	env.Shell = "/no/shell"
	holds(t, fails(t, env, "bash", m{"command": "true"}), "could not be run")
}

func TestBashLeftovers(t *testing.T) {
	for _, c := range []struct{ name, command string }{
		{"background", "sleep 411.1 & echo started"},
		{"own session", "setsid sleep 411.1 & echo started"},
		{"daemon", "(setsid setsid -f sleep 411.1); echo started"},
		{"ignores TERM", `sh -c 'trap "" TERM; echo started; sleep 411.1; sleep 411.1' & sleep 0.3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := newEnv(t)
			start := time.Now()
			r := does(t, env, "bash", m{"command": c.command})
			holds(t, r.Output, "started", "Processes it left running were ended: ", "411.1")
			if exitOf(r) != "0" || time.Since(start) > 10*time.Second {
				t.Errorf("exit %s after %v", exitOf(r), time.Since(start))
			}
			dead(t, "sleep 411.1")
		})
	}
	// One that ends by itself is waited for and not named.
	r := does(t, newEnv(t), "bash", m{"command": "echo a > >(sleep 0.05; cat)"})
	if !strings.HasPrefix(r.Output, "a\n") || strings.Contains(r.Output, "left running") {
		t.Errorf("%q", r.Output)
	}
}

func TestBashTimeout(t *testing.T) {
	env := newEnv(t)
	r := does(t, env, "bash", m{"command": `echo before; trap '' TERM; sh -c 'trap "" TERM; sleep 412.2'`, "timeout": 200})
	holds(t, r.Output, "before", "timeout of 200 ms")
	if exitOf(r) != "null" || string(r.Metadata["timeout"]) != "true" {
		t.Errorf("metadata %s", r.Metadata["exit"])
	}
	dead(t, "sleep 412.2")
}

func TestBashAborted(t *testing.T) {
	env := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	env.Progress = func(tail string) {
		if strings.Contains(tail, "before") {
			cancel()
		}
	}
	r, err := call(ctx, t, env, "bash", m{"command": "echo before; sleep 413.3"})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, r.Output, "before", "The command was aborted.")
	dead(t, "sleep 413.3")
}

func TestBashOddBytes(t *testing.T) {
	env := newEnv(t)
	r := does(t, env, "bash", m{"command": `printf '\342'; sleep 0.05; printf '\202\254 A\000\033[3'; sleep 0.05; printf '1mB\377C\033]0;title\007D\xc2\x9bE\r\n'`})
	if want := "€ AB\ufffdCDE\n\n<shell"; !strings.HasPrefix(strings.ReplaceAll(r.Output, "\r", ""), want) {
		t.Errorf("got %q, wanted %q", r.Output, want)
	}
}

// 200 MB of output cost less than 60 MB of memory.
func TestBashOutputIsBounded(t *testing.T) {
	env := newEnv(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := does(t, env, "bash", m{"command": "echo head-mark; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo tail-mark"})
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 60_000_000 {
		t.Errorf("%d bytes were allocated", grown)
	}
	if len(r.Output) > defaultBytes+1000 {
		t.Errorf("%d bytes", len(r.Output))
	}
	holds(t, r.Output, "head-mark", "tail-mark", "...output truncated: ", "Full output saved to: ")
	path := r.Metadata.Text("outputPath")
	info, err := os.Stat(path)
	if err != nil || info.Size() < maxSpill || info.Size() > maxSpill+100 {
		t.Fatalf("%v %v", info, err)
	}
	out, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(out), "head-mark\n") || !strings.HasSuffix(string(out), "\ntail-mark\n") {
		t.Errorf("the file lacks head or tail: %v", err)
	}
	if left, _ := os.ReadDir(env.Outputs); len(left) != 1 {
		t.Errorf("files: %v", left)
	}
}

func TestBashManyLines(t *testing.T) {
	env := newEnv(t)
	r := does(t, env, "bash", m{"command": "seq 1 3000"})
	holds(t, r.Output, "1\n2\n", "\n3000\n\n<shell", "left out")
	if n := strings.Count(r.Output, "\n"); n > 2020 {
		t.Errorf("%d lines", n)
	}
	path := r.Metadata.Text("outputPath")
	if got := content(t, path); !strings.HasPrefix(got, "1\n2\n") || !strings.HasSuffix(got, "2999\n3000\n") || strings.Count(got, "\n") != 3000 {
		t.Errorf("saved %d bytes", len(got))
	}
}

func TestBashEnvironment(t *testing.T) {
	got := ChildEnviron([]string{"PATH=/bin", "OPENAI_API_KEY=k1", "MY_KEY=k2", "TERM=xterm", "LC_ALL=C", "odd"}, []string{"MY_KEY"})
	text := strings.Join(got, "\n")
	holds(t, text, "PATH=/bin", "LC_ALL=C", "TERM=dumb", "GIT_EDITOR=true", "odd")
	for _, gone := range []string{"k1", "k2", "xterm"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is still there: Invariant 15", gone)
		}
	}
}

func TestBackground(t *testing.T) {
	env := newEnv(t)
	r := does(t, env, "bash", m{"command": "echo up; sleep 414.4", "background": true})
	holds(t, r.Output, "job_1", "Still running")
	holds(t, does(t, env, "bash_output", m{"id": "job_1"}).Output, "Still running")
	holds(t, fails(t, env, "bash_output", m{"id": "job_7"}), "There are: job_1")
	r = does(t, env, "bash_kill", m{"id": "job_1"})
	holds(t, r.Output, "aborted")
	dead(t, "sleep 414.4")

	does(t, env, "bash", m{"command": "sleep 0.5; echo later; sleep 415.5", "background": true})
	r = does(t, env, "bash_output", m{"id": "job_2", "timeout": 20000})
	holds(t, r.Output, "later", "Still running")
	holds(t, does(t, env, "bash_output", m{"id": "job_2"}).Output, "(no new output)")
	env.Jobs.Close()
	dead(t, "sleep 415.5")
	holds(t, fails(t, env, "bash", m{"command": "true", "background": true}), "The turn is ending")
	holds(t, does(t, env, "bash", m{"command": "exit 3"}).Output, "Exit code: 3")
}

func TestBackgroundFailsAtOnce(t *testing.T) {
	r := does(t, newEnv(t), "bash", m{"command": "echo broken; exit 9", "background": true})
	holds(t, r.Output, "broken", "Exit code: 9")
}

// The kernel ends the shell when the process that started it is killed.
func TestParentDeath(t *testing.T) {
	if os.Getenv("RALLY_TEST_PARENT") != "" {
		s := Script{Shell: "/bin/bash", Command: "exec sleep 416.6", Dir: "/", Environ: os.Environ(), Mark: "p", Output: os.Stdout}
		_, _ = s.Run(t.Context())
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has parent-death signals")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestParentDeath$")
	cmd.Env = append(os.Environ(), "RALLY_TEST_PARENT=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if out, _ := exec.CommandContext(t.Context(), "pgrep", "-f", "^sleep 416.6").Output(); len(out) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	dead(t, "sleep 416.6")
}

func TestScriptForAPerson(t *testing.T) {
	var live strings.Builder
	s := Script{Shell: "/bin/sh", Command: "printf 'a\\033[1mb'; exit 5", Dir: "/", Environ: os.Environ(), Mark: strconv.Itoa(os.Getpid()), Output: &live}
	exit, err := s.Run(t.Context())
	if err != nil || exit.Code != 5 || live.String() != "a\x1b[1mb" {
		t.Errorf("%v %v %q", exit, err, live.String())
	}
	s.Command = "kill -TERM $$"
	if exit, err := s.Run(t.Context()); err != nil || exit.Code != 143 || exit.Signal != syscall.SIGTERM {
		t.Errorf("%v %v", exit, err)
	}
}

func TestSpillRing(t *testing.T) {
	for total := range 40 {
		env := newEnv(t)
		s := newSpill(env)
		s.half = 8
		var all strings.Builder
		for i := range total {
			fmt.Fprintf(&all, "%c", 'a'+i%26)
			_, _ = s.Write([]byte(all.String()[i:]))
		}
		path, err := s.Close()
		if total == 0 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		want := all.String()
		if total > 16 {
			want = want[:8] + fmt.Sprintf("\n...%s left out here...\n", plural(total-16, "byte", "bytes")) + want[total-8:]
		}
		if got := content(t, path); got != want {
			t.Errorf("%d bytes: got %q, wanted %q", total, got, want)
		}
	}
}

// A reader that is gone ends the script and does not leave it waiting.
func TestScriptWithoutAReader(t *testing.T) {
	s := Script{Shell: "/bin/sh", Command: "yes", Dir: "/", Environ: os.Environ(), Mark: "gone", Output: closed{}}
	exit, err := s.Run(t.Context())
	if !errors.Is(err, io.ErrClosedPipe) || exit.Code == 0 {
		t.Errorf("%v %v", exit, err)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
