package prompt

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"rally/internal/session"
)

func TestTitle(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 101)
	for _, c := range []struct{ name, in, want string }{
		{"one line", "Fix the parser", "Fix the parser"},
		{"first line with something in it", "\n \t\r\n  Fix  the\tparser \nsecond", "Fix the parser"},
		{"nothing", " \n\n", DefaultTitle},
		{"a hundred characters fit", long[:100], long[:100]},
		{"more are cut", long, long[:97] + "..."},
		{"characters, not bytes", strings.Repeat("é", 100), strings.Repeat("é", 100)},
		{"no space before the dots", strings.Repeat("a", 96) + " bcdefg", strings.Repeat("a", 96) + "..."},
		{"control codes are no title", "\x1b[31mred\x1b[0m", "[31mred [0m"},
	} {
		if got := Title(c.in); got != c.want {
			t.Errorf("%s: Title(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

func TestCleanTitle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"Fix parser", "Fix parser"},
		{"<think>hm\nhm</think>\n\nFix parser\n", "Fix parser"},
		{"<think>a</think>Fix <think>b</think>parser", "Fix parser"},
		{"<think>never closed, and then a title", ""},
		{"Fix parser\n<think>never closed", "Fix parser"},
		{"never opened\n</think>\nFix parser", "Fix parser"},
		{"\n\n", ""},
		{strings.Repeat("x", 200), strings.Repeat("x", 97) + "..."},
	} {
		if got := CleanTitle(c.in); got != c.want {
			t.Errorf("CleanTitle(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestTitleIsOneShortLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "in")
		for _, got := range []string{Title(in), CleanTitle(in)} {
			if utf8.RuneCountInString(got) > 100 || strings.ContainsAny(got, "\r\n\x00\x1b") {
				t.Fatalf("%q is no title", got)
			}
		}
	})
}

func user(id string, parts ...session.Part) session.Message {
	return session.Message{ID: id, Role: session.User, Parts: parts}
}

func answer(agent string) session.Message {
	return session.Message{Role: session.Assistant, Agent: agent, Parts: []session.Part{&session.Text{Text: "done"}}}
}

func TestTitleDue(t *testing.T) {
	t.Parallel()
	hi := user("1", &session.Text{Text: "Fix it"}, &session.Text{Text: "Called the Read tool", Synthetic: true})
	task := user("1", &session.Subtask{Prompt: "one"}, &session.Subtask{Prompt: "two"})
	synthetic := user("2", &session.Text{Text: ExecutedByUser, Synthetic: true})
	for _, c := range []struct {
		name    string
		session session.Session
		history []session.Message
		due     bool
		input   string
	}{
		{"first prompt", session.Session{Title: "Fix it"}, []session.Message{hi}, true, TitleRequest + "Fix it"},
		{"synthetic ones do not count", session.Session{Title: "Fix it"}, []session.Message{synthetic, hi, answer("build")}, true, TitleRequest + "Fix it"},
		{"nothing but subtasks", session.Session{Title: DefaultTitle}, []session.Message{task}, true, TitleRequest + "one\ntwo"},
		{"a title of the user's", session.Session{Title: "Mine"}, []session.Message{hi}, false, TitleRequest + "Fix it"},
		{"a child", session.Session{Title: "Fix it", ParentID: "ses_1"}, []session.Message{hi}, false, TitleRequest + "Fix it"},
		{"a second prompt", session.Session{Title: "Fix it"}, []session.Message{hi, answer("build"), user("3", &session.Text{Text: "more"})}, false, ""},
		{"no prompt", session.Session{Title: DefaultTitle}, []session.Message{synthetic}, false, ""},
	} {
		if got := TitleDue(c.session, c.history); got != c.due {
			t.Errorf("%s: TitleDue = %v", c.name, got)
		}
		if got := TitleInput(c.history); got != c.input {
			t.Errorf("%s: TitleInput = %q, want %q", c.name, got, c.input)
		}
	}
}
