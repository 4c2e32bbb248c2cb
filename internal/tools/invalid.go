package tools

import (
	"context"
	_ "embed"
)

//go:embed invalid.md
var invalidText string

const invalidSchema = `{"type":"object","properties":{"tool":{"type":"string"},"error":{"type":"string"}},"required":["tool","error"],"additionalProperties":false}`

type invalidArgs struct {
	Tool  string `json:"tool"`
	Error string `json:"error"`
}

// newInvalid answers calls that OpenCode rewrote to this name, which models
// repeat from imported history.
func newInvalid() Tool {
	return tool[invalidArgs]{
		name: "invalid", text: invalidText, schema: invalidSchema, access: nothing[invalidArgs],
		run: func(_ context.Context, _ *Env, args invalidArgs) (Result, error) {
			return Result{}, tell("The arguments provided to the tool are invalid: %s", args.Error)
		},
	}
}
