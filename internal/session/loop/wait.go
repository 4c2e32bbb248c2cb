package loop

import (
	"context"
	"time"

	"rally/internal/session"
)

// waitEvery is how often a waiter looks at the session file.
const waitEvery = 100 * time.Millisecond

// waiter reports the parts of a turn that another process serves, as its
// owner reports them, from the rows.
type waiter struct {
	*Engine
	k      ticket
	rev    int64
	turnOf map[string]string           // message id → turn id
	seen   map[string]session.PartType // part id and what was reported of it
	began  bool
	served bool // by this process: everything was reported as it happened
}

func newWaiter(e *Engine, k ticket) *waiter {
	return &waiter{Engine: e, k: k, turnOf: map[string]string{}, seen: map[string]session.PartType{}}
}

// poll reports what is new and waits a little.
func (w *waiter) poll(ctx context.Context) error {
	if err := w.report(ctx); err != nil {
		return err
	}
	return sleep(ctx, waitEvery)
}

func (w *waiter) report(ctx context.Context) error {
	row, err := w.Store.Turn(ctx, w.k.turn.ID)
	if err != nil {
		return err
	}
	if row.State == session.TurnPending {
		return nil
	}
	if !w.began {
		w.began = true
		w.emit(w.k.session, session.TurnBegan{TurnID: row.ID, MessageID: row.MessageID})
	}
	news, err := w.Store.Changes(ctx, w.k.session.ID, w.rev)
	if err != nil {
		return err
	}
	w.rev = news.Rev
	for i := range news.Messages {
		if m := &news.Messages[i]; m.Role == session.Assistant {
			w.turnOf[m.ID] = m.TurnID
		}
	}
	for _, p := range news.Parts {
		if w.turnOf[p.Head().MessageID] == row.ID {
			w.part(p)
		}
	}
	return nil
}

// part reports a part's beginning and end, each once.
func (w *waiter) part(p session.Part) {
	id := p.Head().ID
	once := func(key string, body session.EventBody) {
		if w.seen[key] == "" {
			w.seen[key] = p.Kind()
			w.emit(w.k.session, body)
		}
	}
	switch p := p.(type) {
	case *session.StepStart:
		once(id, session.PartStarted{Part: p})
	case *session.Tool:
		if p.State.Status == session.ToolRunning {
			once(id, session.PartStarted{Part: p})
		}
		if p.State.Status.Terminal() {
			once(id+".end", session.PartEnded{Part: p})
		}
	case *session.Text, *session.Reasoning:
		if !session.IsOpen(p) {
			once(id, session.PartEnded{Part: p})
		}
	case *session.StepFinish:
		once(id, session.PartEnded{Part: p})
	case *session.File, *session.Snapshot, *session.Patch, *session.AgentRef, *session.Subtask, *session.Retry, *session.Compaction:
	}
}

// finish reports the rest of a turn that another process closed.
func (w *waiter) finish(ctx context.Context, row session.Turn) {
	if w.served {
		return
	}
	// What cannot be read here is missing from the events only: the result is
	// read again and has its own check.
	_ = w.report(context.WithoutCancel(ctx))
	if row.Error != nil {
		w.emit(w.k.session, session.Failed{Error: row.Error})
	}
	w.emit(w.k.session, session.TurnEnded{TurnID: row.ID, Reason: row.Reason})
}
