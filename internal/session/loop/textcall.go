package loop

import (
	"encoding/json"
	"slices"
	"strings"

	"rally/internal/session"
	"rally/internal/tools"
)

// noteTextCall warns of an answer that is nothing but a call of a tool written
// as text: the server did not parse it, and the turn would look done. It is
// never run: what looks like a call may be a quotation.
func (t *turn) noteTextCall(proc *processor) {
	var said string
	for _, part := range proc.parts {
		if text, ok := part.(*session.Text); ok {
			said += text.Text
		}
	}
	name := textCall(said)
	if name == "" || !slices.ContainsFunc(t.tools, func(tool tools.Tool) bool { return tool.Name() == name }) {
		return
	}
	t.emit(t.session, session.Notice{Text: "the model wrote a call of " + name + " as text, so nothing was run: the server does not " +
		"parse this model's tool calls (vLLM: --enable-auto-tool-choice and --tool-call-parser; llama.cpp: --jinja)"})
}

// textCall is the name of the tool that a text calls if it is nothing else, in
// the forms that models are trained to write calls in.
func textCall(text string) string {
	wraps := [...][2]string{
		{"```json", "```"},
		{"```tool_call", "```"},
		{"```", "```"},
		{"<tool_call>", "</tool_call>"},
		{"<function_call>", "</function_call>"},
		{"[TOOL_CALLS]", ""},
		{"<|tool_call|>", "<|/tool_call|>"},
		{"<|python_tag|>", ""},
	}
	text = strings.TrimSpace(text)
	for again := true; again; {
		again = false
		for _, wrap := range wraps {
			if rest, ok := strings.CutPrefix(text, wrap[0]); ok {
				text = strings.TrimSpace(strings.TrimSuffix(rest, wrap[1]))
				again = true
			}
		}
	}
	if rest, ok := strings.CutPrefix(text, "<function="); ok {
		name, _, _ := strings.Cut(rest, ">")
		return name
	}
	type call struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
	}
	var calls []call
	dec := json.NewDecoder(strings.NewReader(text))
	if !strings.HasPrefix(text, "[") {
		calls = make([]call, 1)
		if dec.Decode(&calls[0]) != nil {
			return ""
		}
	} else if dec.Decode(&calls) != nil || len(calls) == 0 {
		return ""
	}
	rest := strings.TrimSpace(text[dec.InputOffset():])
	if calls[0].Arguments == nil && calls[0].Parameters == nil || rest != "" && rest[0] != '<' {
		return ""
	}
	return calls[0].Name
}
