package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"rally/internal/session"
)

// lineLimit is how long a compact line may get, in characters.
const lineLimit = 160

// textRenderer shows a turn to people: the answer on stdout, what leads to it
// in compact lines on stderr. On a terminal text streams as it comes.
type textRenderer struct {
	outputOptions
	out        *outbox
	stderr     io.Writer
	now        func() time.Time
	onTerminal bool // stdout is one
	colors     palette

	session session.Session
	failed  bool   // an error was shown
	earlier string // a text that is not the answer if anything follows it

	// What only a terminal needs.
	stripper stripper
	shown    map[string]int // bytes of each text part on the screen
	midLine  bool
}

func (r *textRenderer) event(e session.Event) {
	child := e.ParentID != ""
	if child && r.noChildren {
		return
	}
	switch b := e.Body.(type) {
	case session.Opened:
		r.opened(b, child)
	case session.PartEnded:
		r.part(b.Part, child)
	case session.Delta:
		if b.Field == session.DeltaText && r.onTerminal && !child {
			r.streamText(b.PartID, b.Text)
		}
	case session.Discard:
		r.discard(b, child)
	case session.Permission:
		if b.Action != session.Allow {
			r.line(child, "refused: %s %s (rule %s, by %s)", b.Tool, strings.Join(b.Patterns, ", "), b.Rule, b.By)
		}
	case session.StatusChanged:
		r.status(b.Status, child)
	case session.Compacted:
		r.line(child, "history made shorter: %d → %d tokens", b.Before, b.After)
	case session.Failed:
		if !child {
			r.failed = true
			r.endLine()
			sayFailure(r.stderr, b.Error.Data.Message, b.Error.Data.Hint)
		}
	case session.Notice:
		r.line(child, "%s", b.Text)
	case session.TurnBegan, session.PartStarted, session.TurnEnded:
	}
}

func (r *textRenderer) opened(o session.Opened, child bool) {
	s := o.Session
	if child {
		r.line(child, "child session %s · agent %s · %s", s.ID, s.Agent, s.Title)
		return
	}
	r.session = s
	verb := "resumed "
	if o.Created {
		verb = ""
	}
	r.line(child, "%ssession %s · agent %s · model %s · %s", verb, s.ID, s.Agent, s.Model, s.Directory)
}

func (r *textRenderer) part(p session.Part, child bool) {
	switch p := p.(type) {
	case *session.Text:
		if !child && !p.Synthetic {
			r.text(p)
		}
	case *session.Reasoning:
		if r.thinking {
			r.thought(p, child)
		}
	case *session.Tool:
		r.tool(p, child)
	case *session.StepStart, *session.StepFinish, *session.File, *session.Snapshot, *session.Patch,
		*session.AgentRef, *session.Subtask, *session.Retry, *session.Compaction:
	}
}

func (r *textRenderer) text(p *session.Text) {
	if r.onTerminal {
		if n := r.shown[p.ID]; n < len(p.Text) {
			r.streamText(p.ID, p.Text[n:])
		}
		r.endLine()
		return
	}
	r.flushEarlier()
	r.earlier = p.Text
}

// flushEarlier shows the text before the newest thing that happened: it was
// not the answer.
func (r *textRenderer) flushEarlier() {
	text := r.earlier
	r.earlier = ""
	if strings.TrimSpace(text) != "" {
		r.say(r.colors.dim.Sprint(oneLine(text, lineLimit)))
	}
}

func (r *textRenderer) thought(p *session.Reasoning, child bool) {
	for line := range strings.Lines(strings.TrimSpace(p.Text)) {
		r.line(child, "thinking: %s", printable(strings.TrimRight(line, "\n")))
	}
}

func (r *textRenderer) tool(p *session.Tool, child bool) {
	title := p.State.Title
	if title == "" {
		title = string(p.State.Input)
	}
	took := secondsSince(p.State.Time.Start, p.State.Time.End).Round(100 * time.Millisecond)
	if p.State.Status == session.ToolError {
		r.line(child, "%s: failed: %s", p.Tool, oneLine(p.State.Error, lineLimit))
		return
	}
	r.line(child, "%s: %s (%s)", p.Tool, oneLine(title, lineLimit-len(p.Tool)), took)
}

func (r *textRenderer) status(s session.Status, child bool) {
	switch s.Type {
	case session.StatusRetry:
		wait := secondsSince(r.now().UnixMilli(), s.Next).Round(100 * time.Millisecond)
		r.line(child, "attempt %d failed, again in %s: %s", s.Attempt, wait, s.Message)
	case session.StatusOffline:
		r.line(child, "offline, waiting for the provider: %s", s.Message)
	case session.StatusCompacting:
		r.line(child, "making the history shorter")
	case session.StatusBusy, session.StatusIdle:
		if s.Message != "" {
			r.line(child, "%s", s.Message)
		}
	}
}

func (r *textRenderer) discard(d session.Discard, child bool) {
	r.earlier = ""
	for _, id := range d.PartIDs {
		if r.shown[id] > 0 {
			delete(r.shown, id)
			r.line(child, "the text above came from an attempt that failed; it is void")
		}
	}
}

// end prints the answer and, when the turn did not complete, why, and how to
// go on with it.
func (r *textRenderer) end(res session.Result) {
	if !r.onTerminal || len(r.shown) == 0 {
		r.answer(res)
	}
	r.endLine()
	if res.Reason == session.ReasonCompleted {
		return
	}
	switch {
	case r.failed:
	case res.Error != nil:
		sayFailure(r.stderr, res.Error.Data.Message, res.Error.Data.Hint)
	default:
		sayFailure(r.stderr, explain(res.Reason), "")
	}
	if id := r.session.ID; id != "" && res.Reason != session.ReasonSuperseded {
		fmt.Fprintf(r.stderr, "rally: hint: go on with: rally continue %s\n", id)
	}
}

func (r *textRenderer) answer(res session.Result) {
	text := res.Text
	if s := string(res.Structured); s != "" && s != "null" {
		text = s
	}
	if text == "" {
		return
	}
	if r.onTerminal {
		text = printable(text)
	}
	_, _ = io.WriteString(r.out, text+"\n")
}

func (r *textRenderer) streamText(partID, piece string) {
	if r.shown == nil {
		r.shown = map[string]int{}
	}
	r.shown[partID] += len(piece)
	if piece = r.stripper.strip(piece); piece == "" {
		return
	}
	_, _ = io.WriteString(r.out, piece)
	r.midLine = !strings.HasSuffix(piece, "\n")
}

// endLine ends a line of streamed text, so that what follows starts its own.
func (r *textRenderer) endLine() {
	if r.midLine {
		_, _ = io.WriteString(r.out, "\n")
		r.midLine = false
	}
	r.stripper = stripper{}
	r.out.flush()
}

// line writes one compact line to stderr, set off for child sessions.
func (r *textRenderer) line(child bool, format string, args ...any) {
	if !child {
		r.flushEarlier()
	}
	text := oneLine(fmt.Sprintf(format, args...), 2*lineLimit)
	if child {
		text = "  │ " + text
	}
	r.say(r.colors.dim.Sprint(text))
}

func (r *textRenderer) say(line string) {
	if r.quiet {
		return
	}
	if r.onTerminal {
		r.endLine()
	}
	fmt.Fprintln(r.stderr, line)
}

// sayNotice writes a remark for people.
func sayNotice(w io.Writer, text string) {
	fmt.Fprintf(w, "rally: %s\n", oneLine(text, 4*lineLimit))
}
