package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"rally/internal/session"
	"rally/internal/session/prompt"
	"rally/internal/tools"
)

// structuredTool takes the final answer of a turn that wants one of a shape:
// its schema is the user's.
type structuredTool struct{ schema json.RawMessage }

func (structuredTool) Name() string              { return prompt.StructuredTool }
func (structuredTool) Description() string       { return prompt.StructuredDescription }
func (s structuredTool) Schema() json.RawMessage { return s.schema }

func (structuredTool) Access(*tools.Env, json.RawMessage) ([]tools.Access, error) { return nil, nil }

func (structuredTool) Run(context.Context, *tools.Env, json.RawMessage) (tools.Result, error) {
	return tools.Result{Output: prompt.StructuredCaptured, Title: prompt.StructuredTitle}, nil
}

// addStructured puts the tool among the others, which stay sorted by name.
func addStructured(list []tools.Tool, schema json.RawMessage) ([]tools.Tool, error) {
	schema, err := withoutSchemaMember(schema)
	if err != nil {
		return nil, err
	}
	return sorted(append(slices.Clone(list), structuredTool{schema})), nil
}

// sorted puts tools in the order in which they are offered.
func sorted(list []tools.Tool) []tools.Tool {
	slices.SortFunc(list, func(a, b tools.Tool) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// withoutSchemaMember drops "$schema", which some providers refuse in a tool.
func withoutSchemaMember(schema json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil {
		return nil, fmt.Errorf("the schema of the answer is not a JSON object: %w", err)
	}
	delete(members, "$schema")
	return json.Marshal(members)
}

// badStructure tells the model what is wrong with a structured answer, until
// it was told often enough.
func (x *executor) badStructure(err error) *refusal {
	no := &refusal{text: fmt.Sprintf("The answer does not match the schema: %s. Call %s again with arguments that do.", err, prompt.StructuredTool)}
	if x.repairs++; x.repairs > structuredRepairs {
		no.stop = &end{
			reason: session.ReasonNoStructured,
			err:    session.NewError(session.StructuredError, "the model did not produce output that matches the schema: "+err.Error()),
		}
	}
	return no
}
