package loop

import (
	"context"
	"encoding/json"
	"errors"

	"rally/internal/session"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
)

// metaSubtask is the key under which a task call names the subtask part it was
// made for.
const metaSubtask = "subtaskID"

// pendingSubtask is the first subtask of the turn's message that no task call
// has ended for; nil when there is none.
func (t *turn) pendingSubtask(history []session.Message) *session.Subtask {
	ended := map[string]bool{}
	for i := range history {
		if history[i].TurnID != t.row.ID {
			continue
		}
		for _, call := range history[i].ToolCalls() {
			if call.State.Status.Terminal() && !call.State.Metadata.Bool(session.MetaInterrupted) {
				ended[call.Metadata.Text(metaSubtask)] = true
			}
		}
	}
	for _, p := range t.head.Parts {
		if s, ok := p.(*session.Subtask); ok && !ended[s.ID] {
			return s
		}
	}
	return nil
}

// subtask runs a subtask as a call of the task tool that no model asked for.
func (t *turn) subtask(ctx context.Context, s *session.Subtask) (*end, error) {
	input, err := json.Marshal(taskArgs{Description: s.Description, Prompt: s.Prompt, Agent: s.Agent, Command: s.Command})
	if err != nil {
		return nil, err
	}
	m := t.newAssistant(nil)
	m.Finish, m.Cost = session.FinishToolCalls, new(session.Money)
	start := &session.StepStart{Header: t.partHead(m)}
	call := &session.Tool{
		Header: t.partHead(m), CallID: t.NewID("call"), Tool: taskName,
		State: session.ToolState{Status: session.ToolPending, Input: input, Raw: string(input)},
	}
	call.Metadata = session.Metadata{}
	call.Metadata.Set(metaSubtask, s.ID)
	if err := t.Store.Write(ctx, func(tx *store.Tx) error {
		return errors.Join(tx.SaveMessage(m), tx.SavePart(start), tx.SavePart(call))
	}); err != nil {
		return nil, err
	}
	x := &executor{turn: t, message: m, start: start, calls: []*session.Tool{call}, cut: -1}
	if err := x.run(ctx); err != nil {
		return nil, t.abandonStep(ctx, m, start, err)
	}
	m.Completed = t.nowMS()
	if err := t.Store.Write(ctx, func(tx *store.Tx) error { return tx.SaveMessage(m) }); err != nil {
		return nil, err
	}
	t.calls++
	if x.stop == nil && s.Command != "" {
		return nil, t.say(ctx, prompt.SummarizeSubtask)
	}
	return x.stop, nil
}
