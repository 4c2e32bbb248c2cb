package tools

import (
	"context"
	_ "embed"

	"rally/internal/session"
)

//go:embed question.md
var questionText string

const questionSchema = `{"type":"object","properties":{"questions":{"type":"array","items":{"type":"object","properties":{
"question":{"type":"string"},"header":{"type":"string"},"multiple":{"type":"boolean"},
"options":{"type":"array","items":{"type":"object","properties":{"label":{"type":"string"},"description":{"type":"string"}},"required":["label"]}}},
"required":["question"]}}},"required":["questions"],"additionalProperties":false}`

type questionArgs struct {
	Questions []struct {
		Question string `json:"question"`
	} `json:"questions"`
}

// questionAnswer is what a model is told that asks a person.
const questionAnswer = "No one is here to answer. Decide yourself what serves the task best and say in your answer what you decided and why; " +
	"or, if going on could do harm, stop and say what you need to know."

func newQuestion() Tool {
	return tool[questionArgs]{
		name: "question", text: questionText, schema: questionSchema, access: nothing[questionArgs],
		run: func(_ context.Context, _ *Env, args questionArgs) (Result, error) {
			asked := make([]string, len(args.Questions))
			for i, q := range args.Questions {
				asked[i] = q.Question
			}
			meta := session.Metadata{}
			meta.Set("questions", asked)
			return Result{Output: questionAnswer, Title: "Asked " + plural(len(asked), "question", "questions"), Metadata: meta}, nil
		},
	}
}
