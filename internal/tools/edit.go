package tools

import (
	"context"
	_ "embed"
	"io/fs"
	"strings"

	"rally/internal/session"
)

//go:embed edit.md
var editText string

const editSchema = `{"type":"object","properties":{
"filePath":{"type":"string","description":"The file; absolute, or relative to the session's directory"},
"oldString":{"type":"string","description":"The text to replace, as it is in the file; empty to create a new file"},
"newString":{"type":"string","description":"The text to put in its place"},
"replaceAll":{"type":"boolean","description":"Replace every occurrence; false if absent"}},
"required":["filePath","oldString","newString"],"additionalProperties":false}`

type editArgs struct {
	FilePath string `json:"filePath"`
	change
}

// change is one replacement.
type change struct {
	OldString  string `json:"oldString"`
	NewString  string `json:"newString"`
	ReplaceAll bool   `json:"replaceAll"`
}

func newEdit() Tool {
	return tool[editArgs]{
		name: "edit", text: editText, schema: editSchema,
		access: func(env *Env, args editArgs) ([]Access, error) { return editAccess(env, args.FilePath) },
		run: func(_ context.Context, env *Env, args editArgs) (Result, error) {
			return runEdits(env, args.FilePath, []change{args.change})
		},
	}
}

func editAccess(env *Env, path string) ([]Access, error) {
	if path == "" {
		return nil, tell("filePath is required")
	}
	p, err := Resolve(env, path)
	if err != nil {
		return nil, err
	}
	return p.writes(), nil
}

// runEdits applies all changes, each to what the one before it left, or none.
func runEdits(env *Env, path string, changes []change) (Result, error) {
	p, err := Resolve(env, path)
	if err != nil {
		return Result{}, err
	}
	old, err := loadFile(p.Path)
	if err != nil {
		return Result{}, err
	}
	if err := mayChange(env, old); err != nil {
		return Result{}, err
	}
	content, exists := old.content, old.exists()
	for i, c := range changes {
		if content, err = c.apply(p.Path, content, exists); err != nil {
			if len(changes) > 1 {
				return Result{}, tell("Nothing was changed: edit %d of %d failed. %v", i+1, len(changes), err)
			}
			return Result{}, err
		}
		exists = true
	}
	meta := session.Metadata{}
	if err := old.put(env, meta, content); err != nil {
		return Result{}, err
	}
	return Result{Output: "Edit applied successfully.", Title: p.Pattern, Metadata: meta}, nil
}

// apply is content after the change.
func (c change) apply(path string, content []byte, exists bool) ([]byte, error) {
	switch {
	case c.OldString == c.NewString:
		return nil, tell("No changes to apply: oldString and newString are identical.")
	case c.OldString == "" && !exists:
		return []byte(c.NewString), nil
	case c.OldString == "" && len(content) == 0:
		return []byte(c.NewString), nil
	case c.OldString == "":
		return nil, tell("oldString cannot be empty when editing an existing file. Provide the exact text to replace, " +
			"or use write for an intentional full-file replacement.")
	case !exists:
		return nil, missing(path, fs.ErrNotExist)
	}
	spans, set, err := findSpans(content, c.OldString, c.ReplaceAll)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(content)+len(spans)*len(c.NewString))
	at := 0
	for _, s := range spans {
		text := c.NewString
		if end := lineEndNear(set.decode(content[s.start:s.end]), set.decode(around(content, s, set))); end != "" {
			text = withLineEnds(text, end)
		}
		fresh, err := set.encode(content, text)
		if err != nil {
			return nil, err
		}
		out = append(append(out, content[at:s.start]...), fresh...)
		at = s.end
	}
	return append(out, content[at:]...), nil
}

// around is the bytes from the span to the end of its line and a little more,
// or, at the end of the file, those before it.
func around(content []byte, s span, c coding) []byte {
	const near = 4096
	end := min(len(content), s.end+near)
	start := max(0, s.start-near)
	if c == utf16LE || c == utf16BE {
		start += start & 1
	}
	return append(append([]byte{}, content[s.end:end]...), content[start:s.start]...)
}

// lineEndNear is how lines end in the replaced text, or, if it has one line,
// after or before it; "" where there is none.
func lineEndNear(replaced, around string) string {
	for _, text := range []string{replaced, around} {
		if i := strings.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
			return "\r\n"
		} else if i >= 0 {
			return "\n"
		}
	}
	return ""
}
