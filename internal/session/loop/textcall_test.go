package loop

import (
	"strings"
	"testing"

	"rally/internal/session"
)

func TestTextCall(t *testing.T) {
	for text, want := range map[string]string{
		`<tool_call>{"name":"read","arguments":{"path":"a"}}</tool_call>`:                                          "read",
		"<tool_call>\n{\"name\":\"read\",\"arguments\":{}}\n</tool_call>\n<tool_call>{\"name\":\"x\"}</tool_call>": "read",
		"```json\n{\"name\": \"bash\", \"parameters\": {}}\n```":                                                   "bash",
		`[TOOL_CALLS][{"name":"edit","arguments":{}}]`:                                                             "edit",
		"<tool_call>\n<function=bash>\n<parameter=command>ls</parameter>\n</function>\n</tool_call>":               "bash",
		`{"name":"read","arguments":{"path":"a"}}`:                                                                 "read",
		`{"name":"read"}`: "",
		`To read a file I call {"name":"read","arguments":{}}`:  "",
		`{"name":"read","arguments":{}} is how a file is read.`: "",
		`[]`:      "",
		``:        "",
		"```":     "",
		`{"name`:  "",
		`"read"`:  "",
		`[1,2,3]`: "",
	} {
		if got := textCall(text); got != want {
			t.Errorf("%q calls %q, want %q", text, got, want)
		}
	}
}

func TestAnAnswerThatIsACallIsNoted(t *testing.T) {
	w := newWorld(t, `replies: [{text: '<tool_call>{"name":"read","arguments":{"filePath":"a"}}</tool_call>'}, {text: '{"name":"nothing","arguments":{}}'}]`)
	r := w.prompt(Input{Text: "go", NewSessionID: "ses_1"})
	if r.Reason != session.ReasonCompleted || !strings.HasPrefix(r.Text, "<tool_call>") {
		t.Errorf("%+v", r)
	}
	w.prompt(Input{Text: "again", SessionID: "ses_1"})
	var notices []string
	for _, e := range w.events {
		if n, ok := e.Body.(session.Notice); ok {
			notices = append(notices, n.Text)
		}
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "wrote a call of read as text") {
		t.Errorf("notices: %q", notices)
	}
}

// A server whose template opens the thinking sends the closing tag only.
func TestThinkingThatOnlyEndsIsNotTheAnswer(t *testing.T) {
	w := newWorld(t, `replies: [{text: "let me see</think>"}, {text: "let me see, <b>\n</think>\n\nfour"}, {text: "five"}]`)
	r := w.prompt(Input{Text: "two and two?", NewSessionID: "ses_1"})
	if r.Reason != session.ReasonCompleted || r.Text != "four" {
		t.Errorf("%+v", r)
	}
	history, err := w.store.History(t.Context(), "ses_1")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, part := range history[len(history)-1].Parts {
		if p, ok := part.(*session.Text); ok {
			kinds = append(kinds, "text:"+p.Text)
		}
		if p, ok := part.(*session.Reasoning); ok {
			kinds = append(kinds, "reasoning:"+p.Text)
		}
	}
	if got := strings.Join(kinds, "|"); got != "text:four|reasoning:let me see, <b>\n" {
		t.Errorf("parts: %q", got)
	}
	assertSettled(t, w.store, "ses_1")
}
