package store_test

import (
	"encoding/json"
	"errors"
	"testing"

	"rally/internal/session"
	"rally/internal/session/store"
)

func TestFork(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	cost := session.Money(5)
	turn := prompt(t, s, "ses_a", "msg_1")
	m := answer(t, s, turn, "msg_2")
	m.Cost = &cost
	h := session.Header{SessionID: "ses_a", MessageID: "msg_2"}
	more := []session.Part{
		&session.Compaction{Header: h, TailStartID: "msg_1"},
		&session.StepFinish{Header: h, Reason: session.FinishStop, Cost: &cost},
		&session.Tool{Header: h, CallID: "c", Tool: "read", State: session.ToolState{
			Status: session.ToolCompleted, Input: json.RawMessage("{}"), Attachments: []*session.File{{Header: h, Mime: "image/png"}},
		}},
	}
	write(t, s, func(tx *store.Tx) error {
		for i, p := range more {
			p.Head().ID = "prt_more" + string(rune('0'+i))
			if err := tx.SavePart(p); err != nil {
				return err
			}
		}
		return errors.Join(tx.AppendText("prt_msg_2", " world"), tx.SaveMessage(&m))
	})
	source := history(t, s, "ses_a")
	v := session.Session{ID: "ses_b", Revert: &session.Revert{MessageID: "msg_2", PartID: "prt_more0"}}
	if err := s.Fork(ctx, "ses_a", v); err != nil {
		t.Fatal(err)
	}
	diff(t, source, history(t, s, "ses_a"))
	got := history(t, s, "ses_b")
	user, copied := got[0], got[1]
	diff(t, user.ID, copied.ParentID)
	diff(t, "hello world", copied.Text())
	if user.ID == "msg_1" || user.TurnID != "" || copied.TurnID != "" || *copied.Cost != 0 {
		t.Errorf("not a copy of its own: %+v %+v", user, copied)
	}
	compaction := copied.Parts[1].(*session.Compaction) //nolint:errcheck,forcetypeassert // in the order they were stored
	finish := copied.Parts[2].(*session.StepFinish)     //nolint:errcheck,forcetypeassert // as above
	tool := copied.Parts[3].(*session.Tool)             //nolint:errcheck,forcetypeassert // as above
	diff(t, user.ID, compaction.TailStartID)
	diff(t, session.Money(0), *finish.Cost)
	diff(t, "ses_b", tool.State.Attachments[0].SessionID)
	diff(t, source[1].Tokens, copied.Tokens)
	fork, _ := s.Session(ctx, "ses_b")
	diff(t, &session.Revert{MessageID: copied.ID, PartID: compaction.ID}, fork.Revert)

	if err := s.Fork(ctx, "ses_a", v); !errors.Is(err, store.ErrExists) {
		t.Errorf("error %v, want ErrExists", err)
	}
	if err := s.Fork(ctx, "ses_none", session.Session{ID: "ses_c"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
	if _, state, err := s.ContinueTurn(ctx, "ses_b", "trn_x", 1, "h"); state != store.Answered || err != nil {
		t.Errorf("a fork of an answered session is in state %d, error %v", state, err)
	}
}

// What was read whole and imported elsewhere reads the same.
func TestImportKeepsIDsAndOrder(t *testing.T) {
	s, other := fresh(t), fresh(t)
	one, two := prompt(t, s, "ses_a", "msg_1"), prompt(t, s, "ses_a", "msg_2")
	answer(t, s, one, "msg_3")
	follow := userMessage("msg_4", "go on")
	follow.SessionID, follow.TurnID = "ses_a", one.ID
	write(t, s, func(tx *store.Tx) error { return tx.SaveMessage(follow) })
	answer(t, s, one, "msg_5")
	answer(t, s, two, "msg_6")
	want := history(t, s, "ses_a")
	if err := other.Import(t.Context(), session.Session{ID: "ses_a"}, history(t, s, "ses_a")); err != nil {
		t.Fatal(err)
	}
	got := history(t, other, "ses_a")
	for i := range got { // seq and rev belong to the file
		got[i].Seq = want[i].Seq
		for j := range got[i].Parts {
			got[i].Parts[j].Head().Rev = want[i].Parts[j].Head().Rev
		}
	}
	diff(t, want, got)
	if err := other.Import(t.Context(), session.Session{ID: "ses_a"}, nil); !errors.Is(err, store.ErrExists) {
		t.Errorf("error %v, want ErrExists", err)
	}
	if err := other.Import(t.Context(), session.Session{ID: "ses_b"}, want); !errors.Is(err, store.ErrExists) {
		t.Errorf("error %v, want ErrExists for the ids of parts", err)
	}
	if _, err := other.Session(t.Context(), "ses_b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("half an import is left: %v", err)
	}
}
