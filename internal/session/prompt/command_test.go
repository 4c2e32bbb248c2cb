package prompt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rally/internal/session"
)

func TestParseArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		items []string
		want  Arguments
	}{
		{nil, Arguments{}},
		{[]string{""}, Arguments{}},
		{[]string{"one", "two three"}, Arguments{"one two three", []string{"one", "two three"}}},
		{[]string{`"a`, ""}, Arguments{`"a `, []string{`"a`, ""}}},
		{[]string{" one  two\n"}, Arguments{" one  two\n", []string{"one", "two"}}},
		{[]string{`one "two three" 'four "five'`}, Arguments{`one "two three" 'four "five'`, []string{"one", "two three", `four "five`}}},
		{[]string{`a"b c"d`}, Arguments{`a"b c"d`, []string{"a", "b c", "d"}}},
		{[]string{`[Image 1] [image  12] [Image x]`}, Arguments{`[Image 1] [image  12] [Image x]`, []string{"[Image 1]", "[image  12]", "[Image", "x]"}}},
		{[]string{`it's here`}, Arguments{`it's here`, []string{"it's", "here"}}},
		{[]string{`'a' it's`}, Arguments{`'a' it's`, []string{"a", "it's"}}},
		{[]string{`"" x`}, Arguments{`"" x`, []string{"", "x"}}},
		{[]string{`a\ b`}, Arguments{`a\ b`, []string{`a\`, "b"}}},
		{[]string{"a\u3000b"}, Arguments{"a\u3000b", []string{"a", "b"}}},
	} {
		if diff := cmp.Diff(c.want, ParseArguments(c.items...)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.items, diff)
		}
	}
}

// shell runs spans with a real shell in dir.
func shell(dir string) Spans {
	return Spans{Run: func(ctx context.Context, script string) (string, error) {
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
		cmd.Dir, cmd.WaitDelay = dir, time.Second
		out, err := cmd.Output()
		return string(out), err
	}}
}

func TestExpandCommand(t *testing.T) {
	t.Parallel()
	odd := "$& $1 $ARGUMENTS a'b !`touch pwned` $(touch pwned)"
	for _, c := range []struct {
		name, template string
		args           []string
		want           string
	}{
		{"numbers; the highest takes the rest", "A=$1 B=$2 now !`echo span-$((1+1))`.", []string{"one", "two", "three"}, "A=one B=two three now span-2."},
		{"an item is a token", "$1|$2", []string{"one", "two three"}, "one|two three"},
		{"one item is split", "$1|$2", []string{`one "two three" four`}, "one|two three four"},
		{"missing ones are empty", "[$1][$2][$3]", []string{"a b"}, "[a][b][]"},
		{"each place of the highest", "$2 $2 $1", []string{"a b c"}, "b c b c a"},
		{"ten", "$10-$1", []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}, "j k-a"},
		{"literal", "Say $ARGUMENTS.", []string{odd}, "Say " + odd + "."},
		{"literal by number", "Say $1.", []string{odd, "x"}, "Say " + odd + " x."},
		{"no placeholder", "Just this.", []string{"extra", "words"}, "Just this.\n\nextra words"},
		{"no placeholder, blank arguments", "Just this.", []string{"  "}, "Just this."},
		{"no template", "", []string{" x "}, " x "},
		{"dollars", "$$1 $$ARGUMENTS $$$1 $0 $x $", []string{"a"}, "$1 $ARGUMENTS $a $0 $x $"},
		{"the template is trimmed, arguments are not", "\n a $ARGUMENTS\n", []string{" b \n"}, "a  b \n"},
		{"a number no one means", "$99999999999999999999", nil, "$99999999999999999999"},
		{"quoted in a span", "!`printf '<%s>' $1 $2`", []string{odd, "x y", "z"}, "<" + odd + "><x y z>"},
		{"quoted in double quotes", "!`printf '<%s>' \"$1\"`", []string{odd}, "<" + odd + ">"},
		{"all in double quotes", "!`printf '<%s>' \"-$ARGUMENTS-\"`", []string{odd}, "<-" + odd + "->"},
		{"quoted in single quotes", "!`printf '<%s>' '-$ARGUMENTS-'`", []string{odd}, "<-" + odd + "->"},
		{"quoted in a substitution in quotes", "!`printf '<%s>' \"$(printf %s \"$ARGUMENTS\" $ARGUMENTS)\"`", []string{odd}, "<" + odd + odd + ">"},
		{"a backslash keeps the dollar", "!`echo \\$1`", []string{"x"}, "$1\n\nx"},
		{"dollars in a span", "!`x=5; echo $x $$1`.", []string{"a"}, "5.\n\na"},
		{"output is not template", "!`echo '\\$1 '; printf '\\044ARGUMENTS'` $1", []string{"x"}, "\\$1 \n$ARGUMENTS x"},
		{"a placeholder in a span counts", "!`true $1`", []string{"x"}, ""},
		{"failure is shown", "a !`echo out; exit 3` b", nil, "a out\n[`echo out; exit 3` failed: exit status 3] b"},
		{"here-document", "!`cat <<E\n$1\nE\n`", []string{"x"}, "[`cat <<E\n$1\nE\n` was not run: " + errUnquotable.Error() + "]"},
		{"here-string", "!`bash -c 'cat <<<\"$0\"' $1`", []string{"$(touch pwned)", ""}, "$(touch pwned) "},
		{"NUL", "!`echo $1`", []string{"a\x00b"}, "[`echo $1` was not run: " + errNUL.Error() + "]"},
		{"not a span", "!`` !` ` `x`", nil, "!``  `x`"},
	} {
		dir := t.TempDir()
		got := ExpandCommand(t.Context(), c.template, ParseArguments(c.args...), shell(dir))
		if diff := cmp.Diff(c.want, got.Text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
			t.Errorf("%s: an argument was executed", c.name)
		}
	}
}

func TestExpandCommandMarksOutput(t *testing.T) {
	t.Parallel()
	got := ExpandCommand(t.Context(), "a !`echo x` b !`true` !`echo yz`", Arguments{}, shell(t.TempDir()))
	want := Expanded{Text: "a x b  yz", Opaque: []Range{{2, 3}, {7, 9}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSpanEnds(t *testing.T) {
	t.Parallel()
	spans := shell(t.TempDir())
	spans.Timeout = 50 * time.Millisecond
	got := ExpandCommand(t.Context(), "!`echo early; exec sleep 300`", Arguments{}, spans).Text
	if want := "early\n[`echo early; exec sleep 300` failed: it did not end within 50ms]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got = ExpandCommand(t.Context(), "a !`touch pwned` b", Arguments{}, Spans{}).Text
	if want := "a [`touch pwned` was not run: the file it comes from is not trusted] b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	refused := Spans{Run: func(context.Context, string) (string, error) { return "", errors.New("refused by a rule") }}
	got = ExpandCommand(t.Context(), "!`rm x`", Arguments{}, refused).Text
	if want := "[`rm x` failed: refused by a rule]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	flood := Spans{Run: func(context.Context, string) (string, error) { return strings.Repeat("é", maxSpanOutput), nil }}
	if got = ExpandCommand(t.Context(), "!`x`", Arguments{}, flood).Text; len(got) > maxSpanOutput+100 || !strings.HasSuffix(got, "more bytes were left out]") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-40:])
	}
}

func TestIsSubtask(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	sub, primary := session.Agent{Mode: session.ModeSubagent}, session.Agent{Mode: session.ModePrimary}
	for _, c := range []struct {
		flag  *bool
		agent session.Agent
		want  bool
	}{
		{nil, sub, true},
		{nil, primary, false},
		{nil, session.Agent{Mode: session.ModeAll}, false},
		{&yes, primary, true},
		{&no, sub, false},
		{&yes, sub, true},
	} {
		if got := IsSubtask(session.Command{Subtask: c.flag}, c.agent); got != c.want {
			t.Errorf("IsSubtask(%v, %s) = %v", c.flag, c.agent.Mode, got)
		}
	}
	model := session.Model{Provider: "p", ID: "m"}
	got := SubtaskOf(session.Command{Name: "review", Description: "Review"}, "explore", model, "do it")
	want := &session.Subtask{Prompt: "do it", Description: "Review", Agent: "explore", Model: &model, Command: "review"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Any argument text arrives literally.
func TestArgumentsArriveLiterally(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := argument().Draw(t, "raw")
		got := ExpandCommand(context.Background(), "<$ARGUMENTS|$$|$ARGUMENTS>", ParseArguments(raw), Spans{}).Text
		if want := "<" + raw + "|$|" + raw + ">"; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		items := rapid.SliceOfN(argument(), 2, 5).Draw(t, "items")
		got = ExpandCommand(context.Background(), "<$1|$2>", ParseArguments(items...), Spans{}).Text
		if want := "<" + items[0] + "|" + strings.Join(items[1:], " ") + ">"; got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// argument draws texts that shells and templates might take for their own.
func argument() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{
		"$1", "$ARGUMENTS", "$$", "$(echo pwned)", "${HOME}", "`echo pwned`", "!`echo pwned`", "'", `"`, `\`, "\n", " ", ";echo pwned;", "#", "<<E\n",
		"&", "|", "*", "~", "é", "-n", "%s", ")", "}", "]", "))", "$'\\x41'", "a[$(echo pwned)]", "!", "\t", "E\n", "\xff",
	})
	return rapid.Map(rapid.SliceOfN(piece, 0, 6), func(p []string) string { return strings.Join(p, "") })
}

// In a shell span any argument text is one literal word, wherever a real shell
// lets it stand, or the span does not run. %s marks where the words go.
var spanPlaces = []string{
	"printf '<%%s>' %s",
	"printf '<%%s>' \"%s\"",
	"printf '<%%s>' '%s'",
	"printf '<%%s>' \"$(printf '%%s.' %s)\"",
	"printf '<%%s>' \"$(printf '%%s.' \"%s\")\"",
	"x=%s; printf '<%%s>' \"$x\"",
	"(printf '<%%s>' %s)",
	"true \\' \\\" \\\\ # it's\nprintf '<%%s>' %s",
	"true '\"' \"'\" \"\\\"\" '\\'; printf '<%%s>' %s",
	"true $((1+(2))) ${x} $$x; printf '<%%s>' %s",
	"if true; then { printf '<%%s>' %s; }; fi",
	"cat < /dev/null; printf '<%%s>' %s",
	"true $$$$'x\\'; printf '<%%s>' %s",
	// where no argument is safe
	"cat <<E\n%s\nE\n",
	"echo $((%s))",
	"echo ${x:-%s}",
	"echo \"${x:-%s}\"",
	"true # %s\n",
	"echo $'%s'",
	"echo $$%s",
	"echo \"$$%s\"",
	"case x in x) echo %s;; esac",
	"echo \"$(case x in x) echo x;; esac; echo %s)\"",
	"a[%s]=1",
	"echo $[%s]",
}

const safePlaces = 13

func checkPlace(place, arg, dir string) error {
	if strings.IndexByte(arg, 0) >= 0 {
		return nil
	}
	template := "!`" + fmt.Sprintf(place, "$ARGUMENTS") + "`"
	ran := false
	spans := Spans{Run: func(ctx context.Context, script string) (string, error) {
		ran = true
		cmd := exec.CommandContext(ctx, "bash", "-c", script)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("%w in %q", err, script)
		}
		return string(out) + "\x01", nil // trailing line ends are the test's to see
	}}
	got := ExpandCommand(context.Background(), template, ParseArguments(arg), spans).Text
	if !ran {
		return nil
	}
	want := "<" + arg + ">\x01"
	if strings.Contains(place, "%%s.") {
		want = "<" + arg + ".>\x01"
	}
	if got != want {
		return fmt.Errorf("in %q the argument %q became %q", place, arg, got)
	}
	return nil
}

func TestSpanArgumentsAreOneWord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, place := range spanPlaces {
		f := newFiller("!`"+fmt.Sprintf(place, "$1")+"`", ParseArguments("x"), Spans{})
		_, err := f.script(f.pieces[0])
		if safe := i < safePlaces; safe != (err == nil) {
			t.Errorf("%q: safe is %v, error is %v", place, safe, err)
		}
	}
	if t.Failed() {
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		place := rapid.SampledFrom(spanPlaces).Draw(t, "place")
		if err := checkPlace(place, argument().Draw(t, "argument"), dir); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzExpandCommand(f *testing.F) {
	for _, template := range []string{"$1 $2", "a !`echo $1` b", "$$ $ARGUMENTS", "!`x \"$1\" '$2' $(y $3)`", "!`a <<E\n$1`"} {
		f.Add(template, "a 'b c' d")
	}
	echo := Spans{Run: func(_ context.Context, script string) (string, error) { return script, nil }}
	f.Fuzz(func(t *testing.T, template, raw string) {
		got := ExpandCommand(t.Context(), template, ParseArguments(raw), echo)
		end := 0
		for _, r := range got.Opaque {
			if r.Start < end || r.End <= r.Start || r.End > len(got.Text) {
				t.Fatalf("bad range %v in %q", r, got.Text)
			}
			end = r.End
		}
		if !strings.Contains(template, "$") && !strings.Contains(template, "!`") && strings.TrimSpace(raw) != "" && !strings.HasSuffix(got.Text, raw) {
			t.Fatalf("%q does not end with the arguments", got.Text)
		}
		again := ExpandCommand(t.Context(), template, ParseArguments(raw), echo)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Arguments are never code, in whatever script: a program that only prints its
// words prints the same ones, and nothing else runs.
func FuzzSpanArgument(f *testing.F) {
	for i := range spanPlaces {
		f.Add(uint(i), "a'b\"$(echo pwned)\\\n")
	}
	f.Fuzz(func(t *testing.T, place uint, arg string) {
		if len(arg) > 1000 || strings.TrimSpace(arg) == "" {
			return
		}
		if err := checkPlace(spanPlaces[place%uint(len(spanPlaces))], arg, t.TempDir()); err != nil {
			t.Fatal(err)
		}
	})
}
