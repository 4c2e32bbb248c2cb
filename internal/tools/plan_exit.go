package tools

import (
	"context"
	_ "embed"
)

//go:embed plan_exit.md
var planExitText string

// newPlanExit only asks the gate: what follows from leave to go on, the
// switch to the build agent, is the loop's.
func newPlanExit() Tool {
	return tool[struct{}]{
		name: "plan_exit", text: planExitText, schema: emptySchema,
		access: func(*Env, struct{}) ([]Access, error) {
			return []Access{{Permission: "plan_exit", Patterns: []string{"*"}}}, nil
		},
		run: func(context.Context, *Env, struct{}) (Result, error) {
			return Result{Output: "The plan is approved. You now work as the build agent: carry the plan out.", Title: "Plan finished"}, nil
		},
	}
}
