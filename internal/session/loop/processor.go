package loop

import (
	"strings"

	"rally/internal/llm"
	"rally/internal/session"
)

// processor turns the events of one attempt into parts. It is a state
// machine without I/O or clock:
//
//	TextDelta       ─▶ opens or grows the text part, closes open reasoning
//	ReasoningDelta  ─▶ opens or grows the reasoning part of its block, closes open text
//	CallDelta       ─▶ opens a pending tool call, closes both
//	Usage, Finish   ─▶ kept for the end of the step
//
// Text and reasoning keep their growing content here; a part's Text is set
// when it ends.
type processor struct {
	head  session.Header // of the message; ids of parts are made by newID
	newID func(prefix string) string
	tags  bool // text may begin with thinking that only a closing tag ends
	calls llm.Calls

	parts     []session.Part // in order of opening
	open      map[session.Part]*strings.Builder
	text      *session.Text
	reasoning *session.Reasoning
	block     int
	tools     []*session.Tool // in the order of calls

	connected bool
	usage     *llm.Usage
	finish    *llm.Finish
}

func newProcessor(messageID, sessionID string, newID func(string) string) *processor {
	return &processor{
		head: session.Header{SessionID: sessionID, MessageID: messageID}, newID: newID,
		open: map[session.Part]*strings.Builder{},
	}
}

// change is what an event did to a part.
type change struct {
	part  session.Part
	field session.DeltaField
	delta string
	ended bool
}

// feed takes one event at a time in milliseconds and says what changed, in
// order.
func (p *processor) feed(event llm.Event, at int64) []change {
	switch e := event.(type) {
	case llm.Connected:
		p.connected = true
	case llm.TextDelta:
		return p.feedText(e, at)
	case llm.ReasoningDelta:
		return p.feedReasoning(e, at)
	case llm.CallDelta:
		return p.feedCall(e, at)
	case llm.Usage:
		p.usage = &e
	case llm.Finish:
		p.finish = &e
	}
	return nil
}

func (p *processor) header() session.Header {
	h := p.head
	h.ID = p.newID("prt")
	return h
}

func (p *processor) grow(part session.Part, field session.DeltaField, delta string) change {
	p.open[part].WriteString(delta)
	return change{part: part, field: field, delta: delta}
}

func (p *processor) feedText(e llm.TextDelta, at int64) []change {
	delta := e.Text
	var out []change
	if p.text == nil {
		if len(p.parts) == 0 { // servers with thinking models send blank lines before the answer
			delta = strings.TrimLeft(delta, "\r\n")
		}
		if delta == "" {
			return nil
		}
		out = p.closeReasoning(at)
		p.text = &session.Text{Header: p.header(), Time: &session.Span{Start: at}}
		p.parts = append(p.parts, p.text)
		p.open[p.text] = &strings.Builder{}
	}
	return append(out, p.grow(p.text, session.DeltaText, delta))
}

func (p *processor) feedReasoning(e llm.ReasoningDelta, at int64) []change {
	out := p.closeText(at)
	if p.reasoning != nil && p.block != e.Block {
		out = append(out, p.closeReasoning(at)...)
	}
	if p.reasoning == nil {
		if e.Text == "" && len(e.Metadata) == 0 {
			return out
		}
		p.block = e.Block
		p.reasoning = &session.Reasoning{Header: p.header(), Time: &session.Span{Start: at}}
		p.parts = append(p.parts, p.reasoning)
		p.open[p.reasoning] = &strings.Builder{}
	}
	for k, v := range e.Metadata {
		if p.reasoning.Metadata == nil {
			p.reasoning.Metadata = session.Metadata{}
		}
		p.reasoning.Metadata[k] = v
	}
	return append(out, p.grow(p.reasoning, session.DeltaReasoning, e.Text))
}

func (p *processor) feedCall(e llm.CallDelta, at int64) []change {
	out := append(p.closeText(at), p.closeReasoning(at)...)
	call, isNew := p.calls.Add(e)
	if isNew {
		tool := &session.Tool{
			Header: p.header(), CallID: p.newID("call"), State: session.ToolState{Status: session.ToolPending},
		}
		p.tools = append(p.tools, tool)
		p.parts = append(p.parts, tool)
	}
	tool := p.tools[call.Pos]
	tool.Tool = call.Name
	return append(out, change{part: tool, field: session.DeltaInput, delta: e.Args})
}

func (p *processor) closeText(at int64) []change {
	if p.text == nil {
		return nil
	}
	t := p.text
	p.text = nil
	t.Text, t.Time.End = p.open[t].String(), at
	delete(p.open, t)
	var out []change
	if thought, answer, ok := llm.CutThought(t.Text); ok && p.tags && p.parts[0] == t {
		r := &session.Reasoning{Header: p.header(), Text: thought, Time: &session.Span{Start: t.Time.Start, End: at}}
		p.parts = append(p.parts, r)
		t.Text = answer
		out = append(out, change{part: r, ended: true})
	}
	return append(out, change{part: t, ended: true})
}

func (p *processor) closeReasoning(at int64) []change {
	if p.reasoning == nil {
		return nil
	}
	r := p.reasoning
	p.reasoning = nil
	r.Text, r.Time.End = p.open[r].String(), at
	delete(p.open, r)
	return []change{{part: r, ended: true}}
}

// end closes what is open, after the last event or in mid-stream.
func (p *processor) end(at int64) []change {
	return append(p.closeText(at), p.closeReasoning(at)...)
}

// visible reports whether the attempt brought anything a user or the loop can
// use: text that is not blank, or a call. Thinking alone is not an answer.
func (p *processor) visible() bool { return len(p.tools) > 0 || p.said() }

// said reports whether there is text that is not blank.
func (p *processor) said() bool {
	for _, part := range p.parts {
		t, ok := part.(*session.Text)
		if !ok {
			continue
		}
		text := t.Text
		if b := p.open[part]; b != nil {
			text = b.String()
			if p.tags && p.parts[0] == part {
				_, text, _ = llm.CutThought(text)
			}
		}
		if strings.TrimSpace(text) != "" {
			return true
		}
	}
	return false
}
