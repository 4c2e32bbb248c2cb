package loop

import (
	"context"
	"encoding/json"
	"slices"

	"rally/internal/session"
)

// result derives what became of a turn from stored rows, so that everyone who
// asks gets the same answer (invariant 13).
func (e *Engine) result(ctx context.Context, row session.Turn) (session.Result, error) {
	history, err := e.Store.History(ctx, row.SessionID)
	if err != nil {
		return session.Result{}, err
	}
	r := resultOf(row, history)
	for _, child := range r.Children {
		if err := e.addChild(ctx, &r, child); err != nil {
			return r, err
		}
	}
	slices.Sort(r.Files)
	r.Files = slices.Compact(r.Files)
	return r, nil
}

// resultOf is the result of a turn without its children.
func resultOf(row session.Turn, history []session.Message) session.Result {
	r := emptyResult(row)
	for i := range history {
		m := &history[i]
		if m.TurnID != row.ID {
			continue
		}
		addMessage(&r, m)
		if m.Summary || m.Role == session.User {
			continue
		}
		r.MessageID, r.Finish, r.Model = m.ID, m.Finish, m.Model.String()
		if text := m.Text(); text != "" {
			r.Text = text
		}
		if m.Structured != nil {
			r.Structured = m.Structured
			r.Text = string(m.Structured)
		}
		if m.Finish != "" {
			r.Steps++
			r.ToolCalls += len(m.ToolCalls())
		}
	}
	return r
}

func emptyResult(row session.Turn) session.Result {
	return session.Result{
		SessionID: row.SessionID, Reason: row.Reason, ExitCode: row.ExitCode, Error: row.Error,
		Denials: []session.Denial{}, Files: []string{}, Children: []string{},
		Cost: new(session.Money), CostComplete: true, DurationMS: max(0, row.Closed-row.Opened),
	}
}

// addMessage adds what a message used, changed and was refused.
func addMessage(r *session.Result, m *session.Message) {
	finished := false
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *session.StepFinish:
			finished = true
			r.Tokens = r.Tokens.Add(p.Tokens)
			r.Cost = addCost(r.Cost, p.Cost)
			r.CostComplete = r.CostComplete && !p.UsageMissing
		case *session.Retry:
			if p.Tokens != nil {
				r.Tokens = r.Tokens.Add(*p.Tokens)
				r.Cost = addCost(r.Cost, p.Cost)
			}
		case *session.Patch:
			r.Files = append(r.Files, p.Files...)
		case *session.Tool:
			var denial session.Denial
			if raw := p.State.Metadata[session.MetaDenied]; raw != nil && json.Unmarshal(raw, &denial) == nil {
				r.Denials = append(r.Denials, denial)
			}
			if child := p.State.Metadata.Text(session.MetaChild); child != "" && !slices.Contains(r.Children, child) {
				r.Children = append(r.Children, child)
			}
		case *session.Text, *session.Reasoning, *session.File, *session.StepStart, *session.Snapshot, *session.AgentRef,
			*session.Subtask, *session.Compaction:
		}
	}
	if !finished && m.Finish != "" { // the step was cut off after its stream had ended
		r.Tokens = r.Tokens.Add(m.Tokens)
		r.Cost = addCost(r.Cost, m.Cost)
	}
}

// addCost is the sum of both; an unknown cost makes the sum unknown.
func addCost(sum, cost *session.Money) *session.Money {
	if sum == nil || cost == nil {
		return nil
	}
	total := *sum + *cost
	return &total
}

// addChild adds what a child session used, changed and was refused, and its
// own children.
func (e *Engine) addChild(ctx context.Context, r *session.Result, id string) error {
	history, err := e.Store.History(ctx, id)
	if err != nil {
		return err
	}
	var own session.Result
	own.Cost, own.CostComplete = new(session.Money), true
	for i := range history {
		if history[i].Role == session.Assistant {
			addMessage(&own, &history[i])
		}
	}
	r.Tokens = r.Tokens.Add(own.Tokens)
	r.Cost = addCost(r.Cost, own.Cost)
	r.CostComplete = r.CostComplete && own.CostComplete
	r.Denials = append(r.Denials, own.Denials...)
	r.Files = append(r.Files, own.Files...)
	for _, grandchild := range own.Children {
		if err := e.addChild(ctx, r, grandchild); err != nil {
			return err
		}
	}
	return nil
}
