package permission

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// recorder is a folder of programs that write down that they were started.
type recorder struct{ dir, log, work string }

// newRecorder makes the only folder on the PATH of the scripts under test.
// Programs that start others are real behind their record.
func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{dir: t.TempDir(), log: filepath.Join(t.TempDir(), "log"), work: t.TempDir()}
	for _, name := range []string{"rm", "ls", "git", "touch", "make"} {
		r.write(t, name, "")
	}
	for _, name := range []string{"env", "xargs", "timeout", "nohup", "nice", "find", "sh", "bash", "setsid", "stdbuf", "cat"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("the test needs %s: %v", name, err)
		}
		r.write(t, name, fmt.Sprintf("exec %s \"$@\"\n", path))
	}
	return r
}

func (r *recorder) write(t *testing.T, name, then string) {
	t.Helper()
	text := fmt.Sprintf("#!/bin/sh\necho %s >> %s\n%s", name, r.log, then)
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// run gives the names of the programs that bash starts for the script.
func (r *recorder) run(script string) ([]string, error) {
	if err := os.RemoveAll(r.log); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "-c", script)
	cmd.Dir = r.work
	cmd.Env = []string{"PATH=" + r.dir, "HOME=" + r.work}
	// Wait returns when the last holder of the pipe is gone, so that nothing
	// left in the background writes into the next script's record.
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 5 * time.Second
	_ = cmd.Run() // a generated script may well fail
	b, err := os.ReadFile(r.log)
	if os.IsNotExist(err) {
		return nil, nil
	}
	return strings.Fields(string(b)), err
}

// templates make the corpus: C is a command, S a script given as one quoted
// word, W a word.
var templates = []string{
	"rm W", "ls", "git W", "touch W W", "make", "echo W", "true", "rm W", "rm W",
	`"rm" W`, `r\m W`, `r''m W`, "r? W", "{rm,W}", "$'rm' W", `$'\x72m' W`, "./rm", `$X W`, `${X:-rm} W`, "`echo rm` W",
	"C; C", "C && C", "C || C", "C | C", "(C)", "{ C; }", "! C", "C & wait", "time C", "coproc C\nwait",
	"if C; then C; else C; fi", "while C; do C; break; done", "until C; do C; break; done", "for i in 1 W; do C; done", "for ((i=0; i<2; i++)); do C; done",
	"case W in *) C;; esac", "f() { C; }; f", "function g { C; }\ng", "select x in a; do C; break; done <<< 1",
	"echo $(C)", "echo `C`", `echo "$(C)"`, "cat <(C)", "echo x > >(C); wait", "cat <<E\n$(C)\nE", "cat <<'E'\n$(rm)\nE", "x=$(C)", "X=rm; C", "y='a[$(rm q)]'; C", "export Z=$(C)", "a=(1 $(C))", "echo ${U:-$(C)}", "echo ${U:=`C`}", "[[ -n $(C) ]]", "echo $(( $(C) + 1 ))", "C > out", "C 2>&1 < /dev/null",
	"env C", "env -i A=b rm W", "env -u Q C", "timeout 5 C", "timeout -s KILL 5 rm W", "nohup C", "nice -n 1 C", "setsid C", "stdbuf -oL C", "command C", "builtin C", "exec C", "X=1 C", "command -v rm", "env -S 'rm W'",
	"echo W | xargs rm", "echo rm W | xargs env", "echo W | xargs -I{} rm {}", "echo rm | xargs -I% % W", "echo W | xargs -n1 sh -c S", "echo rm W | xargs -I% sh -c %", "echo rm | xargs sh -c", "echo -exec rm W ';' | xargs find .",
	"sh -c S", "bash -c S", "bash -ec S n", "sh <<< S", "echo S | sh", "echo S | bash -s", "bash <<'E'\nC\nE", "bash <(echo S)", "sh -c \"$X\"", "sh -c S W W", "sh -c '((rm -f))'", "sh -c '[[ a ]] || rm W'",
	`find . -maxdepth 0 -exec rm {} \;`, `find . -maxdepth 0 -exec rm {} +`, `find . -maxdepth 0 -exec sh -c S \;`, `F=-exec; find . -maxdepth 0 "$F" rm \;`,
	"eval S", "trap S EXIT", "trap S DEBUG; true", ". <(echo S)", "source /dev/stdin <<< S", "alias q=rm; shopt -s expand_aliases\nq W",
	"PATH=$PATH:. C", "hash -p $(command -v rm) zz; zz", "mapfile -c 1 -C rm A <<< W", "compgen -C rm W", "PS4='$(rm W)'; set -x; true",
	"echo $((y))", "((y))", "[[ y -eq 0 ]]", "let y", "echo ${a[y]}", "a[y]=1", "unset \"$y\"", "[[ -v $y ]]", "test -v \"$y\"", "printf -v \"$y\" x", "read \"$y\" <<< 1", "declare -i k=$y", "echo ${!y}", "w='$(rm W)'; echo ${w@P}", "y=3; echo $((y + 1))", "read y <<< 'a[$(rm)]'; ((y))", "echo ${U:y}",
	"echo W; # rm W", "echo '$(rm)' \\$(echo) ", "echo \"a\\$(rm)\"", "echo a\\\nb", "C\n\nC", "if true; then\nC\nfi",
}

// script fills templates to a bounded depth.
func script(t *rapid.T, depth int) string {
	n := len(templates)
	if depth <= 0 {
		n = 9
	}
	tmpl := templates[rapid.IntRange(0, n-1).Draw(t, "template")]
	var b strings.Builder
	for i := 0; i < len(tmpl); i++ {
		alone := (i == 0 || !letter(tmpl[i-1])) && (i+1 == len(tmpl) || !letter(tmpl[i+1]))
		switch {
		case alone && tmpl[i] == 'C' && (i == 0 || tmpl[i-1] != '-'):
			b.WriteString(script(t, depth-1))
		case alone && tmpl[i] == 'S':
			b.WriteString("'" + strings.ReplaceAll(script(t, depth-1), "'", `'\''`) + "'")
		case alone && tmpl[i] == 'W':
			b.WriteString(rapid.SampledFrom([]string{"w", "'w x'", `"$X"`, "$y", "-f", "*", `"$(ls)"`, "{a,b}", "~"}).Draw(t, "word"))
		default:
			b.WriteByte(tmpl[i])
		}
	}
	return b.String()
}

func letter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '$' || c == '_' }

// Every program that bash starts is in the list, or the script was unreadable.
func TestNothingRunsUnlisted(t *testing.T) {
	r := newRecorder(t)
	rapid.Check(t, func(t *rapid.T) {
		text := script(t, 3)
		if t.Failed() {
			return
		}
		read := Commands(text)
		if read.Unreadable {
			return // nothing to hold it to
		}
		started, err := r.run(text)
		if err != nil {
			t.Fatal(err)
		}
		listed := map[string]bool{}
		for _, list := range [][]string{read.Commands, read.Also} {
			for _, c := range list {
				name, _, _ := strings.Cut(c, " ")
				listed[filepath.Base(name)] = true
			}
		}
		for _, name := range started {
			if !listed[name] {
				t.Fatalf("%q started %s; listed are %q", text, name, read.Commands)
			}
		}
	})
}

func FuzzCommands(f *testing.F) {
	for _, tmpl := range templates {
		f.Add(tmpl)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read := Commands(text)
		for _, c := range read.Commands {
			if c == "" && !read.Unreadable {
				t.Errorf("%q lists an empty command", text)
			}
		}
		if got := read.Patterns(); len(got) == 0 {
			t.Errorf("%q has no pattern", text)
		}
		// A rule that denies all stops all.
		denied := Ruleset{Rules: []Sourced{{Rule: rules("deny bash:*")[0]}}}
		if d := DecideScript(denied, read); d.Action != "deny" {
			t.Errorf("%q: %+v", text, d)
		}
	})
}
