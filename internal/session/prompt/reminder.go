package prompt

import (
	_ "embed" // the texts are .md files beside the code
	"strings"

	"rally/internal/session"
)

var (
	//go:embed plan.md
	planText string
	//go:embed buildswitch.md
	switchText string
)

// planAgent is the name of the agent that plans.
const planAgent = "plan"

// planFileMark stands in plan.md for the path of the plan file.
const planFileMark = "{{plan_file}}"

// Reminding is what a reminder follows from.
type Reminding struct {
	History []session.Message // in order
	// MessageID is the user message that the turn answers. The reminder is
	// added to it, in memory, at every step alike.
	MessageID string
	Agent     session.Agent // of the turn
	// PlanFile is where plans of this session go; empty if there is no such
	// place. PlanExists says it was there when the turn began: looked at anew
	// in each step, it could change what was already sent.
	PlanFile   string
	PlanExists bool
}

// Reminder is the text to add to the user message of a turn; empty for none.
// Only what stands before that message counts, so each step of the turn gets
// the same bytes (invariant 6).
func Reminder(r Reminding) string {
	if r.Agent.Name == planAgent {
		return planReminder(r.PlanFile)
	}
	if r.Agent.ReadOnly || !afterPlan(r.History, r.MessageID) {
		return ""
	}
	text := strings.TrimSpace(switchText)
	if r.PlanFile != "" && r.PlanExists {
		text += "\n\nA plan was written to " + r.PlanFile + ". Read it and carry it out, as far as the user's message does not say otherwise."
	}
	return wrapReminder(text)
}

func planReminder(file string) string {
	where := "There is no plan file: your answer is the plan."
	if file != "" {
		where = "The plan file is " + file + ". Write your plan there with the write or edit tool, and keep it current as you learn more. " +
			"It is the only file you may create or edit."
	}
	return wrapReminder(strings.ReplaceAll(strings.TrimSpace(planText), planFileMark, where))
}

func wrapReminder(text string) string {
	return "<system-reminder>\n" + text + "\n</system-reminder>"
}

// afterPlan reports whether the last answer before a message was given in plan
// mode. Summaries are nobody's answer.
func afterPlan(history []session.Message, messageID string) bool {
	agent := ""
	for i := range history {
		m := &history[i]
		if m.ID == messageID {
			return agent == planAgent
		}
		if m.Role == session.Assistant && !m.Summary {
			agent = m.Agent
		}
	}
	return false
}
