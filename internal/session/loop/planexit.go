package loop

import (
	"context"
	"os"
	"strings"

	"rally/internal/session"
	"rally/internal/session/store"
)

// The tool that ends planning, and the agent that carries a plan out.
const (
	planExit   = "plan_exit"
	buildAgent = "build"
)

// approvedText goes to the model that planned when the plan may be carried
// out in the same turn.
const approvedText = "The plan is approved. Planning is over: the rules of the build agent hold now. Carry the plan out."

// planned is the end of a turn whose plan nobody was there to approve: the
// plan is the answer.
func planned() *refusal {
	return &refusal{
		text: "The plan is finished. Nobody is here to approve it, so the turn ends and the plan is the answer.",
		stop: &end{reason: session.ReasonCompleted},
	}
}

// exitedPlan reports whether a step ended the planning with leave to go on.
func exitedPlan(m []*session.Tool) bool {
	for _, call := range m {
		if call.Tool == planExit && call.State.Status == session.ToolCompleted {
			return true
		}
	}
	return false
}

// build lets the turn go on as the build agent: a synthetic message of that
// agent says so, and whoever takes the turn over finds it.
func (t *turn) build(ctx context.Context) error {
	agent, err := t.Agent(buildAgent)
	if err != nil {
		return err
	}
	t.head.Agent = agent.Name
	if err := t.say(ctx, approvedText); err != nil {
		return err
	}
	return t.workAs(agent)
}

// workAs gives the turn an agent, with the rules and tools that follow.
func (t *turn) workAs(agent session.Agent) (err error) {
	t.agent = agent
	if err := t.plan(); err != nil {
		return err
	}
	t.gate = newGate(t.Engine, t.agent, t.session, t.env, t.named()...)
	t.tools, err = t.offered()
	return err
}

// addPlan makes the plan file's text a part of the answer, where the model
// wrote its plan there and said nothing.
func (t *turn) addPlan(ctx context.Context, m *session.Message, said bool) error {
	b, err := os.ReadFile(t.planFile)
	if said || err != nil || strings.TrimSpace(string(b)) == "" {
		return nil //nolint:nilerr // there is no plan file: the turn ends without words
	}
	now := t.nowMS()
	part := &session.Text{
		Header: t.partHead(m), Text: strings.ToValidUTF8(string(b), "\uFFFD"), Time: &session.Span{Start: now, End: now},
	}
	if err := t.Store.Write(ctx, func(tx *store.Tx) error { return tx.SavePart(part) }); err != nil {
		return err
	}
	t.emit(t.session, session.PartEnded{Part: part})
	return nil
}
