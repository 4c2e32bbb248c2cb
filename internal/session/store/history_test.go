package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"rally/internal/session"
	"rally/internal/session/store"
)

// Invariant 3: order is the turn's place in the queue, then seq; it holds
// when every time and every id says otherwise.
func TestOrderWhenTimesLie(t *testing.T) {
	s := fresh(t)
	one := prompt(t, s, "ses_a", "msg_9")
	two := prompt(t, s, "ses_a", "msg_5") // queued while the first is served
	answer(t, s, one, "msg_8")
	follow := userMessage("msg_1", "go on") // synthetic, of the first turn
	follow.SessionID, follow.TurnID = "ses_a", one.ID
	write(t, s, func(tx *store.Tx) error { return tx.SaveMessage(follow) })
	one.MessageID = "msg_1"
	answer(t, s, one, "msg_7")
	answer(t, s, two, "msg_2")

	db, err := sql.Open("sqlite3", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // a test's look from outside
	if _, err := db.ExecContext(t.Context(), "UPDATE message SET created = -seq, completed = -seq"); err != nil {
		t.Fatal(err)
	}
	want := []string{"msg_9", "msg_8", "msg_1", "msg_7", "msg_5", "msg_2"}
	diff(t, want, messageIDs(history(t, s, "ses_a")))
	messages, err := store.NewView(s, "ses_a").Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	diff(t, want, messageIDs(messages))
	prompt(t, s, "ses_a", "msg_0")
	diff(t, append(want, "msg_0"), messageIDs(history(t, s, "ses_a")))
	mine, err := s.TurnMessages(t.Context(), "ses_a", two.ID)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"msg_5", "msg_2"}, messageIDs(mine))
}

func TestUpdateKeepsTheOrder(t *testing.T) {
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")
	m := answer(t, s, turn, "msg_2")
	place, seq := m.Place, m.Seq
	m.Completed, m.Place, m.Seq = 99, 7, 7
	p := text("prt_2b", "second")
	p.SessionID, p.MessageID = "ses_a", "msg_2"
	first := m.Parts[0].(*session.Text) //nolint:errcheck,forcetypeassert // answer made it
	first.Text = "changed"
	write(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.SavePart(p), tx.SavePart(first), tx.SaveMessage(&m))
	})
	m.Parts = []session.Part{first, p}
	if m.Place != place || m.Seq != seq {
		t.Errorf("place %d, seq %d; want %d, %d", m.Place, m.Seq, place, seq)
	}
	got, err := s.Message(t.Context(), "ses_a", "msg_2")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, m, got)
}

func TestAppendText(t *testing.T) {
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")
	m := answer(t, s, turn, "msg_2")
	read := func() string {
		t.Helper()
		got, err := s.Message(t.Context(), "ses_a", "msg_2")
		if err != nil {
			t.Fatal(err)
		}
		return got.Text()
	}
	for i := range 12 {
		write(t, s, func(tx *store.Tx) error { return tx.AppendText("prt_msg_2", fmt.Sprintf(" %d", i)) })
	}
	diff(t, "hello 0 1 2 3 4 5 6 7 8 9 10 11", read())
	write(t, s, func(tx *store.Tx) error { return tx.SavePart(m.Parts[0]) })
	diff(t, "hello", read())
	err := s.Write(t.Context(), func(tx *store.Tx) error { return tx.AppendText("prt_none", "x") })
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

func TestChanges(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	turn := prompt(t, s, "ses_a", "msg_1")
	prompt(t, s, "ses_b", "msg_b")
	changes := func(rev int64) ([]string, store.Delta) {
		t.Helper()
		d, err := s.Changes(ctx, "ses_a", rev)
		if err != nil {
			t.Fatal(err)
		}
		got := messageIDs(d.Messages)
		for _, p := range d.Parts {
			got = append(got, p.Head().ID)
		}
		return got, d
	}
	got, d := changes(0)
	diff(t, []string{"msg_1", "prt_msg_1"}, got)
	got, d = changes(d.Rev)
	if len(got) != 0 {
		t.Errorf("changes without a write: %v", got)
	}

	m := answer(t, s, turn, "msg_2")
	got, d = changes(d.Rev)
	diff(t, []string{"msg_2", "prt_msg_2"}, got)
	write(t, s, func(tx *store.Tx) error { return tx.AppendText("prt_msg_2", " more") })
	got, d = changes(d.Rev)
	diff(t, []string{"prt_msg_2"}, got)
	diff(t, "hello more", d.Parts[0].(*session.Text).Text) //nolint:errcheck,forcetypeassert // the line above
	write(t, s, func(tx *store.Tx) error { return tx.DeleteParts("prt_msg_2", "prt_none") })
	if _, d = changes(d.Rev); !d.Purged {
		t.Error("a deletion was not reported")
	}
	if _, d = changes(d.Rev); d.Purged {
		t.Error("a deletion was reported twice")
	}
	write(t, s, func(tx *store.Tx) error { return tx.DeleteMessage("ses_a", m.ID) })
	if _, d = changes(d.Rev); !d.Purged {
		t.Error("a deletion was not reported")
	}
	diff(t, []string{"msg_1"}, messageIDs(history(t, s, "ses_a")))
}

// A failed write leaves nothing, not even a higher rev.
func TestWriteRollsBack(t *testing.T) {
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")
	before, _ := s.Changes(t.Context(), "ses_a", 0)
	wanted := errors.New("no")
	err := s.Write(t.Context(), func(tx *store.Tx) error {
		m := session.Message{ID: "msg_2", SessionID: "ses_a", Role: session.Assistant, ParentID: turn.MessageID}
		return errors.Join(tx.SaveMessage(&m), wanted)
	})
	if !errors.Is(err, wanted) {
		t.Errorf("error %v", err)
	}
	after, _ := s.Changes(t.Context(), "ses_a", 0)
	diff(t, before, after)
	err = s.Write(t.Context(), func(tx *store.Tx) error {
		p := text("prt_x", "x")
		p.SessionID, p.MessageID = "ses_a", "msg_none"
		return tx.SavePart(p)
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}
