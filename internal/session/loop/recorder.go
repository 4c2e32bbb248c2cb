package loop

import (
	"context"
	"strings"
	"time"

	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/store"
)

// Streamed output is stored at most this often or this much at a time, so
// that a kill loses little and a long answer costs few writes.
const (
	flushEvery = 250 * time.Millisecond
	flushBytes = 4 << 10
)

// recorder stores the parts of one attempt as they grow and reports them.
type recorder struct {
	turn    *turn
	proc    *processor
	req     *llm.Request
	saved   map[session.Part]bool
	pending map[session.Part]*strings.Builder
	ended   []session.Part
	bytes   int
}

func newRecorder(t *turn, proc *processor, req *llm.Request) *recorder {
	return &recorder{turn: t, proc: proc, req: req, saved: map[session.Part]bool{}, pending: map[session.Part]*strings.Builder{}}
}

// apply reports changes and keeps them for the next flush. It says whether
// enough has gathered to flush at once.
func (r *recorder) apply(changes []change) bool {
	for _, c := range changes {
		if c.ended {
			r.ended = append(r.ended, c.part)
			delete(r.pending, c.part)
			continue
		}
		if c.field == session.DeltaInput {
			r.turn.delta(c)
			continue
		}
		b := r.pending[c.part]
		if b == nil {
			b = &strings.Builder{}
			r.pending[c.part] = b
		}
		b.WriteString(c.delta)
		r.bytes += len(c.delta)
		r.turn.delta(c)
	}
	return r.bytes >= flushBytes
}

// dirty reports whether there is something to flush.
func (r *recorder) dirty() bool { return len(r.pending) > 0 || len(r.ended) > 0 }

// flush stores what has gathered in one transaction: new parts in the order
// in which they were opened, then their growth.
func (r *recorder) flush(ctx context.Context) error {
	if !r.dirty() {
		return nil
	}
	if err := r.turn.Store.Write(ctx, r.write); err != nil {
		return err
	}
	r.stored()
	return nil
}

// stored reports the parts that ended, now that they are stored, and starts
// to gather anew.
func (r *recorder) stored() {
	for _, part := range r.ended {
		r.turn.emit(r.turn.session, session.PartEnded{Part: part})
	}
	r.bytes, r.ended = 0, nil
	clear(r.pending)
}

func (r *recorder) write(tx *store.Tx) error {
	fresh := map[session.Part]bool{}
	for _, part := range r.proc.parts {
		if r.saved[part] {
			continue
		}
		if err := tx.SavePart(part); err != nil {
			return err
		}
		r.saved[part], fresh[part] = true, true
	}
	for part, b := range r.pending {
		if err := tx.AppendText(part.Head().ID, b.String()); err != nil {
			return err
		}
	}
	for _, part := range r.ended {
		if fresh[part] {
			continue
		}
		if err := tx.SavePart(part); err != nil {
			return err
		}
	}
	return nil
}

// discard removes what a failed attempt stored and says that it is void.
func (r *recorder) discard(ctx context.Context, retry *session.Retry) error {
	var ids []string
	for _, part := range r.proc.parts {
		ids = append(ids, part.Head().ID)
	}
	if len(ids) > 0 {
		r.turn.emit(r.turn.session, session.Discard{MessageID: r.proc.head.MessageID, PartIDs: ids})
	}
	return r.turn.Store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.DeleteParts(ids...); err != nil {
			return err
		}
		return tx.SavePart(retry)
	})
}
