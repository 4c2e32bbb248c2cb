package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

// shown is what a renderer wrote.
type shown struct{ Out, Err string }

func renderText(t *testing.T, o outputOptions, terminal bool, events []session.Event, res session.Result) shown {
	t.Helper()
	var stdout, stderr bytes.Buffer
	out := newOutbox(&stdout, func(err error) { t.Error(err) })
	p := &process{}
	r := &textRenderer{
		outputOptions: o, out: out, stderr: &stderr, now: clock, onTerminal: terminal, colors: p.colors(&stderr, "never"),
	}
	for _, e := range events {
		r.event(e)
	}
	r.end(res)
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return shown{stdout.String(), stderr.String()}
}

func TestTextOnAPipe(t *testing.T) {
	got := renderText(t, outputOptions{thinking: true}, false, everyEvent(), everyResult())
	golden(t, "testdata/text.stderr", got.Err)
	if got.Out != "Hello\n" {
		t.Errorf("stdout %q, want the answer and one newline", got.Out)
	}
}

func TestQuietShowsErrorsOnly(t *testing.T) {
	got := renderText(t, outputOptions{quiet: true}, false, everyEvent(), everyResult())
	want := shown{
		Out: "Hello\n",
		Err: "rally: error: bad key\nrally: hint: set a key\nrally: hint: go on with: rally continue ses_1\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTextBeforeACallIsNotTheAnswer(t *testing.T) {
	text := func(id, s string) session.Event {
		return session.Event{Body: session.PartEnded{Part: &session.Text{Header: session.Header{ID: id}, Text: s}}}
	}
	events := []session.Event{text("a", "let me\nlook"), everyEvent()[11], text("b", "done")}
	got := renderText(t, outputOptions{}, false, events, session.Result{Reason: session.ReasonCompleted, Text: "done"})
	want := shown{Out: "done\n", Err: "let me look\nbash: true (300ms)\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTerminalStreamsTextWithoutControlCodes(t *testing.T) {
	delta := func(s string) session.Event {
		return session.Event{Body: session.Delta{PartID: "a", Field: session.DeltaText, Text: s}}
	}
	whole := "good \x1b]0;owned\x07bye\x1b[2J now"
	events := []session.Event{
		delta("good \x1b]0;ow"), delta("ned\x07bye\x1b"), delta("[2J"),
		{Body: session.PartEnded{Part: &session.Text{Header: session.Header{ID: "a"}, Text: whole}}},
	}
	got := renderText(t, outputOptions{}, true, events, session.Result{Reason: session.ReasonCompleted, Text: whole})
	if want := (shown{Out: "good bye now\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestStructuredAnswerIsPrintedAsJSON(t *testing.T) {
	got := renderText(t, outputOptions{}, false, nil, session.Result{Reason: session.ReasonCompleted, Structured: []byte(`{"n":7}`)})
	if want := (shown{Out: "{\"n\":7}\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestStripper(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"plain":              {"a\tb\nc é 世", "a\tb\nc é 世"},
		"colour":             {"\x1b[31mred\x1b[0m", "red"},
		"clipboard":          {"\x1b]52;c;ZXZpbA==\x1b\\x", "x"},
		"carriage return":    {"safe\rrm -rf", "saferm -rf"},
		"C1":                 {"a\u009b2Jb\u009dtitle\u009cc", "abc"},
		"delete and bell":    {"a\x7fb\x07c", "abc"},
		"charset":            {"\x1b(0lqk\x1b(B", "lqk"},
		"unfinished is held": {"a\x1b]0;never\nb", "a\nb"},
		"invalid UTF-8":      {"a\xffb", "a\uFFFDb"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := printable(tt.in); got != tt.want {
				t.Errorf("printable(%q) = %q, want %q", tt.in, got, tt.want)
			}
			var s stripper
			var pieces strings.Builder
			for _, r := range tt.in { // however it is cut
				pieces.WriteString(s.strip(string(r)))
			}
			if pieces.String() != tt.want {
				t.Errorf("in pieces %q, want %q", pieces.String(), tt.want)
			}
		})
	}
}

func FuzzStripper(f *testing.F) {
	f.Add("a\x1b[31mred\x1b]0;x\x07")
	f.Fuzz(func(t *testing.T, in string) {
		for _, r := range printable(in) {
			if r != '\n' && r != '\t' && (r < 0x20 || r >= 0x7f && r <= 0x9f) {
				t.Errorf("%q leaves %U", in, r)
			}
		}
	})
}
