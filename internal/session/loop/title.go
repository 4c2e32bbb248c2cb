package loop

import (
	"context"
	"time"

	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
)

// titleAgent is the agent that names sessions; titleWait is how long the end
// of a turn waits for it.
const (
	titleAgent = "title"
	titleWait  = 3 * time.Second
)

// title asks a model for the session's title beside the turn, where that is
// wanted and due. The function it returns stores what came; it never fails
// the turn and holds it no longer than titleWait.
func (t *turn) title(ctx context.Context) (store func(context.Context)) {
	history, err := t.history(ctx)
	if !t.ModelTitles || err != nil || !prompt.TitleDue(t.session, history) {
		return func(context.Context) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	came := make(chan answer, 1)
	go func() {
		a, err := t.askTitle(ctx, prompt.TitleInput(history))
		if err != nil {
			a = answer{} // the title from the prompt stays
		}
		came <- a
	}()
	return func(ctx context.Context) {
		defer cancel()
		timer := time.NewTimer(titleWait)
		defer timer.Stop()
		select {
		case a := <-came:
			t.saveTitle(ctx, a)
		case <-timer.C:
			cancel()
			<-came
		}
	}
}

func (t *turn) askTitle(ctx context.Context, input string) (answer, error) {
	agent, err := t.Agent(titleAgent)
	if err != nil {
		return answer{}, err
	}
	provider, model, err := t.Model(first(t.Small, t.model))
	if err != nil {
		return answer{}, err
	}
	return t.askOnce(ctx, provider, &llm.Request{
		Model: model, System: agent.Prompt, Temperature: agent.Temperature, CacheKey: "title-" + t.session.ID,
		Messages: []llm.Message{{Role: llm.User, Content: []llm.Content{llm.Text{Text: input}}}},
	})
}

// saveTitle stores a title and what it cost: a step-finish of the user's
// message, so that the result counts it.
func (t *turn) saveTitle(ctx context.Context, a answer) {
	title := prompt.CleanTitle(a.text)
	if title == "" {
		return
	}
	ctx, cancel := ending(ctx)
	defer cancel()
	used := &session.StepFinish{Header: t.partHead(&t.head), Reason: a.finish, Tokens: a.tokens, Cost: a.cost}
	err := t.Store.Write(ctx, func(tx *store.Tx) error {
		s, err := tx.Session(t.session.ID)
		if err != nil {
			return err
		}
		s.Title = title
		if err := tx.SaveSession(s); err != nil {
			return err
		}
		return tx.SavePart(used)
	})
	if err != nil {
		t.emit(t.session, session.Notice{Text: "the session's title could not be stored: " + err.Error()})
	}
}
