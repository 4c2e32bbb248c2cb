package loop

import (
	"encoding/json"
	"slices"
	"strings"

	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/prompt"
)

// The texts that stand in a request for what is not there.
const (
	interruptedText = "[Tool execution was interrupted]"
	clearedText     = "[Old tool result content cleared]"
	noOutputText    = "(no output)"
)

// converter turns stored history into a request's messages. It is pure: the
// same rows give the same messages, and a row more only adds messages at the
// end (invariant 6).
type converter struct {
	target llm.Model
	// reminder is added to the message with the id remindID.
	remindID string
	reminder string
	// withoutMedia replaces attachments by notes: the server refused their size.
	withoutMedia bool

	used map[string]bool // call ids the request has so far
	out  []llm.Message
}

// messages converts history, which is in order and ends where the request
// ends. The result ends with a user or tool message and pairs every call with
// one result (invariant 7).
func (c *converter) messages(history []session.Message) []llm.Message {
	c.used = map[string]bool{}
	for i := range history {
		if m := &history[i]; m.Role == session.User {
			c.user(m)
		} else {
			c.assistant(m)
		}
	}
	if n := len(c.out); n > 0 && c.out[n-1].Role == llm.Assistant && !c.paused(history) {
		c.add(llm.User, llm.Text{Text: prompt.GoOn})
	}
	return c.out
}

// paused reports whether history ends with an answer its provider paused
// (Anthropic's pause_turn): it wants that answer back as the last message.
func (c *converter) paused(history []session.Message) bool {
	m := &history[len(history)-1]
	if m.Model.Provider != c.target.Provider || m.Finish != "" || m.Error != nil {
		return false
	}
	return slices.ContainsFunc(m.Parts, func(p session.Part) bool { return p.Kind() == session.TypeStepFinish })
}

func (c *converter) add(role llm.Role, content ...llm.Content) {
	if len(content) > 0 {
		c.out = append(c.out, llm.Message{Role: role, Content: content})
	}
}

func (c *converter) user(m *session.Message) {
	var content []llm.Content
	text := func(s string) {
		if s != "" {
			content = append(content, llm.Text{Text: s})
		}
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *session.Text:
			if !p.Ignored {
				text(p.Text)
			}
		case *session.File:
			if media, note, ok := c.media(p); ok {
				content = append(content, media)
			} else {
				text(note)
			}
		case *session.Compaction:
			text(prompt.SoFar)
		case *session.Subtask:
			text(prompt.ExecutedByUser)
		case *session.Reasoning, *session.Tool, *session.StepStart, *session.StepFinish, *session.Snapshot,
			*session.Patch, *session.AgentRef, *session.Retry:
		}
	}
	if m.ID == c.remindID {
		text(c.reminder)
	}
	c.add(llm.User, content...)
}

// maxMedia is how many bytes of base64 one attachment may have: what reads
// files scales images below it, so only imported ones are larger.
const maxMedia = 20 << 20

// media is what of an attachment the model can take. Text files and folders
// are not sent: their content stands in the synthetic text beside them.
func (c *converter) media(f *session.File) (media llm.Media, note string, ok bool) {
	if f.Mime == "text/plain" || f.Mime == "application/x-directory" {
		return llm.Media{}, "", false
	}
	name := f.Filename
	if name == "" {
		name = "file"
	}
	modality := "pdf"
	if strings.HasPrefix(f.Mime, "image/") {
		modality = "image"
	}
	_, data, inline := strings.Cut(f.URL, ";base64,")
	why := ""
	switch {
	case !inline || !strings.HasPrefix(f.URL, "data:") || !c.target.Takes(modality):
		why = "this model cannot be shown it"
	case c.withoutMedia || len(data) > maxMedia:
		why = "left out: it is too large to be sent"
	}
	if why != "" {
		return llm.Media{}, "[Attached " + f.Mime + ": " + name + " (" + why + ")]", false
	}
	return llm.Media{Mime: f.Mime, Filename: f.Filename, Data: data}, "", true
}

func (c *converter) assistant(m *session.Message) {
	same := m.Model.Provider == c.target.Provider && m.Model.ID == c.target.ID
	var content, results []llm.Content
	committed := false
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *session.Text:
			if p.Text != "" && !p.Ignored {
				content = append(content, llm.Text{Text: p.Text})
				committed = true
			}
		case *session.Reasoning:
			if same && c.target.Reasoning.Replay && (p.Text != "" || len(p.Metadata) > 0) {
				content = append(content, llm.Thought{Text: p.Text, Metadata: p.Metadata})
			}
		case *session.Tool:
			call, result := c.call(p, same)
			if call == nil {
				continue
			}
			content = append(content, *call)
			committed = true
			if result != nil {
				results = append(results, *result)
			}
		case *session.File, *session.StepStart, *session.StepFinish, *session.Snapshot, *session.Patch,
			*session.AgentRef, *session.Subtask, *session.Retry, *session.Compaction:
		}
	}
	if !committed { // thinking alone is not a message any provider takes
		return
	}
	c.add(llm.Assistant, content...)
	c.add(llm.ToolRole, results...)
}

// call is a tool part as call and result. A call the provider ran itself has
// no result of ours and goes back to that provider only.
func (c *converter) call(p *session.Tool, same bool) (*llm.Call, *llm.Result) {
	call := &llm.Call{ID: c.wireID(p, same), Name: p.Tool, Args: objectText(p.State.Input)}
	if same {
		if extra := p.Metadata[session.MetaExtra]; extra != nil {
			_ = json.Unmarshal(extra, &call.Extra) // stored by us as an object
		}
	}
	if p.Metadata.Bool(session.MetaProviderExecuted) {
		if !same {
			return nil, nil
		}
		call.Executed, call.Result = true, p.Metadata[session.MetaProviderResult]
		return call, nil
	}
	result := &llm.Result{CallID: call.ID, Name: p.Tool}
	switch p.State.Status {
	case session.ToolCompleted:
		result.Text = p.State.Output
		if p.State.Time.Compacted != 0 {
			result.Text = clearedText
			break
		}
		for _, f := range p.State.Attachments {
			if media, note, ok := c.media(f); ok {
				result.Media = append(result.Media, media)
			} else if note != "" {
				result.Text += "\n" + note
			}
		}
	case session.ToolError:
		result.Text, result.Failed = p.State.Error, true
		if out := p.State.Metadata.Text("output"); out != "" && p.State.Metadata.Bool(session.MetaInterrupted) {
			result.Text, result.Failed = out, false
		}
	case session.ToolPending, session.ToolRunning:
		result.Text, result.Failed = interruptedText, true
	}
	if result.Text == "" {
		result.Text = noOutputText
	}
	return call, result
}

// wireID is the provider's own id for the call where it is usable: given by
// the same provider and not taken by an earlier call of the request (some
// servers start at call_0 in every answer).
func (c *converter) wireID(p *session.Tool, same bool) string {
	id := p.CallID
	if given := p.Metadata.Text(session.MetaProviderCallID); same && given != "" && !c.used[given] {
		id = given
	}
	c.used[id] = true
	return id
}

// objectText is input if it is a JSON object, else {}: providers refuse
// arguments that are anything else.
func objectText(input json.RawMessage) json.RawMessage {
	var object map[string]json.RawMessage
	if len(input) == 0 || json.Unmarshal(input, &object) != nil || object == nil {
		return json.RawMessage("{}")
	}
	return input
}
