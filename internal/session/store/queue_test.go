package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rally/internal/session"
	"rally/internal/session/store"
)

// Invariant 1: a user message, its parts and its turn become visible in one
// transaction, and nothing of them when it fails.
func TestEnqueueIsAtomic(t *testing.T) {
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")

	m := userMessage("msg_2", "x")
	m.Parts = append(m.Parts, text("prt_msg_1", "the id of a part of msg_1"))
	_, _, err := s.Enqueue(t.Context(), store.Prompt{Session: session.Session{ID: "ses_a", Title: "changed"}, Message: m, Turn: true})
	if !errors.Is(err, store.ErrExists) {
		t.Fatalf("error %v, want ErrExists", err)
	}
	diff(t, []string{"msg_1"}, messageIDs(history(t, s, "ses_a")))
	v, _ := s.Session(t.Context(), "ses_a")
	diff(t, "t", v.Title)
	turns, _ := s.Turns(t.Context(), "ses_a")
	diff(t, []session.Turn{turn}, turns)

	m = userMessage("msg_2", "x")
	_, _, err = s.Enqueue(t.Context(), store.Prompt{Session: session.Session{ID: "ses_b"}, Message: m})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
	_, _, err = s.Enqueue(t.Context(), store.Prompt{Session: session.Session{ID: "ses_a"}, Create: true, Message: m})
	if !errors.Is(err, store.ErrExists) {
		t.Errorf("error %v, want ErrExists", err)
	}
}

func TestEnqueueTwiceAttaches(t *testing.T) {
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")
	p := store.Prompt{Session: session.Session{ID: "ses_a", Title: "changed"}, Message: userMessage("msg_1", "again"), Turn: true}
	got, attached, err := s.Enqueue(t.Context(), p)
	if err != nil || !attached {
		t.Fatalf("attached %v, error %v", attached, err)
	}
	diff(t, turn, got)
	diff(t, "say msg_1", history(t, s, "ses_a")[0].Text())
	v, _ := s.Session(t.Context(), "ses_a")
	diff(t, "t", v.Title)
}

func TestEnqueueUpdatesTheSession(t *testing.T) {
	s := fresh(t)
	prompt(t, s, "ses_a", "msg_1")
	want := session.Session{
		ID: "ses_a", Title: "t", Directory: "/x", Agent: "plan", Model: session.Model{Provider: "p", ID: "m"},
		Rules: []session.Rule{{Permission: "edit", Pattern: "*", Action: session.Deny}}, Version: "test",
	}
	p := store.Prompt{Session: want, Message: userMessage("msg_2", "x")}
	p.Session.Title = ""
	if _, _, err := s.Enqueue(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got, _ := s.Session(t.Context(), "ses_a")
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(session.Session{}, "Created", "Updated")); d != "" {
		t.Error(d)
	}
}

// Invariant 13: the stored end is the one end of a turn; the first closer
// wins and all others learn what it wrote.
func TestFirstCloserWins(t *testing.T) {
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")
	var wg sync.WaitGroup
	var mu sync.Mutex
	winners, ends := 0, map[session.Reason]bool{}
	for i := range 8 {
		wg.Go(func() {
			reason := session.Reason(fmt.Sprintf("reason_%d", i))
			got, won, err := s.CloseTurn(t.Context(), turn.ID, store.End{Reason: reason, ExitCode: i, Error: session.NewError(session.UnknownError, "e")})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if won {
				winners++
			}
			ends[got.Reason] = true
		})
	}
	wg.Wait()
	if winners != 1 || len(ends) != 1 {
		t.Errorf("%d winners, ends %v", winners, ends)
	}
	if ok, err := s.ClaimTurn(t.Context(), turn.ID, 1, "h"); ok || err != nil {
		t.Errorf("a closed turn was claimed: %v %v", ok, err)
	}
}

func TestQueue(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	one, two := prompt(t, s, "ses_a", "msg_1"), prompt(t, s, "ses_a", "msg_2")
	next := func() string {
		turn, err := s.NextTurn(ctx, "ses_a")
		if errors.Is(err, store.ErrNotFound) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		return turn.ID
	}
	diff(t, one.ID, next())
	for _, pid := range []int{11, 12} { // the second takes over from the first
		if ok, err := s.ClaimTurn(ctx, one.ID, pid, "h2"); !ok || err != nil {
			t.Fatalf("claim: %v %v", ok, err)
		}
	}
	diff(t, one.ID, next())
	got, _ := s.Turn(ctx, one.ID)
	want := one
	want.State, want.OwnerPID, want.OwnerHost, want.Opened = session.TurnOpen, 12, "h2", got.Opened
	diff(t, want, got)
	if err := s.SetSteps(ctx, one.ID, 3); err != nil {
		t.Fatal(err)
	}
	alive, err := s.AliveTurns(ctx)
	if err != nil || len(alive) != 2 || alive[0].Steps != 3 {
		t.Errorf("alive turns %v, error %v", alive, err)
	}
	for _, id := range []string{one.ID, two.ID} {
		diff(t, id, next())
		if _, won, err := s.CloseTurn(ctx, id, store.End{Reason: session.ReasonCompleted}); !won || err != nil {
			t.Fatalf("close: %v %v", won, err)
		}
	}
	diff(t, "", next())
}

func TestSignals(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	one := prompt(t, s, "ses_a", "msg_1")
	signals := func() [2]bool {
		t.Helper()
		abort, superseded, err := s.Signals(ctx, one.ID)
		if err != nil {
			t.Fatal(err)
		}
		return [2]bool{abort, superseded}
	}
	two := prompt(t, s, "ses_a", "msg_2")
	diff(t, [2]bool{}, signals())
	three, _, err := s.Enqueue(ctx, store.Prompt{Session: session.Session{ID: "ses_a"}, Message: userMessage("msg_3", ""), Turn: true, Supersede: true})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, [2]bool{false, true}, signals())
	other := prompt(t, s, "ses_b", "msg_1b")
	marked, err := s.RequestAbort(ctx, "ses_a", "ses_none")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, turn := range marked {
		if !turn.AbortRequested {
			t.Errorf("turn %s is not marked", turn.ID)
		}
		ids = append(ids, turn.ID)
	}
	diff(t, []string{one.ID, two.ID, three.ID}, ids)
	diff(t, [2]bool{true, true}, signals())
	if abort, _, _ := s.Signals(ctx, other.ID); abort {
		t.Error("a turn of another session was marked")
	}
}

func TestContinue(t *testing.T) {
	closeAs := func(reason session.Reason) func(*testing.T, *store.Store) {
		return func(t *testing.T, s *store.Store) {
			turn := prompt(t, s, "ses_a", "msg_1")
			if _, _, err := s.CloseTurn(t.Context(), turn.ID, store.End{Reason: reason}); err != nil {
				t.Fatal(err)
			}
		}
	}
	imported := func(change func(*session.Message)) func(*testing.T, *store.Store) {
		return func(t *testing.T, s *store.Store) {
			m := session.Message{ID: "msg_2", Role: session.Assistant, ParentID: "msg_1", Finish: session.FinishStop, Completed: 1}
			m.Parts = []session.Part{text("prt_2", "answer")}
			change(&m)
			err := s.Import(t.Context(), session.Session{ID: "ses_a"}, []session.Message{*userMessage("msg_1", "q"), m})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name  string
		setup func(*testing.T, *store.Store)
		state store.ContinueState
		turn  string // id; empty: nil
	}{
		{"pending", func(t *testing.T, s *store.Store) { prompt(t, s, "ses_a", "msg_1") }, store.Attached, "trn_000000001"},
		{"completed", closeAs(session.ReasonCompleted), store.Answered, "trn_000000001"},
		{"aborted", closeAs(session.ReasonAborted), store.Opened, "trn_new"},
		{"no reply", func(t *testing.T, s *store.Store) {
			_, _, err := s.Enqueue(t.Context(), store.Prompt{Session: session.Session{ID: "ses_a"}, Create: true, Message: userMessage("msg_1", "")})
			if err != nil {
				t.Fatal(err)
			}
		}, store.Opened, "trn_new"},
		{"imported answer", imported(func(*session.Message) {}), store.Answered, ""},
		{"imported, finish tool-calls", imported(func(m *session.Message) { m.Finish = session.FinishToolCalls }), store.Opened, "trn_new"},
		{"imported, no finish", imported(func(m *session.Message) { m.Finish = "" }), store.Opened, "trn_new"},
		{"imported error", imported(func(m *session.Message) { m.Error = session.NewError(session.APIError, "e") }), store.Opened, "trn_new"},
		{"imported summary", imported(func(m *session.Message) { m.Summary = true }), store.Opened, "trn_new"},
		{"imported open call", imported(func(m *session.Message) {
			m.Parts = append(m.Parts, &session.Tool{Header: session.Header{ID: "prt_3"}, State: session.ToolState{Status: session.ToolRunning}})
		}), store.Opened, "trn_new"},
		{"nothing", imported(func(m *session.Message) {}), store.Nothing, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := fresh(t)
			test.setup(t, s)
			if test.state == store.Nothing {
				write(t, s, func(tx *store.Tx) error { return tx.DeleteMessage("ses_a", "msg_1") })
			}
			turn, state, err := s.ContinueTurn(t.Context(), "ses_a", "trn_new", 9, "h")
			if err != nil {
				t.Fatal(err)
			}
			id := ""
			if turn != nil {
				id = turn.ID
			}
			if state != test.state || id != test.turn {
				t.Errorf("state %d, turn %q; want %d, %q", state, id, test.state, test.turn)
			}
			if state == store.Opened {
				diff(t, "trn_new", history(t, s, "ses_a")[0].TurnID)
			}
		})
	}
}

// Invariant 5: any number of continues at once open one turn.
func TestContinueAtOnce(t *testing.T) {
	s := fresh(t)
	turn := prompt(t, s, "ses_a", "msg_1")
	if _, _, err := s.CloseTurn(t.Context(), turn.ID, store.End{Reason: session.ReasonAborted}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	opened, turns := 0, map[string]bool{}
	for i := range 10 {
		wg.Go(func() {
			got, state, err := s.ContinueTurn(t.Context(), "ses_a", fmt.Sprintf("trn_x%d", i), i, "h")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			if state == store.Opened {
				opened++
			}
			turns[got.ID] = true
		})
	}
	wg.Wait()
	if opened != 1 || len(turns) != 1 {
		t.Errorf("%d opened, turns %v", opened, turns)
	}
}
