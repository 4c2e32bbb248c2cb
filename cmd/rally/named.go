package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rally/internal/session"
	"rally/internal/session/prompt"
)

// What flags name: files, schemas, parts. Relative paths are the caller's, not
// the session's.

// textOrFile is the value of a flag that takes a text or @FILE.
func textOrFile(flag, value string) (string, error) {
	path, ok := strings.CutPrefix(value, "@")
	if !ok {
		return value, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", usagef("", "%s: %w", flag, err)
	}
	return string(b), nil
}

// readSchema takes a JSON Schema, or the name of a file with one.
func readSchema(value string) (*session.Format, error) {
	if value == "" {
		return nil, nil
	}
	raw := []byte(value)
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		var err error
		if raw, err = os.ReadFile(value); err != nil {
			return nil, usagef("give a file or the schema itself", "--schema: %w", err)
		}
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, usagef("a schema is a JSON object", "--schema: %w", err)
	}
	return &session.Format{Type: "json_schema", Schema: raw}, nil
}

// attachments reads the values of -f: a path, with a range of lines after a
// colon unless a file of that very name is there.
func attachments(values []string) ([]prompt.Attachment, error) {
	var out []prompt.Attachment
	for _, value := range values {
		at := prompt.Attachment{Path: value}
		_, err := os.Stat(value)
		if path, lines, ok := lineRange(value); ok && err != nil {
			at.Path, at.Lines = path, lines
			_, err = os.Stat(path)
		}
		if err == nil {
			at.Path, err = filepath.Abs(at.Path)
		}
		if err != nil {
			return nil, usagef("", "-f: %w", err)
		}
		out = append(out, at)
	}
	return out, nil
}

// lineRange splits PATH:start-end; start alone is one line.
func lineRange(value string) (path string, lines prompt.Lines, ok bool) {
	i := strings.LastIndexByte(value, ':')
	if i <= 0 {
		return value, lines, false
	}
	first, second, both := strings.Cut(value[i+1:], "-")
	from, err := strconv.Atoi(first)
	to := from
	if err == nil && both {
		to, err = strconv.Atoi(second)
	}
	if err != nil || from < 1 || to < from {
		return value, lines, false
	}
	return value[:i], prompt.Lines{From: from, To: to}, true
}

// readParts reads a JSON array of parts as exports have them.
func (a *app) readParts(ctx context.Context, path string) ([]session.Part, error) {
	var text string
	var err error
	if path == "-" {
		text, err = readAll(ctx, a.stdin, "stdin")
	} else {
		text, err = readPromptFile(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, usagef("a JSON array of text, file, agent and subtask parts", "--parts: %w", err)
	}
	var parts []session.Part
	for i, r := range raw {
		p, err := session.DecodePart(r)
		if err == nil && !promptPart(p) {
			err = fmt.Errorf("a %s part cannot be part of a message", p.Kind())
		}
		if err != nil {
			return nil, usagef("text, file, agent and subtask parts", "--parts: entry %d: %w", i+1, err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func promptPart(p session.Part) bool {
	switch p.(type) {
	case *session.Text, *session.File, *session.AgentRef, *session.Subtask:
		return true
	case *session.Reasoning, *session.Tool, *session.StepStart, *session.StepFinish, *session.Snapshot, *session.Patch,
		*session.Retry, *session.Compaction:
		return false
	}
	return false
}
