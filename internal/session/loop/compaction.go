package loop

import (
	"context"
	"errors"
	"fmt"

	"rally/internal/compact"
	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
)

// compactionAgent is the agent that writes summaries.
const compactionAgent = "compaction"

// Compaction says how the context is kept inside the window.
type Compaction struct {
	Auto      bool // false: never, on any path
	Prune     bool // leave old tool output out first
	Reserve   int64
	TailTurns int
	Model     session.Model // zero: Small, else the turn's own
}

// tooLong reports whether a provider refused a request for its size.
func tooLong(err error) bool {
	class := llm.ClassOf(err)
	return class == llm.Overflow || class == llm.TooLarge
}

// fit makes room for req before it is sent. It reports whether the history
// changed, so that the request has to be built again.
func (t *turn) fit(ctx context.Context, history []session.Message, req *llm.Request) (bool, error) {
	if excess := compact.RequestBytes(req) - compact.MaxRequestBytes; excess > 0 && !t.cleared {
		t.cleared = true
		if p := compact.PruneForSize(history, excess); len(p.Tools) > 0 {
			return true, t.clear(ctx, p, req)
		}
	}
	need, due := compact.Due(history, req.Model, t.Compaction.Reserve, t.estimate(req))
	if !due {
		return false, nil
	}
	return t.compact(ctx, history, req, need)
}

// estimate is about how many tokens req takes, by what the last step's real
// usage taught.
func (t *turn) estimate(req *llm.Request) int64 { return t.ratio.Apply(compact.Estimate(req)) }

// refused makes room after a provider refused req for its size. An error says
// that nothing can be done.
func (t *turn) refused(ctx context.Context, history []session.Message, req *llm.Request, err error) error {
	if llm.ClassOf(err) == llm.TooLarge {
		if t.withoutMedia || !hasMedia(req) {
			return err
		}
		t.withoutMedia = true
		t.emit(t.session, session.Notice{Text: "the request was too large for the server: it is sent again without attachments"})
		return nil
	}
	changed, compactErr := t.compact(ctx, history, req, compact.Refused(req.Model, t.Compaction.Reserve, t.estimate(req)))
	if compactErr == nil && !changed {
		return err
	}
	return compactErr
}

func hasMedia(req *llm.Request) bool {
	for _, m := range req.Messages {
		for _, c := range m.Content {
			if r, ok := c.(llm.Result); ok && len(r.Media) > 0 {
				return true
			}
			if _, ok := c.(llm.Media); ok {
				return true
			}
		}
	}
	return false
}

// compact prunes, and if that is not enough summarises, as far as the breaker
// lets it. It reports whether the history changed.
func (t *turn) compact(ctx context.Context, history []session.Message, req *llm.Request, need compact.Need) (bool, error) {
	if t.Compaction.Auto && t.Compaction.Prune {
		if p := compact.Prune(history); len(p.Tools) > 0 {
			if err := t.clear(ctx, p, req); err != nil {
				return false, err
			}
			var still bool
			if need, still = need.Less(p.Tokens); !still {
				return true, nil
			}
			again, err := t.history(ctx)
			if err != nil {
				return false, err
			}
			history = again
		}
	}
	plan, verdict := t.breaker.Decide(need, func(means compact.Means) compact.Plan {
		return compact.NewPlan(history, means, t.settings(req.Model, need))
	})
	switch verdict {
	case compact.Send:
		return false, nil
	case compact.Exhausted:
		return false, &endError{end{
			reason: session.ReasonContextOverflow,
			err:    session.NewError(session.ContextOverflowError, "the conversation does not fit the context window of "+req.Model.Ref().String()),
		}}
	case compact.Compact:
	}
	marker := t.marker(plan.Overflow)
	after, err := t.summarise(ctx, marker, plan, t.estimate(req))
	if err != nil {
		return false, err
	}
	t.breaker.Done(plan.Means, t.estimate(req), after)
	return true, nil
}

func (t *turn) settings(model llm.Model, need compact.Need) compact.Settings {
	return compact.Settings{HeadID: t.headID(), TailTurns: t.Compaction.TailTurns, Model: model, Ratio: t.ratio, Need: need}
}

// headID is the task whose text stays word for word; a compaction that a user
// asked for has none.
func (t *turn) headID() string {
	if t.compactOnly() {
		return ""
	}
	return t.head.ID
}

// compactOnly reports whether the turn is a compaction that a user asked for.
func (t *turn) compactOnly() bool {
	for _, p := range t.head.Parts {
		if p.Kind() == session.TypeCompaction {
			return true
		}
	}
	return false
}

// clear marks tool outputs as left out of what is sent; they stay stored.
func (t *turn) clear(ctx context.Context, p compact.Pruned, req *llm.Request) error {
	now := t.nowMS()
	err := t.Store.Write(ctx, func(tx *store.Tx) error {
		for _, call := range p.Tools {
			marked := *call
			marked.State.Time.Compacted = now
			if err := tx.SavePart(&marked); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		before := t.estimate(req)
		t.emit(t.session, session.Compacted{Auto: true, Before: before, After: before - p.Tokens})
	}
	return err
}

// marker is the user message of this turn that a summary answers.
func (t *turn) marker(overflow bool) *session.Message {
	m := t.synthetic()
	m.Parts = []session.Part{&session.Compaction{Header: t.partHead(m), Auto: true, Overflow: overflow}}
	return m
}

// summarise carries a plan out and returns what the next request takes. The
// summary and the tail that stays become visible in one transaction: who dies
// before leaves the old context, who dies after the new one (invariant 12).
func (t *turn) summarise(ctx context.Context, marker *session.Message, plan compact.Plan, before int64) (int64, error) {
	t.status(ctx, session.Status{Type: session.StatusCompacting})
	ref := first(t.Compaction.Model, t.Small, t.model)
	summary := t.newAssistant(nil)
	summary.ParentID, summary.Agent, summary.Model, summary.Summary = marker.ID, compactionAgent, ref, true
	if err := t.Store.Write(ctx, func(tx *store.Tx) error {
		return errors.Join(tx.SaveMessage(marker), tx.SavePart(marker.Parts[0]), tx.SaveMessage(summary))
	}); err != nil {
		return 0, err
	}
	done, err := t.writeSummary(ctx, ref, summary, plan)
	if err != nil {
		return 0, t.dropSummary(ctx, marker, summary, err)
	}
	now := t.nowMS()
	text := &session.Text{Header: t.partHead(summary), Text: done.Text, Time: &session.Span{Start: summary.Created, End: now}}
	summary.Finish, summary.Completed = session.FinishStop, now
	mark := compactionPart(marker)
	mark.TailStartID = plan.TailStartID
	if err := t.Store.Write(ctx, func(tx *store.Tx) error {
		if err := errors.Join(tx.SavePart(text), tx.SaveMessage(summary), tx.SavePart(mark)); err != nil || t.compactOnly() {
			return err
		}
		return t.saveSaying(tx, prompt.Continue)
	}); err != nil {
		return 0, err
	}
	history, err := t.history(ctx)
	if err != nil {
		return 0, err
	}
	_, model, err := t.Model(t.model)
	if err != nil {
		return 0, err
	}
	after := t.estimate(t.request(model, history))
	t.emit(t.session, session.Compacted{Auto: !t.compactOnly(), Overflow: plan.Overflow, Before: before, After: after})
	return after, nil
}

// resumeCompaction does a compaction that was asked for or that a dead process
// began.
func (t *turn) resumeCompaction(ctx context.Context, history []session.Message, marker *session.Message) error {
	_, model, err := t.Model(t.model)
	if err != nil {
		return err
	}
	before := t.estimate(t.request(model, history))
	need := compact.Need{Used: before, Usable: compact.Usable(model, t.Compaction.Reserve), Window: model.Context}
	if compactionPart(marker).Overflow {
		need.Why = compact.ByProvider
	}
	plan := compact.NewPlan(history, compact.KeepTail, t.settings(model, need))
	if !plan.Possible() {
		plan = compact.NewPlan(history, compact.SummaryOnly, t.settings(model, need))
	}
	copied := *marker
	after, err := t.summarise(ctx, &copied, plan, before)
	if err == nil {
		t.breaker.Done(plan.Means, before, after)
	}
	return err
}

func compactionPart(m *session.Message) *session.Compaction {
	for _, p := range m.Parts {
		if c, ok := p.(*session.Compaction); ok {
			return c
		}
	}
	return &session.Compaction{}
}

// dropSummary takes back a compaction that could not be made.
func (t *turn) dropSummary(ctx context.Context, marker, summary *session.Message, cause error) error {
	cause = &endError{t.failed(ctx, cause)}
	ctx, cancel := ending(ctx)
	defer cancel()
	return errors.Join(cause, t.Store.Write(ctx, func(tx *store.Tx) error {
		if err := tx.DeleteMessage(t.session.ID, summary.ID); err != nil || marker.ID == t.head.ID {
			return err
		}
		return tx.DeleteMessage(t.session.ID, marker.ID)
	}))
}

// writeSummary asks the model; what it used is the summary's.
func (t *turn) writeSummary(ctx context.Context, ref session.Model, summary *session.Message, plan compact.Plan) (compact.Summary, error) {
	agent, err := t.Agent(compactionAgent)
	if err != nil {
		return compact.Summary{}, err
	}
	provider, model, err := t.Model(ref)
	if err != nil {
		return compact.Summary{}, err
	}
	summary.Cost = new(session.Money)
	s := compact.Summariser{
		Base:   llm.Request{Model: model, System: agent.Prompt, Temperature: agent.Temperature, CacheKey: t.session.ID},
		Usable: compact.Usable(model, t.Compaction.Reserve), Ratio: t.ratio,
		Ask: func(ctx context.Context, req *llm.Request) (compact.Answer, error) {
			a, err := t.ask(ctx, provider, req)
			summary.Tokens, summary.Cost = summary.Tokens.Add(a.tokens), addCost(summary.Cost, a.cost)
			return compact.Answer{Text: a.text, Finish: a.finish}, err
		},
	}
	return s.Run(ctx, plan)
}

// answer is what a model said to a request that no part is stored of.
type answer struct {
	text   string
	finish session.Finish
	tokens session.Tokens
	cost   *session.Money
}

// ask makes a request beside the turn's own, with the same retries.
func (t *turn) ask(ctx context.Context, provider llm.Provider, req *llm.Request) (answer, error) {
	for attempt := 1; ; attempt++ {
		a, err := t.askOnce(ctx, provider, req)
		if err == nil || ctx.Err() != nil {
			return a, err
		}
		wait, again := t.Retry.Next(attempt, err)
		if !again {
			return a, err
		}
		if err := sleep(ctx, wait); err != nil {
			return a, err
		}
	}
}

func (t *turn) askOnce(ctx context.Context, provider llm.Provider, req *llm.Request) (answer, error) {
	proc := newProcessor("", "", t.NewID)
	proc.tags = req.Model.Reasoning.ThinkTags
	for event, err := range provider.Stream(ctx, req) {
		if err != nil {
			return answer{}, err
		}
		proc.feed(event, 0)
	}
	if proc.finish == nil {
		return answer{}, fmt.Errorf("%w: %w", errEmpty, &llm.Error{Class: llm.Incomplete, Message: "the stream ended without a finish"})
	}
	proc.end(0)
	a := answer{finish: proc.finish.Reason}
	a.tokens, a.cost = t.use(req.Model, proc.usage)
	for _, p := range proc.parts {
		if text, ok := p.(*session.Text); ok {
			a.text += text.Text
		}
	}
	return a, nil
}
