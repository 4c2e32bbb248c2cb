package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Task is one line of the task file. A line that cannot be run has Err set and
// nothing else but ID and Line.
type Task struct {
	ID         string          `json:"id"`
	Prompt     string          `json:"prompt"`
	PromptFile string          `json:"prompt_file"`
	Command    string          `json:"command"`
	Args       Args            `json:"args"`
	Session    string          `json:"session"`
	Agent      string          `json:"agent"`
	Model      string          `json:"model"`
	Files      []string        `json:"files"`
	Dir        string          `json:"dir"`
	System     string          `json:"system"`
	Schema     json.RawMessage `json:"schema"` // an object, or the name of a file
	Timeout    Duration        `json:"timeout"`
	MaxSteps   int             `json:"max_steps"`
	MaxCost    json.Number     `json:"max_cost"` // US dollars; empty for none
	Vars       map[string]any  `json:"vars"`

	Line int   `json:"-"` // counts from 1
	Err  error `json:"-"`
}

// fields are the names a task may have, in the order in which they are listed
// to people.
func fields() []string {
	return []string{
		"id", "prompt", "prompt_file", "command", "args", "session", "agent", "model", "files", "dir", "system", "schema",
		"timeout", "max_steps", "max_cost", "vars",
	}
}

// Args are a command's arguments: a list has one token an item, a single text
// is one item that the command splits.
type Args []string

// UnmarshalJSON takes a text or a list of texts.
func (a *Args) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil && string(raw) != "null" {
		*a = Args{one}
		return nil
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		return errors.New("args: give a text or a list of texts")
	}
	*a = list
	return nil
}

// Duration is a time in a task: "90s", "10m", or a number of seconds.
type Duration time.Duration

// UnmarshalJSON takes a text as time.ParseDuration does, or a number.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw) + "s"
	}
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return fmt.Errorf("timeout: %s is not a time such as \"90s\" or \"10m\"", raw)
	}
	*d = Duration(v)
	return nil
}

// BadTask says what is wrong with a line, and what may help.
type BadTask struct {
	Err  error
	Hint string
}

func (e *BadTask) Error() string { return e.Err.Error() }

// Unwrap gives the mistake itself.
func (e *BadTask) Unwrap() error { return e.Err }

func badf(hint, format string, args ...any) error {
	return &BadTask{Err: fmt.Errorf(format, args...), Hint: hint}
}

// lineID is the id of a line that has none of its own.
func lineID(line int) string { return fmt.Sprintf("line:%d", line) }

const maxID = 256

// decoder reads lines. near gives near misses of a name, for hints.
type decoder struct {
	text     bool // every line is a prompt
	template bool // the prompt is made by a template
	near     func(name string, names []string) []string
}

// decode reads a line; a mistake in it becomes a task with Err.
func (d *decoder) decode(raw []byte, line int) Task {
	var t Task
	err := badf("save the file as UTF-8", "the line is not UTF-8")
	if utf8.Valid(raw) {
		if d.text {
			return Task{ID: lineID(line), Line: line, Prompt: string(raw)}
		}
		t, err = d.object(raw)
	}
	if err == nil {
		err = d.check(&t)
	}
	if err != nil {
		return Task{ID: lineID(line), Line: line, Err: err}
	}
	t.Line = line
	return t
}

// object decodes strictly: the standard decoder would take "Prompt" for prompt
// and pass over a name that is none.
func (d *decoder) object(raw []byte) (Task, error) {
	var t Task
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return t, badf(`a task is a JSON object such as {"id": "a", "prompt": "…"}`, "the line is no JSON object: %s", jsonReason(err))
	}
	names := fields()
	for name := range members {
		if slices.Contains(names, name) {
			continue
		}
		hint := "a task may have " + strings.Join(names, ", ")
		if near := d.near(name, names); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, ", ") + "?"
		}
		return t, badf(hint, "a task has no field %q", name)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&t); err != nil {
		return t, badf("", "%s", jsonReason(err))
	}
	return t, nil
}

// jsonReason is an error of the JSON package in words about the line.
func jsonReason(err error) string {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return "it is null"
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Sprintf("%s: a %s does not fit", wrong.Field, wrong.Value)
	case errors.As(err, &wrong):
		return "it is a " + wrong.Value
	case errors.As(err, &syntax):
		return fmt.Sprintf("%s, at byte %d", syntax.Error(), syntax.Offset)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// check finds what is missing or contradicts itself.
func (d *decoder) check(t *Task) error {
	asked := 0
	for _, given := range []bool{t.Prompt != "", t.PromptFile != "", t.Command != ""} {
		if given {
			asked++
		}
	}
	switch {
	case t.ID == "":
		return badf("a result is found again by its task's id", "the task has no id")
	case len(t.ID) > maxID || strings.ContainsFunc(t.ID, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return badf("", "id: take up to %d printable bytes", maxID)
	case strings.HasPrefix(t.ID, "line:"):
		return badf("take another id", "id: %q could be that of a line without one", t.ID)
	case asked > 1:
		return badf("leave all but one out", "prompt, prompt_file and command exclude each other")
	case asked == 0 && !d.template:
		return badf("give it a prompt, a prompt_file or a command", "the task asks for nothing")
	case d.template && t.Command != "":
		return badf("leave one of them out", "the prompt comes from the template, not from a command")
	case len(t.Args) > 0 && t.Command == "":
		return badf("args go with a command", "args without a command")
	case t.MaxSteps < 0 || strings.HasPrefix(string(t.MaxCost), "-"):
		return badf("leave it out for no limit", "a limit is below zero")
	}
	return nil
}
