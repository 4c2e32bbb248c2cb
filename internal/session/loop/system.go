package loop

import (
	"os"
	"path/filepath"
	"runtime"
	"time"

	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/prompt"
)

// system is the system prompt: the same bytes at every step of the turn.
func (t *turn) system(model llm.Model) string {
	_, err := os.Lstat(filepath.Join(t.root, ".git"))
	return prompt.System(prompt.Options{
		Agent: t.agent, Model: model.Ref(), UserSystem: t.head.System, AppendSystem: t.head.AppendSystem,
		Directory: t.session.Directory, Root: t.root, IsRepo: err == nil, Platform: runtime.GOOS,
		Date: time.UnixMilli(t.session.Created), Context: t.context, Structured: t.format != nil,
	})
}

// reminder is what is added to the turn's user message, the same at every
// step.
func (t *turn) reminder(history []session.Message) string {
	return prompt.Reminder(prompt.Reminding{
		History: history, MessageID: t.head.ID, Agent: t.agent, PlanFile: t.planFile, PlanExists: t.planExists,
	})
}

// plan finds the session's plan file and lets the plan agent write it.
func (t *turn) plan() error {
	dir, err := t.Store.Folder("plans")
	if err != nil {
		return err
	}
	t.planFile = filepath.Join(dir, t.session.ID+".md")
	_, err = os.Stat(t.planFile)
	t.planExists = err == nil
	t.agent = prompt.WithPlanFile(t.agent, t.planFile, t.root)
	return nil
}

// outputReserve is what is left free between the prompt's estimate and the
// window: the estimate is only that.
const outputReserve = 1024

// variantOptions are the request options of a model's variant; nil for none.
func variantOptions(model llm.Model, name string) session.Metadata {
	for _, v := range model.Variants {
		if v.Name == name {
			return v.Options
		}
	}
	return nil
}
