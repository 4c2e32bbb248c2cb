package compact

import (
	"strings"

	"rally/internal/session"
)

// Bounds, in bytes, of what goes into a summary request. The user's own words
// are not bounded: they are cut into slices, never shortened.
const (
	transcriptOutput = 2_000  // of a call's input, its output, a text by rally
	transcriptText   = 16_000 // of a text by the model
)

// transcript is a conversation as text, one entry a message. Calls and their
// results are text too, since a summary request carries no tools and servers
// refuse calls in a request without them.
func transcript(messages []session.Message, output int) []string {
	out := make([]string, 0, len(messages))
	for i := range messages {
		var b strings.Builder
		m := &messages[i]
		for _, p := range m.Parts {
			writePart(&b, m.Role, p, output)
		}
		if m.Error != nil {
			section(&b, "FAILED", m.Error.Data.Message, output)
		}
		if b.Len() > 0 {
			out = append(out, b.String())
		}
	}
	return out
}

func writePart(b *strings.Builder, role session.Role, p session.Part, output int) {
	switch p := p.(type) {
	case *session.Text:
		switch {
		case p.Ignored:
		case role == session.Assistant:
			section(b, "ASSISTANT", p.Text, transcriptText)
		case p.Synthetic:
			section(b, "NOTE TO THE ASSISTANT", p.Text, output)
		default:
			section(b, "USER", p.Text, len(p.Text))
		}
	case *session.File:
		if isMedia(p) {
			section(b, "USER", mediaNote(p, "not shown here"), transcriptText)
		}
	case *session.Subtask:
		section(b, "SUBTASK FOR "+p.Agent, p.Prompt, transcriptText)
	case *session.Tool:
		writeCall(b, p, output)
	case *session.Patch:
		section(b, "CHANGED FILES", strings.Join(p.Files, "\n"), output)
	case *session.Reasoning, *session.StepStart, *session.StepFinish, *session.Snapshot, *session.AgentRef, *session.Retry,
		*session.Compaction:
	}
}

func writeCall(b *strings.Builder, p *session.Tool, output int) {
	section(b, "CALL "+p.Tool, string(p.State.Input), output)
	switch {
	case p.State.Status == session.ToolError:
		section(b, "ERROR OF "+p.Tool, p.State.Error, output)
	case p.State.Status != session.ToolCompleted:
		section(b, "ERROR OF "+p.Tool, "no result: the call was cut off", output)
	case p.State.Time.Compacted != 0:
		section(b, "RESULT OF "+p.Tool, "left out, too old", output)
	default:
		section(b, "RESULT OF "+p.Tool, p.State.Output, output)
	}
	for _, f := range p.State.Attachments {
		if isMedia(f) {
			section(b, "RESULT OF "+p.Tool, mediaNote(f, "not shown here"), output)
		}
	}
}

// section writes a heading and a text of at most limit bytes. A text cannot
// end the block that the conversation stands in.
func section(b *strings.Builder, heading, text string, limit int) {
	text = strings.TrimSpace(text)
	if text == "" {
		return
	}
	b.WriteString(heading)
	b.WriteString(":\n")
	b.WriteString(strings.ReplaceAll(shortenMiddle(text, limit), "</conversation", "<\\/conversation"))
	b.WriteString("\n\n")
}

// pack puts entries into texts of at most size bytes. An entry that is
// longer is cut at a line or, without one, at a character.
func pack(entries []string, size int) []string {
	var out []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, b.String())
			b.Reset()
		}
	}
	for _, e := range entries {
		if b.Len()+len(e) > size {
			flush()
		}
		for len(e) > size {
			n := boundary(e, size)
			if line := strings.LastIndexByte(e[:n], '\n'); line > n/2 {
				n = line + 1
			}
			out = append(out, e[:n])
			e = e[n:]
		}
		b.WriteString(e)
	}
	flush()
	return out
}
