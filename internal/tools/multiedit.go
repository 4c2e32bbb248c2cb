package tools

import (
	"context"
	_ "embed"
)

//go:embed multiedit.md
var multiEditText string

const multiEditSchema = `{"type":"object","properties":{
"filePath":{"type":"string","description":"The file; absolute, or relative to the session's directory"},
"edits":{"type":"array","minItems":1,"description":"Applied in order, each to what the one before it left","items":{"type":"object","properties":{
"filePath":{"type":"string","description":"Ignored"},
"oldString":{"type":"string","description":"The text to replace"},
"newString":{"type":"string","description":"The text to put in its place"},
"replaceAll":{"type":"boolean","description":"Replace every occurrence"}},
"required":["oldString","newString"],"additionalProperties":false}}},
"required":["filePath","edits"],"additionalProperties":false}`

type multiEditArgs struct {
	FilePath string   `json:"filePath"`
	Edits    []change `json:"edits"`
}

func newMultiEdit() Tool {
	return tool[multiEditArgs]{
		name: "multiedit", text: multiEditText, schema: multiEditSchema,
		access: func(env *Env, args multiEditArgs) ([]Access, error) { return editAccess(env, args.FilePath) },
		run: func(_ context.Context, env *Env, args multiEditArgs) (Result, error) {
			return runEdits(env, args.FilePath, args.Edits)
		},
	}
}
