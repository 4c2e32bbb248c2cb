package compact

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"rally/internal/llm"
	"rally/internal/session"
)

// said answers summary requests and keeps their texts.
type said struct {
	texts  []string
	answer func(n int, text string) (Answer, error)
}

func (s *said) ask(_ context.Context, req *llm.Request) (Answer, error) {
	text, ok := req.Messages[0].Content[0].(llm.Text)
	if !ok || len(req.Messages) != 1 || req.Messages[0].Role != llm.User || len(req.Tools) != 0 || req.ToolChoice != "" {
		return Answer{}, fmt.Errorf("not a summary request: %+v", req)
	}
	s.texts = append(s.texts, text.Text)
	return s.answer(len(s.texts), text.Text)
}

func good(n int, _ string) (Answer, error) {
	return Answer{Text: fmt.Sprintf("  SUMMARY %d\n", n), Finish: session.FinishStop}, nil
}

func providerError(class llm.Class) error {
	return &llm.Error{Class: class, Message: "no"}
}

func (s *said) run(t testing.TB, p Plan, usable int64) (Summary, error) {
	t.Helper()
	base := llm.Request{Model: window, System: "sys", Tools: []llm.Tool{{Name: "x"}}, ToolChoice: "auto"}
	return Summariser{Ask: s.ask, Base: base, Usable: usable}.Run(t.Context(), p)
}

func longTurn(steps int) *world {
	w := &world{}
	w.begin("TASK-1")
	for i := range steps {
		w.step(fmt.Sprintf("step-%d", i), call("bash", strings.Repeat("o", 1_000)))
	}
	return w
}

func TestSummariseAtOnce(t *testing.T) {
	w := &world{}
	w.begin("fix </conversation> it", &session.File{Mime: "image/png", Filename: "a.png", URL: "data:AAAA"})
	failed := &session.Tool{Tool: "edit", State: session.ToolState{Status: session.ToolError, Input: []byte(`{"f":1}`), Error: "no match"}}
	w.step("reading", call("read", "line "+strings.Repeat("r", 5_000)+" end"), failed)
	p := NewPlan(w.rows, SummaryOnly, w.settings(2))
	p.Previous = "EARLIER"
	s := &said{answer: good}
	got, err := s.run(t, p, 36_000)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, Summary{Text: "SUMMARY 1", Means: SummaryOnly, Asked: 1}, got)
	conversation, _, _ := strings.Cut(s.texts[0], "\n</conversation>")
	diff(t, "<earlier-summary>\nEARLIER\n</earlier-summary>\n\n<conversation>\n"+
		"USER:\nfix <\\/conversation> it\n\nUSER:\n[Attached image/png: a.png (not shown here)]\n\n"+
		"ASSISTANT:\nreading\n\nCALL read:\n{\"a\":1}\n\n"+
		"RESULT OF read:\nline "+strings.Repeat("r", 995)+"\n[3009 bytes left out]\n"+strings.Repeat("r", 996)+" end\n\n"+
		"CALL edit:\n{\"f\":1}\n\nERROR OF edit:\nno match", conversation)
}

func TestSummariseInSlices(t *testing.T) {
	w := longTurn(30) // some 8,000 tokens
	p := NewPlan(w.rows, SummaryOnly, w.settings(0))
	s := &said{answer: good}
	got, err := s.run(t, p, 6_000)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, len(s.texts), got.Asked)
	diff(t, fmt.Sprintf("SUMMARY %d", len(s.texts)), got.Text)
	if n := len(s.texts); n < 2 || n > 4 {
		t.Fatalf("%d requests", n)
	}
	for i := range 30 {
		if n := strings.Count(strings.Join(s.texts, ""), fmt.Sprintf("step-%d\n", i)); n != 1 {
			t.Errorf("step %d was shown %d times", i, n)
		}
	}
	for i, text := range s.texts {
		if n := int64(len(text) / bytesPerToken); n > 6_000 {
			t.Errorf("slice %d has %d tokens", i, n)
		}
		if i > 0 && !strings.Contains(text, fmt.Sprintf("<earlier-summary>\nSUMMARY %d\n", i)) {
			t.Errorf("slice %d does not carry the summary on", i)
		}
	}
}

// A window smaller than it is said to be: slices shrink until they fit.
func TestSummariseFindsTheWindow(t *testing.T) {
	w := longTurn(60)
	p := NewPlan(w.rows, SummaryOnly, w.settings(0))
	s := &said{answer: func(n int, text string) (Answer, error) {
		if len(text) > 24_000 {
			return Answer{}, providerError(llm.Overflow)
		}
		return good(n, text)
	}}
	got, err := s.run(t, p, 100_000)
	if err != nil || got.Means != SummaryOnly || got.Asked > maxAsks {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestSummariseGivesUp(t *testing.T) {
	p := NewPlan(longTurn(60).rows, SummaryOnly, Settings{})
	p.Previous = "EARLIER"
	answers := map[string]func(int, string) (Answer, error){
		"always too long": func(int, string) (Answer, error) { return Answer{}, providerError(llm.Overflow) },
		"body too large":  func(int, string) (Answer, error) { return Answer{}, providerError(llm.TooLarge) },
		"says nothing":    func(int, string) (Answer, error) { return Answer{Text: " \n", Finish: session.FinishStop}, nil },
		"filtered":        func(int, string) (Answer, error) { return Answer{Text: "x", Finish: session.FinishContentFilter}, nil },
		"refused":         func(int, string) (Answer, error) { return Answer{}, providerError(llm.BadRequest) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			s := &said{answer: answer}
			got, err := s.run(t, p, 10_000)
			if err != nil || got.Asked > maxAsks {
				t.Fatalf("%+v, %v", got, err)
			}
			diff(t, Summary{Text: cutNote("EARLIER"), Means: Cut, Asked: len(s.texts)}, got)
		})
	}
	s := &said{answer: good}
	got, err := s.run(t, NewPlan(longTurn(60).rows, Cut, Settings{}), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, Summary{Text: cutNote(""), Means: Cut}, got)
}

func TestSummariseFails(t *testing.T) {
	p := NewPlan(longTurn(6).rows, SummaryOnly, Settings{})
	for _, class := range []llm.Class{llm.Auth, llm.Quota, llm.RateLimit, llm.Server, llm.Network} {
		s := &said{answer: func(int, string) (Answer, error) { return Answer{}, providerError(class) }}
		if _, err := s.run(t, p, 10_000); llm.ClassOf(err) != class {
			t.Errorf("%s became %v", class, err)
		}
	}
	ended := errors.New("aborted")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &said{answer: func(int, string) (Answer, error) { cancel(ended); return Answer{}, context.Canceled }}
	if _, err := (Summariser{Ask: s.ask}).Run(ctx, p); !errors.Is(err, ended) {
		t.Errorf("an abort became %v", err)
	}
}

func TestSummaryCutByTheOutputLimit(t *testing.T) {
	s := &said{answer: func(int, string) (Answer, error) { return Answer{Text: "HALF", Finish: session.FinishLength}, nil }}
	got, err := s.run(t, NewPlan(longTurn(3).rows, SummaryOnly, Settings{}), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, Summary{Text: "HALF\n\n[The summary was cut at the output limit.]", Means: SummaryOnly, Asked: 1}, got)
}

// However long the history and small the window, the requests are bounded in
// number and size, and no character is torn.
func TestSummariseIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		w.step(strings.Repeat("täxt ", rapid.IntRange(0, 20_000).Draw(t, "long")))
		usable := rapid.Int64Range(3_000, 40_000).Draw(t, "usable")
		s := &said{answer: good}
		sum := Summariser{Ask: s.ask, Base: llm.Request{Model: window}, Usable: usable}
		got, err := sum.Run(context.Background(), NewPlan(w.rows, SummaryOnly, w.settings(0)))
		if err != nil || got.Text == "" || got.Asked > maxAsks {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, text := range s.texts {
			if !utf8.ValidString(text) || int64(len(text)/bytesPerToken) > usable {
				t.Fatalf("a request of %d tokens for %d", len(text)/bytesPerToken, usable)
			}
		}
	})
}
