package prompt

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// No argument is ever run, whatever script it stands in: scripts are drawn
// from pieces of shell syntax, most of them nonsense, and the argument is one
// that runs `touch pwned` from wherever a shell would take it for code.
func TestQuoterNeverLetsArgumentsRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	piece := rapid.SampledFrom([]string{
		"$1", "$1", "$1", "'", `"`, "$(", ")", "(", "((", "))", "$((", "${x", "${x:-", "}", "{", `\`, "#", " #", " ", " ", "\n", "$$'", "$$\"", "<<E\n", "<<-E\n",
		"<<'E'\n", "E\n", "<<<", "<", "$$[", "[", "]", "a[", "x", "$$", "$$$$", "case x in x)", " esac ", ";;", "|", "&&", ";", "echo ", ": ", "! ", "[[ ", " ]]", "=",
		"if ", "then ", "fi ", "f() ", "<(", "@(", "~", "*", "+",
	})
	hostile := rapid.Map(rapid.Permutation([]string{
		"$(touch pwned)", "';touch pwned;'", `";touch pwned;"`, "\ntouch pwned\n", "\nE\ntouch pwned\n", ");touch pwned;(", "};touch pwned;{", "a[$(touch pwned)]", `\'`, `\`,
	}), func(p []string) string { return strings.Join(p, "") })
	rapid.Check(t, func(t *rapid.T) {
		source := strings.Join(rapid.SliceOfN(piece, 1, 14).Draw(t, "source"), "")
		arg := hostile.Draw(t, "argument")
		spans := Spans{Timeout: 10 * time.Second, Run: func(ctx context.Context, script string) (string, error) {
			cmd := exec.CommandContext(ctx, "bash", "-c", script)
			cmd.Dir, cmd.WaitDelay = dir, time.Second
			out, err := cmd.Output()
			return string(out), err
		}}
		ExpandCommand(context.Background(), "!`"+source+"`", Arguments{Raw: arg, Tokens: []string{arg}}, spans)
		if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
			_ = os.Remove(filepath.Join(dir, "pwned"))
			f := newFiller("!`"+source+"`", Arguments{Tokens: []string{arg}}, Spans{})
			script, err := f.script(f.pieces[0])
			t.Fatalf("the argument ran in %q (%v)", script, err)
		}
	})
}
