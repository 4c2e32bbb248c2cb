package batch

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"text/template/parse"
)

// Template makes prompts from the variables of tasks. It is safe for
// concurrent use.
type Template struct{ nodes []parse.Node }

// ParseTemplate reads a text in which {{.name}} stands for a variable and
// {{.name.member}} for a member of one; {{- and -}} trim the white space beside
// them. It is the syntax of text/template without its programs: text/template
// itself calls methods by their names, which keeps the linker from leaving out
// any method of any package and doubles the binary.
func ParseTemplate(name, text string) (*Template, error) {
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(text, "", "", map[string]*parse.Tree{}); err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	for _, n := range tree.Root.Nodes {
		if n.Type() == parse.NodeText {
			continue
		}
		if _, err := variable(n); err != nil {
			where, _ := tree.ErrorContext(n)
			return nil, fmt.Errorf("read the template: %s: %w", where, err)
		}
	}
	return &Template{tree.Root.Nodes}, nil
}

// variable is the path that {{.a.b}} names.
func variable(n parse.Node) ([]string, error) {
	if a, ok := n.(*parse.ActionNode); ok && len(a.Pipe.Decl) == 0 && len(a.Pipe.Cmds) == 1 && len(a.Pipe.Cmds[0].Args) == 1 {
		if f, ok := a.Pipe.Cmds[0].Args[0].(*parse.FieldNode); ok {
			return f.Ident, nil
		}
	}
	return nil, fmt.Errorf("%.60s is not {{.name}}", n)
}

// Fill is the prompt for a task whose own prompt has been read: its variables
// and, unless they have these names, its id and prompt. A variable that is
// missing, or null, is an error: nobody wants to pay for a prompt with a hole.
// Variables that are lists or objects are written as JSON.
func (t *Template) Fill(task *Task) (string, error) {
	vars := map[string]any{"id": task.ID}
	if task.Prompt != "" {
		vars["prompt"] = task.Prompt
	}
	maps.Copy(vars, task.Vars)
	var b strings.Builder
	for _, n := range t.nodes {
		if text, ok := n.(*parse.TextNode); ok {
			b.Write(text.Text)
			continue
		}
		path, err := variable(n)
		if err != nil {
			return "", err // ParseTemplate let none through
		}
		value, err := lookup(vars, path)
		if err != nil {
			return "", badf("give it in the task's vars", "fill the template: %w", err)
		}
		b.WriteString(value)
	}
	return b.String(), nil
}

// lookup is the text of the variable at path.
func lookup(vars map[string]any, path []string) (string, error) {
	var v any = vars
	for _, name := range path {
		members, ok := v.(map[string]any)
		if v = members[name]; !ok || v == nil {
			return "", fmt.Errorf("there is no .%s", strings.Join(path, "."))
		}
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(text.String(), "\n"), err
}
