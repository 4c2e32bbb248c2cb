package scripted_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"rally/internal/llm"
	"rally/internal/llm/openai"
	"rally/internal/llm/scripted"
)

func TestWrongScripts(t *testing.T) {
	for name, tt := range map[string]struct{ yaml, want string }{
		"field":         {"replies:\n  - txt: hi\n", `script s: line 2: unknown field "txt"; did you mean "text"?`},
		"nested field":  {"replies:\n  - text: a\n    calls:\n      - nam: read\n", `script s: line 4: unknown field "nam"; did you mean "name"?`},
		"far off":       {"replies:\n  - when: {question: a}\n", `script s: line 2: unknown field "question"; the fields here are request, user, tool, model`},
		"top":           {"reply: []\n", `script s: line 1: unknown field "reply"; did you mean "replies"?`},
		"kind":          {"replies: hello\n", `script s: line 1: a list is wanted here`},
		"mapping":       {"replies: [hello]\n", `script s: line 1: a mapping is wanted here`},
		"duration":      {"replies:\n  - {text: a, delay: soon}\n", `script s: line 2: "soon" is not a duration such as 50ms or 2s`},
		"no replies":    {"files: []\n", `script s: there are no replies`},
		"empty":         {"", `script s is empty`},
		"path":          {"files: [{path: ../x}]\nreplies: [{text: a}]\n", `script s: file "../x": the path must be relative and stay in the work directory`},
		"status":        {"replies:\n  - error: {status: 42}\n", `script s: line 2: reply 1: error status 42 is none of HTTP`},
		"wire base64":   {"replies:\n  - wire: {status: 200, chunks: [{base64: '%'}]}\n", `script s: line 2: reply 1: wire: base64: illegal base64 data at input byte 0`},
		"not a number":  {"replies:\n  - {text: a, chunk: x}\n", ""},
		"not YAML":      {"replies: [", ""},
		"chunk too low": {"replies:\n  - {text: a, chunk: -1}\n", `script s: line 2: reply 1: chunk is -1: it counts characters`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scripted.Parse("s", []byte(tt.yaml))
			if err == nil || tt.want != "" && err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	if _, err := scripted.Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "tour") {
		t.Errorf("a missing script: %v", err)
	}
	for _, name := range scripted.Builtin() {
		s, err := scripted.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Files) == 0 || len(s.Replies) < 5 {
			t.Errorf("%s is too short: %+v", name, s)
		}
	}
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte("replies: [{text: hi}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scripted.Load(file)
	if err != nil || s.Name != file || s.Replies[0].Text != "hi" || s.API() != "chat" {
		t.Errorf("%+v, %v", s, err)
	}
}

// The page describes what the code takes: its scripts parse.
func TestDocumentedScriptsParse(t *testing.T) {
	page, err := os.ReadFile("../../../docs/scripted.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d scripts in docs/scripted.md", len(blocks))
	}
	for _, b := range blocks {
		text := b[1]
		if !strings.Contains(text, "replies:") {
			text = "replies:\n" + text
		}
		if _, err := scripted.Parse("docs", []byte(text)); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}

func TestMatching(t *testing.T) {
	srv := serve(t, `
replies:
  - {when: {request: 2}, text: second}
  - {when: {user: ping}, text: pong, repeat: true}
  - {when: {model: other}, text: never}
  - {text: once}
`, scripted.ServeOptions{})
	p := openai.NewChat(openai.Options{Provider: "p", BaseURL: srv.URL, Client: &http.Client{}})
	var got []string
	for _, text := range []string{"ping", "ping", "ping", "x", "y"} {
		s, err := play(t.Context(), p, ask(text))
		if err != nil {
			s.Text = string(llm.ClassOf(err))
		}
		got = append(got, s.Text)
	}
	if want := "pong second pong once bad_request"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
