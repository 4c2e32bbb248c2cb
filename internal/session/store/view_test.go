package store_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"rally/internal/session"
	"rally/internal/session/store"
)

// A view that is refreshed after any sequence of writes shows what a whole
// read shows.
func TestViewFollows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := fresh(t)
		turns := []session.Turn{prompt(t, s, "ses_a", "msg_u0")}
		v := store.NewView(s, "ses_a")
		var parts []string
		for i := range rapid.IntRange(1, 12).Draw(rt, "writes") {
			turn := rapid.SampledFrom(turns).Draw(rt, "turn")
			id := fmt.Sprintf("msg_%d", i)
			switch rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0:
				turns = append(turns, prompt(t, s, "ses_a", "msg_u"+id))
			case 1, 2:
				answer(t, s, turn, id)
				parts = append(parts, "prt_"+id)
			case 3, 4:
				if len(parts) > 0 {
					p := rapid.SampledFrom(parts).Draw(rt, "part")
					write(t, s, func(tx *store.Tx) error { return tx.AppendText(p, "+") })
				}
			case 5:
				if len(parts) > 0 {
					write(t, s, func(tx *store.Tx) error { return tx.DeleteParts(parts[0]) })
					parts = parts[1:]
				}
			}
			if rapid.Bool().Draw(rt, "refresh") {
				refresh(t, v)
			}
		}
		diff(t, history(t, s, "ses_a"), refresh(t, v))
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func refresh(t testing.TB, v *store.View) []session.Message {
	t.Helper()
	messages, err := v.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// What a refresh returned may be appended to without harm to the view.
func TestViewIsCapped(t *testing.T) {
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")
	answer(t, s, turn, "msg_2")
	v := store.NewView(s, "ses_a")
	got := refresh(t, v)
	_ = append(got, session.Message{ID: "mine"})
	_ = append(got[0].Parts, text("mine", "reminder"))
	for _, id := range []string{"msg_3", "msg_4"} {
		answer(t, s, turn, id)
		got = refresh(t, v)
		_ = append(got, session.Message{ID: "mine"})
		_ = append(got[len(got)-1].Parts, text("mine", "reminder"))
	}
	diff(t, history(t, s, "ses_a"), refresh(t, v))
}

// grown makes a session of n messages, in few transactions.
func grown(t testing.TB, n int) (*store.Store, session.Turn) {
	t.Helper()
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")
	for i := 1; i < n; i += 500 {
		write(t, s, func(tx *store.Tx) error {
			for j := i; j < min(n, i+500); j++ {
				if err := step(tx, turn, j); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return s, turn
}

// step stores an assistant message of about 2 kB with two parts.
func step(tx *store.Tx, turn session.Turn, i int) error {
	m := session.Message{
		ID: fmt.Sprintf("msg_a%d", i), SessionID: turn.SessionID, Role: session.Assistant, ParentID: turn.MessageID, TurnID: turn.ID, Created: 1,
	}
	if err := tx.SaveMessage(&m); err != nil {
		return err
	}
	for _, id := range []string{"x", "y"} {
		p := text(fmt.Sprintf("prt_%s%d", id, i), fmt.Sprintf("%01000d", i))
		p.SessionID, p.MessageID = m.SessionID, m.ID
		if err := tx.SavePart(p); err != nil {
			return err
		}
	}
	return nil
}

// A step on a session of 10,000 messages decodes what the step wrote, as one
// on a session of 10 does: allocations tell, time would be flaky.
func TestViewCostIsConstant(t *testing.T) {
	allocs := func(n int) float64 {
		s, turn := grown(t, n)
		v := store.NewView(s, "ses_a")
		refresh(t, v)
		i := n
		return testing.AllocsPerRun(20, func() {
			i++
			write(t, s, func(tx *store.Tx) error { return step(tx, turn, i) })
			refresh(t, v)
		})
	}
	small, large := allocs(10), allocs(10_000)
	if large > 1.5*small {
		t.Errorf("%.0f allocations a step on 10 messages, %.0f on 10,000", small, large)
	}
}

var sizes = []int{10, 1_000, 10_000}

func BenchmarkAppend(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, turn := grown(b, n)
			i := n
			for b.Loop() {
				i++
				write(b, s, func(tx *store.Tx) error { return step(tx, turn, i) })
			}
		})
	}
}

func BenchmarkRefresh(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, turn := grown(b, n)
			v := store.NewView(s, "ses_a")
			refresh(b, v)
			i := n
			for b.Loop() {
				i++
				write(b, s, func(tx *store.Tx) error { return step(tx, turn, i) })
				refresh(b, v)
			}
		})
	}
}

func BenchmarkTail(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := grown(b, n)
			d, err := s.Changes(b.Context(), "ses_a", 0)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := s.Changes(b.Context(), "ses_a", d.Rev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHistory(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := grown(b, n)
			for b.Loop() {
				history(b, s, "ses_a")
			}
		})
	}
}

func BenchmarkSignals(b *testing.B) {
	s, turn := grown(b, 1_000)
	for b.Loop() {
		if _, _, err := s.Signals(b.Context(), turn.ID); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	s, _ := grown(b, 10_000)
	for b.Loop() {
		again, err := store.Open(b.Context(), s.Path(), options())
		if err != nil {
			b.Fatal(err)
		}
		if err := again.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
