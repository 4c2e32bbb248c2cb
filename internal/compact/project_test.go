package compact

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rally/internal/session"
)

// Invariant 7, and the word for word part of invariant 12: whatever happened
// to a session, what is sent begins with a user message, holds the task of
// the turn once, has nothing empty and no half summary, and keeps its order.
func TestProjectionIsSendable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		before := encode(t, w.rows)
		view := Project(w.rows, w.head)
		if encode(t, w.rows) != before {
			t.Fatal("the history was changed")
		}
		if len(view) == 0 || view[0].Role != session.User {
			t.Fatalf("begins with %v", ids(view))
		}
		task := fmt.Sprintf("TASK-%d ", w.place)
		if n := strings.Count(encode(t, view), task); n != 1 {
			t.Fatalf("the task is there %d times: %v", n, ids(view))
		}
		for i := range view {
			if len(view[i].Parts) == 0 {
				t.Fatalf("message %s is empty", view[i].ID)
			}
			if leftover(&view[i]) && i > 1 {
				t.Fatalf("message %s is left of a compaction", view[i].ID)
			}
		}
		if len(view) > 2 && whole(&view[1]) && view[2].Role == session.Assistant {
			t.Fatalf("the summary is followed by the model's own words: %s", wire(view))
		}
		inOrder(t, view)
	})
}

// inOrder checks that every message is there once, and that all but a marker
// and its summary stand in the order of the store.
func inOrder(t *rapid.T, view []session.Message) {
	rest := view
	if len(view) > 1 && whole(&view[1]) {
		rest = view[2:]
	}
	if !slices.IsSortedFunc(rest, func(a, b session.Message) int { return int(a.Seq - b.Seq) }) {
		t.Fatalf("out of order: %v", ids(view))
	}
	seen := map[string]bool{}
	for _, id := range ids(view) {
		if seen[id] {
			t.Fatalf("%s is there twice: %v", id, ids(view))
		}
		seen[id] = true
	}
}

// Invariant 6: the same rows give the same bytes, and the view of the view is
// the view.
func TestProjectingTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		first := Project(w.rows, w.head)
		if encode(t, first) != encode(t, Project(copyOf(w.rows), w.head)) {
			t.Fatal("other bytes")
		}
		if again := Project(first, w.head); encode(t, first) != encode(t, again) {
			t.Fatalf("%v became %v", ids(first), ids(again))
		}
	})
}

// Invariant 6: a row more only adds to what is sent.
func TestStepsOnlyAppend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		before := encode(t, Project(w.rows, w.head))
		w.step("more", call("read", "x"))
		if after := encode(t, Project(w.rows, w.head)); !strings.HasPrefix(after, before) {
			t.Fatal("the beginning changed")
		}
	})
}

// The next turn's requests begin as those of the turn that was compacted.
func TestNextTurnAppends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		before := Project(w.rows, w.head)
		adopted := len(before) > 2 && whole(&before[1]) && before[0].TurnID != w.turn
		w.begin("TASK-NEXT")
		after := Project(w.rows, w.head)
		if !adopted && !strings.HasPrefix(encode(t, after), encode(t, before)) {
			t.Fatalf("%v became %v", ids(before), ids(after))
		}
	})
}

// Invariant 12: killed at any write, the next process sees the old context or
// the complete new one, repaired or not.
func TestKillDuringCompaction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		p := NewPlan(w.rows, Means(rapid.IntRange(0, 2).Draw(t, "means")), w.settings(2))
		if !p.Possible() || Pending(w.rows, w.turn) != nil {
			t.Skip("nothing to compact, or it is being done")
		}
		states := w.compactionRows(p, "NEW-SUMMARY")
		old, complete := encode(t, Project(states[0], w.head)), encode(t, Project(states[4], w.head))
		for i, rows := range states[:5] {
			want := old
			if i == 4 {
				want = complete
			}
			if got := encode(t, Project(rows, w.head)); got != want {
				t.Fatalf("write %d: sent\n%s", i, got)
			}
			repaired := copyOf(rows)
			r := session.Repair(repaired, 9)
			repaired = slices.DeleteFunc(repaired, func(m session.Message) bool { return slices.Contains(r.Removed, m.ID) })
			if strings.Contains(encode(t, Project(repaired, w.head)), "HALF\"") {
				t.Fatalf("write %d: a partial summary is sent", i)
			}
			pending := Pending(repaired, w.turn)
			if want := i > 0 && i < 4; (pending != nil) != want {
				t.Fatalf("write %d: pending is %v", i, pending)
			}
		}
		if !strings.HasPrefix(encode(t, Project(states[5], w.head)), complete) {
			t.Fatal("what goes on changed what was there")
		}
	})
}

// A compaction that its plan calls worth it makes the context smaller, and
// what it said would be sent is what is sent.
func TestCompactionWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		means := Means(rapid.IntRange(0, 2).Draw(t, "means"))
		p := NewPlan(w.rows, means, w.settings(2))
		if !p.Wins() {
			t.Skip("nothing to win")
		}
		text := strings.Repeat("x", summaryGuess*bytesPerToken)
		if means == Cut {
			text = cutNote(p.Previous)
		}
		before := tokensOf(Project(w.rows, w.head))
		states := w.compactionRows(p, text)
		after := tokensOf(Project(states[4], w.head))
		if before != p.Before || after != p.After || after >= before {
			t.Fatalf("planned %d → %d, is %d → %d", p.Before, p.After, before, after)
		}
	})
}

func TestProject(t *testing.T) {
	w := &world{}
	w.begin("one")
	w.step("answer one")
	w.begin("two")
	w.step("look", call("read", "x"))
	tail := w.step("look again", call("read", "y")).ID
	task := w.head
	marker := w.add(session.Message{Role: session.User}, &session.Compaction{TailStartID: tail}).ID
	done := session.Message{Role: session.Assistant, ParentID: marker, Summary: true, Finish: session.FinishStop, Completed: 1}
	summary := w.add(done, &session.Text{Text: "SUM"}).ID
	more := w.step("more").ID

	want := []string{marker, summary, task, tail, more}
	diff(t, want, ids(Project(w.rows, task)))
	diff(t, want, ids(Project(w.rows, ""))) // the marker's turn says which

	tests := map[string]struct {
		change func(rows []session.Message)
		want   []string
	}{
		"lost tail id": {func(rows []session.Message) {
			rows[5].Parts = []session.Part{&session.Compaction{TailStartID: "msg_x"}}
		}, []string{marker, summary, task, more}},
		"tail is marker": {func(rows []session.Message) { rows[5].Parts = []session.Part{&session.Compaction{TailStartID: marker}} }, []string{marker, summary, task, more}},
		"error":          {func(rows []session.Message) { rows[6].Error = session.NewError(session.APIError, "x") }, append(ids(w.rows[:5]), more)},
		"open":           {func(rows []session.Message) { rows[6].Completed = 0 }, append(ids(w.rows[:5]), more)},
		"no finish":      {func(rows []session.Message) { rows[6].Finish = "" }, append(ids(w.rows[:5]), more)},
		"cut":            {func(rows []session.Message) { rows[6].Finish = session.FinishLength }, append(ids(w.rows[:5]), more)},
		"no text":        {func(rows []session.Message) { rows[6].Parts = nil }, append(ids(w.rows[:5]), more)},
		"no marker":      {func(rows []session.Message) { rows[6].ParentID = "msg_x" }, append(ids(w.rows[:5]), more)},
		"imported: the parent is an ordinary prompt": {
			func(rows []session.Message) { rows[5].Parts = []session.Part{&session.Text{Text: "sum up"}} }, []string{marker, summary, task, more},
		},
		"continued: the task has another turn": {
			func(rows []session.Message) { rows[2].TurnID = "trn_9" }, want,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rows := copyOf(w.rows)
			test.change(rows)
			diff(t, test.want, ids(Project(rows, task)))
			diff(t, test.want, ids(Project(rows, "")))
		})
	}
}

// Where neither place nor turn says so, the caller does.
func TestHeadIsNamed(t *testing.T) {
	w := &world{}
	w.begin("one")
	w.step("answer one")
	task := w.head
	w.begin("asked for")
	w.compact(Plan{}, "SUM")
	head := w.head
	view := ids(Project(w.rows, task))
	diff(t, []string{task, head}, view[2:4])
}

func TestPinnedTask(t *testing.T) {
	w := &world{}
	w.begin("look at this", &session.File{Mime: "image/png", Filename: "a.png", URL: "data:image/png;base64,AA"},
		&session.Text{Text: strings.Repeat("f", 3000), Synthetic: true}, &session.Text{Text: "hidden", Ignored: true})
	w.step("seen", call("read", "x"))
	for _, overflow := range []bool{false, true} {
		rows := &world{rows: copyOf(w.rows), seq: w.seq, place: w.place, turn: w.turn, head: w.head}
		rows.compact(Plan{Overflow: overflow}, "SUM")
		var got []string
		for _, p := range Project(rows.rows, w.head)[2].Parts {
			if f, ok := p.(*session.File); ok {
				got = append(got, f.URL)
			} else if text, ok := p.(*session.Text); ok {
				got = append(got, text.Text)
			}
		}
		file := "data:image/png;base64,AA"
		if overflow {
			file = "[Attached image/png: a.png (left out, because the conversation did not fit the model's window)]"
		}
		diff(t, []string{
			"look at this", file,
			strings.Repeat("f", 2000) + "\n[1000 bytes left out: it was summarised; read the source again if it is needed]",
		}, got)
	}
}

// I30: what was counted before a summary does not ask for the next one.
func TestUsedForgetsWhatWasSummarised(t *testing.T) {
	w := &world{}
	w.begin("task")
	w.step("big", call("read", "x")).Tokens = session.Tokens{Input: 99_000, Output: 10}
	if n, due := Due(w.rows, window, 4_000, 100); !due || n != (Need{Why: ByUsage, Used: 99_010, Usable: 36_000, Window: 40_000}) {
		t.Fatalf("due %v: %+v", due, n)
	}
	w.compact(NewPlan(w.rows, KeepTail, w.settings(2)), "SUM")
	if n, due := Due(w.rows, window, 4_000, 100); due {
		t.Fatalf("due again: %+v", n)
	}
	if n, due := Due(w.rows, window, 4_000, 36_000); !due || n.Why != ByEstimate {
		t.Fatalf("due %v: %+v", due, n)
	}
}

func BenchmarkProject(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		for _, summaries := range []int{0, 1} {
			w := &world{}
			for len(w.rows) < size {
				w.begin("task")
				for range 8 {
					w.step("look", call("read", "x"))
				}
			}
			if summaries > 0 {
				w.compact(NewPlan(w.rows, KeepTail, w.settings(2)), "SUM")
			}
			b.Run(fmt.Sprintf("messages=%d/summaries=%d", size, summaries), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Project(w.rows, w.head)
				}
			})
		}
	}
}
