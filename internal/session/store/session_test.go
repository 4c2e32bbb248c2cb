package store_test

import (
	"errors"
	"testing"

	"rally/internal/session"
	"rally/internal/session/store"
)

func save(t testing.TB, s *store.Store, sessions ...session.Session) {
	t.Helper()
	write(t, s, func(tx *store.Tx) error {
		for _, v := range sessions {
			if err := tx.SaveSession(v); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestResolve(t *testing.T) {
	s := fresh(t)
	save(t, s, session.Session{ID: "ses_abc"}, session.Session{ID: "ses_abd"}, session.Session{ID: "ses_ab_c"}, session.Session{ID: "ses_xyz"}, session.Session{ID: "ses_xyz1"})
	var ambiguous *store.AmbiguousError
	var missing *store.NotFoundError
	tests := []struct {
		prefix, want string
		candidates   []string
		near         []string
	}{
		{prefix: "ses_abc", want: "ses_abc"},
		{prefix: "ses_ab_", want: "ses_ab_c"},
		{prefix: "ses_xyz", want: "ses_xyz"},
		{prefix: "ses_ab", candidates: []string{"ses_ab_c", "ses_abc", "ses_abd"}},
		{prefix: "ses_%", near: []string{"ses_xyz1", "ses_xyz", "ses_ab_c"}},
		{prefix: "ses_xyzz9", near: []string{"ses_xyz1", "ses_xyz"}},
		{prefix: "nothing-like-it"},
		{prefix: ""},
	}
	for _, test := range tests {
		v, err := s.Resolve(t.Context(), test.prefix)
		switch {
		case test.want != "":
			if err != nil || v.ID != test.want {
				t.Errorf("%q: %q, error %v", test.prefix, v.ID, err)
			}
		case test.candidates != nil:
			if errors.As(err, &ambiguous) {
				diff(t, test.candidates, ambiguous.Candidates)
			} else {
				t.Errorf("%q: error %v", test.prefix, err)
			}
		case errors.As(err, &missing) && errors.Is(err, store.ErrNotFound):
			diff(t, test.near, missing.Near)
		default:
			t.Errorf("%q: error %v", test.prefix, err)
		}
	}
}

func TestChangeSession(t *testing.T) {
	s := fresh(t)
	save(t, s, session.Session{ID: "ses_a", Title: "old", Agent: "build"})
	write(t, s, func(tx *store.Tx) error {
		v, err := tx.Session("ses_a")
		v.Title = "new"
		return errors.Join(err, tx.SaveSession(v))
	})
	v, err := s.Session(t.Context(), "ses_a")
	if err != nil || v.Title != "new" || v.Agent != "build" {
		t.Errorf("%+v, error %v", v, err)
	}
	err = s.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Session("ses_none")
		return err
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

func TestFamily(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	save(t, s, session.Session{ID: "a"}, session.Session{ID: "b", ParentID: "a"}, session.Session{ID: "c", ParentID: "b"},
		session.Session{ID: "d", ParentID: "a"}, session.Session{ID: "other"})
	children, err := s.Children(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"b", "d"}, children)
	all, err := s.Descendants(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []string{"b", "c", "d"}, all)
	if all, _ := s.Descendants(ctx, ""); len(all) != 0 {
		t.Errorf("descendants of nothing: %v", all)
	}
	prompt(t, s, "c", "msg_1")
	if err := s.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
	infos, err := s.List(ctx, store.ListFilter{})
	if err != nil || len(infos) != 1 || infos[0].Session.ID != "other" {
		t.Errorf("left: %v, error %v", infos, err)
	}
	if alive, _ := s.AliveTurns(ctx); len(alive) != 0 {
		t.Errorf("turns left: %v", alive)
	}
}

func TestList(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	save(t, s, session.Session{ID: "old", Directory: "/w"}, session.Session{ID: "near", Directory: "/w/sub"},
		session.Session{ID: "child", ParentID: "old", Directory: "/w"})
	turn := prompt(t, s, "new", "msg_1")
	answer(t, s, turn, "msg_2")
	later := prompt(t, s, "new", "msg_3")
	if ok, err := s.ClaimTurn(ctx, turn.ID, 3, "h"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := s.SetStatus(ctx, "new", session.Status{Type: session.StatusBusy}); err != nil {
		t.Fatal(err)
	}
	list := func(f store.ListFilter) ([]string, []store.Info) {
		t.Helper()
		infos, err := s.List(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, info := range infos {
			ids = append(ids, info.Session.ID)
		}
		return ids, infos
	}
	got, infos := list(store.ListFilter{})
	diff(t, []string{"new", "child", "near", "old"}, got)
	opened, _ := s.Turn(ctx, turn.ID)
	info := infos[0]
	want := store.Info{
		Session: info.Session, Status: session.Status{Type: session.StatusBusy}, Turn: &opened, Messages: 3,
		Tokens: session.Tokens{Total: 7, Input: 3, Output: 4}, Cost: new(session.Money), Last: info.Session.Updated,
	}
	diff(t, want, info)
	got, _ = list(store.ListFilter{Directory: "/w", Roots: true})
	diff(t, []string{"new", "old"}, got)
	got, _ = list(store.ListFilter{Roots: true, Limit: 2})
	diff(t, []string{"new", "near"}, got)

	// Activity in the old one makes it the newest; an unknown price is nil.
	m := session.Message{ID: "m", SessionID: "old", Role: session.Assistant, Completed: 1}
	write(t, s, func(tx *store.Tx) error { return tx.SaveMessage(&m) })
	got, infos = list(store.ListFilter{Directory: "/w", Limit: 1})
	diff(t, []string{"old"}, got)
	if infos[0].Cost != nil {
		t.Errorf("cost %v, want nil", infos[0].Cost)
	}
	last, err := s.Last(ctx, "/w")
	if err != nil || last.ID != "old" {
		t.Errorf("last %q, error %v", last.ID, err)
	}
	if _, err := s.Last(ctx, "/"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
	if _, _, err := s.CloseTurn(ctx, later.ID, store.End{Reason: session.ReasonAborted}); err != nil {
		t.Fatal(err)
	}
	_, infos = list(store.ListFilter{Limit: 1})
	diff(t, session.Status{Type: session.StatusIdle}, infos[0].Status)
}
