package batch

import (
	"fmt"
	"maps"
	"strings"
	"text/template"
)

// Template makes prompts from the variables of tasks. It is safe for
// concurrent use.
type Template struct{ t *template.Template }

// ParseTemplate reads a text/template: {{.name}} stands for a variable.
func ParseTemplate(name, text string) (*Template, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	return &Template{t}, nil
}

// Fill is the prompt for a task whose own prompt has been read: its variables
// and, unless they have these names, its id and prompt. A variable that is
// missing, or null, is an error: nobody wants to pay for a prompt with a hole.
func (t *Template) Fill(task *Task) (string, error) {
	vars := map[string]any{"id": task.ID}
	if task.Prompt != "" {
		vars["prompt"] = task.Prompt
	}
	maps.Copy(vars, task.Vars)
	maps.DeleteFunc(vars, func(_ string, v any) bool { return v == nil })
	var b strings.Builder
	if err := t.t.Execute(&b, vars); err != nil {
		return "", badf("give it in the task's vars", "fill the template: %w", err)
	}
	return b.String(), nil
}
