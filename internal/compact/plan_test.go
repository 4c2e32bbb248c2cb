package compact

import (
	"fmt"
	"strings"
	"testing"
)

func TestPlanTail(t *testing.T) {
	big := strings.Repeat("b", 30_000) // more than the tail may have
	mid := strings.Repeat("m", 9_000)
	tests := map[string]struct {
		build func(w *world)
		turns int
		means Means
		tail  string // the text the tail begins with; "" for none
		head  int    // messages to summarise
	}{
		"two turns fit": {func(w *world) {
			w.begin("one")
			w.step("1")
			w.begin("two")
			w.step("2")
			w.begin("three")
			w.step("3", call("read", "x"))
		}, 2, KeepTail, "two", 2},
		"one turn is wanted": {func(w *world) {
			w.begin("one")
			w.step("1")
			w.begin("two")
			w.step("2", call("read", "x"))
		}, 1, KeepTail, "two", 2},
		"the older turn does not fit": {func(w *world) {
			w.begin("one")
			w.step(big)
			w.begin("two")
		}, 2, KeepTail, "two", 2},
		"an older turn is not split": {func(w *world) {
			w.begin("one")
			w.step(big)
			w.step("short")
			w.begin("two")
		}, 2, KeepTail, "two", 3},
		"the served turn is split": {func(w *world) {
			w.begin("one")
			w.step("look "+mid, call("read", "x"))
			w.step("again "+mid, call("read", "x"))
			w.step("third "+mid, call("read", "x"))
		}, 2, KeepTail, "again", 2},
		"a split tail begins with the model's words": {func(w *world) {
			w.begin("one")
			w.step("look "+mid, call("read", "x"))
			w.say("note")
			w.step("again "+mid, call("read", "x"))
			w.step("third "+mid, call("read", "x"))
		}, 2, KeepTail, "again", 3},
		"the newest step alone is too long": {func(w *world) {
			w.begin("one")
			w.step("look", call("read", big))
		}, 2, KeepTail, "", 2},
		"everything fits, so nothing would be won": {func(w *world) {
			w.begin("one")
			w.step("look", call("read", "x"))
		}, 2, KeepTail, "", 2},
		"no tail is wanted": {func(w *world) {
			w.begin("one")
			w.step("1")
			w.begin("two")
		}, 0, KeepTail, "", 3},
		"summary only": {func(w *world) {
			w.begin("one")
			w.step("1")
			w.begin("two")
		}, 2, SummaryOnly, "", 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			test.build(w)
			p := NewPlan(w.rows, test.means, w.settings(test.turns))
			tail := ""
			for i := range w.rows {
				if w.rows[i].ID == p.TailStartID {
					tail, _, _ = strings.Cut(w.rows[i].Text(), " ")
				}
			}
			diff(t, test.tail, tail)
			diff(t, test.head, len(p.Messages))
		})
	}
}

func TestTailBudget(t *testing.T) {
	tests := []struct{ used, usable, before, want int64 }{
		{0, 0, 100_000, 8_000},
		{0, 0, 3_000, 1_500},
		{30_000, 20_000, 30_000, 5_000},
		{200_000, 180_000, 200_000, 8_000},
		{12_000, 12_000, 4_000, 2_000}, // system prompt and tools take 8,000
		{12_000, 10_000, 4_000, 1_000},
		{12_000, 4_000, 4_000, 0}, // they do not even fit
	}
	for _, test := range tests {
		s := Settings{Need: Need{Used: test.used, Usable: test.usable}}
		if got := s.tailBudget(test.before); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}

func TestPlanCarriesTheEarlierSummary(t *testing.T) {
	w := &world{}
	w.begin("one")
	w.step("1")
	w.begin("two")
	w.step("look", call("read", "x"))
	w.compact(NewPlan(w.rows, SummaryOnly, w.settings(2)), "FIRST")
	w.step("more", call("read", "y"))
	p := NewPlan(w.rows, SummaryOnly, w.settings(2))
	diff(t, "FIRST", p.Previous)
	text := strings.Join(transcript(p.Messages, transcriptOutput), "")
	if strings.Contains(text, "FIRST") || strings.Contains(text, "one") || !strings.Contains(text, "more") {
		t.Fatalf("summarised again: %s", text)
	}
}

// A long turn is compacted as often as the window demands and no more: each
// compaction wins what the next steps need.
func TestLongTurnInASmallWindow(t *testing.T) {
	w := &world{}
	w.begin("TASK-1 fix it")
	usable, made := Usable(window, 20_000), 0
	b := Breaker{Auto: true}
	for i := range 300 {
		view := Project(w.rows, w.head)
		if n, due := Due(w.rows, window, 20_000, tokensOf(view)); due {
			s := w.settings(2)
			s.Need = n
			p, verdict := b.Decide(n, func(m Means) Plan { return NewPlan(w.rows, m, s) })
			diff(t, Compact, verdict)
			w.compact(p, strings.Repeat("s", 4_000))
			made++
			b.Done(p.Means, p.Before, tokensOf(Project(w.rows, w.head)))
		}
		view = Project(w.rows, w.head)
		if n := tokensOf(view); n >= usable || !strings.Contains(encode(t, view), "TASK-1 fix it") {
			t.Fatalf("step %d: %d tokens", i, n)
		}
		w.step(fmt.Sprintf("step %d", i), call("read", strings.Repeat("r", 4_000)))
		b.Succeeded(tokensOf(Project(w.rows, w.head)), window.Context)
	}
	if least := 300 * 1_000 / int(usable); made < least || made > 2*least {
		t.Fatalf("%d compactions, at least %d are needed", made, least)
	}
}

func BenchmarkPlan(b *testing.B) {
	w := &world{}
	for len(w.rows) < 10_000 {
		w.begin("task")
		for range 8 {
			w.step("look", call("read", strings.Repeat("x", 400)))
		}
	}
	for b.Loop() {
		NewPlan(w.rows, KeepTail, w.settings(2))
	}
}
