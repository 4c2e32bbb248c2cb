package store_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rally/internal/session"
	"rally/internal/session/store"
)

// ids makes ids that are unique across the processes of a test.
func ids(process int) func(string) string {
	var n atomic.Int64
	return func(prefix string) string { return fmt.Sprintf("%s_%03d%06d", prefix, process, n.Add(1)) }
}

func options() store.Options {
	var now atomic.Int64
	return store.Options{Version: "test", Now: func() int64 { return 1000 + now.Add(1) }, NewID: ids(0)}
}

func open(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), path, options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func fresh(t testing.TB) *store.Store {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "data", "rally.db"))
}

func text(id, s string) *session.Text { return &session.Text{Header: session.Header{ID: id}, Text: s} }

func userMessage(id, s string) *session.Message {
	return &session.Message{ID: id, Role: session.User, Created: 5, Agent: "build", Parts: []session.Part{text("prt_"+id, s)}}
}

// prompt puts a user message with a turn into the session, creating it first.
func prompt(t testing.TB, s *store.Store, sessionID, messageID string) session.Turn {
	t.Helper()
	_, err := s.Session(t.Context(), sessionID)
	turn, attached, err := s.Enqueue(t.Context(), store.Prompt{
		Session: session.Session{ID: sessionID, Title: "t", Directory: "/w", Agent: "build"},
		Create:  err != nil, Message: userMessage(messageID, "say "+messageID), Turn: true, OwnerPID: 7, OwnerHost: "h",
	})
	if err != nil || attached {
		t.Fatalf("enqueue: attached %v, error %v", attached, err)
	}
	return turn
}

// write runs fn in a transaction that must succeed.
func write(t testing.TB, s *store.Store, fn func(tx *store.Tx) error) {
	t.Helper()
	if err := s.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func answer(t testing.TB, s *store.Store, turn session.Turn, id string) session.Message {
	t.Helper()
	m := session.Message{
		ID: id, SessionID: turn.SessionID, Role: session.Assistant, ParentID: turn.MessageID, TurnID: turn.ID,
		Created: 6, Completed: 9, Agent: "build", Finish: session.FinishStop, Cost: new(session.Money),
		Tokens: session.Tokens{Input: 3, Output: 4},
	}
	p := text("prt_"+id, "hello")
	p.SessionID, p.MessageID = turn.SessionID, id
	write(t, s, func(tx *store.Tx) error {
		if err := tx.SaveMessage(&m); err != nil {
			return err
		}
		return tx.SavePart(p)
	})
	m.Parts = []session.Part{p}
	return m
}

func history(t testing.TB, s *store.Store, sessionID string) []session.Message {
	t.Helper()
	out, err := s.History(t.Context(), sessionID)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func messageIDs(messages []session.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.ID)
	}
	return out
}

func diff(t testing.TB, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestRoundTrip(t *testing.T) {
	s := fresh(t)
	cost := session.Money(1200)
	v := session.Session{
		ID: "ses_a", ParentID: "ses_p", Title: "t", Directory: "/w", Agent: "build", Model: session.Model{Provider: "p", ID: "m", Variant: "high"},
		Rules:  []session.Rule{{Permission: "bash", Pattern: "*", Action: session.Allow}},
		Revert: &session.Revert{MessageID: "m"}, Todos: []session.Todo{{Content: "c", Status: "pending", Priority: "high"}},
		Version: "v", Created: 3,
	}
	m := session.Message{
		ID: "msg_1", SessionID: "ses_a", Role: session.User, Created: 4, Agent: "build", Model: v.Model,
		System: "s", AppendSystem: "a", Tools: []string{"a", "b", "c", "d"}, Diffs: []session.FileDiff{{File: "f"}},
		Format: &session.Format{Type: "json_schema", Schema: json.RawMessage(`{"type":"object"}`)},
	}
	a := session.Message{
		ID: "msg_2", SessionID: "ses_a", Role: session.Assistant, ParentID: "msg_1", Created: 5, Completed: 6, Agent: "build", Model: v.Model,
		Cost: &cost, Finish: session.FinishStop, Tokens: session.Tokens{Input: 1, Cache: session.Cache{Read: 2}},
	}
	h := session.Header{SessionID: "ses_a", MessageID: "msg_2"}
	parts := []session.Part{
		&session.StepStart{Header: h}, &session.Reasoning{Header: h, Text: "r"}, &session.Text{Header: h, Text: "x"},
		&session.Tool{Header: h, CallID: "c", Tool: "bash", State: session.ToolState{Status: session.ToolPending, Input: json.RawMessage("{}")}},
		&session.StepFinish{Header: h, Reason: session.FinishStop, Cost: &cost},
	}
	write(t, s, func(tx *store.Tx) error {
		if err := tx.SaveSession(v); err != nil {
			return err
		}
		if err := tx.SaveMessage(&m); err != nil {
			return err
		}
		if err := tx.SaveMessage(&a); err != nil {
			return err
		}
		for i, p := range parts {
			p.Head().ID = fmt.Sprintf("prt_%d", 9-i)
			if err := tx.SavePart(p); err != nil {
				return err
			}
		}
		return nil
	})
	a.Parts = parts
	diff(t, []session.Message{m, a}, history(t, s, "ses_a"))
	got, err := s.Session(t.Context(), "ses_a")
	if err != nil {
		t.Fatal(err)
	}
	v.Updated = got.Updated
	diff(t, v, got)
}
