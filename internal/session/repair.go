package session

// Repairs are the changes that make a stored history whole again after its
// writer died: what to save, what to save anew and what to remove.
type Repairs struct {
	Messages []*Message
	Parts    []Part
	Removed  []string // ids of messages
}

// Empty reports whether there is nothing to do.
func (r Repairs) Empty() bool {
	return len(r.Messages) == 0 && len(r.Parts) == 0 && len(r.Removed) == 0
}

// Repair settles what a dead writer left open in history, which must be in
// order and not be written by anyone else meanwhile:
//
//   - open tool calls become errors marked as interrupted,
//   - open text and reasoning keep what was stored and get an end,
//   - a message takes its finish and usage from a stored step-finish,
//   - open messages are completed,
//   - assistant messages with nothing in them, partial summaries, and a tail
//     that finished with an error nobody wrote down are removed.
//
// It changes the messages and parts of history in place and lists them. A
// second call on the result finds nothing to do.
func Repair(history []Message, at int64) Repairs {
	var r Repairs
	for i := range history {
		m := &history[i]
		if m.Role != Assistant {
			continue
		}
		if removable(m, i == len(history)-1) {
			r.Removed = append(r.Removed, m.ID)
			continue
		}
		changed := false
		for _, p := range m.Parts {
			if settle(p, at) {
				r.Parts = append(r.Parts, p)
				changed = true
			}
			if f, ok := p.(*StepFinish); ok && m.Finish == "" {
				m.Finish, m.Tokens, m.Cost = f.Reason, f.Tokens, f.Cost
				changed = true
			}
		}
		if m.Completed == 0 {
			m.Completed = at
			changed = true
		}
		if changed {
			r.Messages = append(r.Messages, m)
		}
	}
	return r
}

func removable(m *Message, last bool) bool {
	if m.Error != nil {
		return false
	}
	if m.Summary && (m.Finish == "" || m.Completed == 0) {
		return true
	}
	if last && m.Finish == FinishError {
		return true
	}
	return m.Finish == "" && !hasContent(m)
}

// hasContent reports whether a message holds anything to keep: a retry part
// counts, since it tells what happened.
func hasContent(m *Message) bool {
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *Text:
			if p.Text != "" {
				return true
			}
		case *Reasoning:
			if p.Text != "" {
				return true
			}
		case *StepStart, *Snapshot:
		case *Tool, *File, *StepFinish, *Patch, *AgentRef, *Subtask, *Retry, *Compaction:
			return true
		}
	}
	return false
}

// settle ends an open part and reports whether it did.
func settle(p Part, at int64) bool {
	if !IsOpen(p) {
		return false
	}
	switch p := p.(type) {
	case *Text:
		p.Time.End = at
	case *Reasoning:
		p.Time.End = at
	case *Tool:
		p.Interrupt(at)
	case *File, *StepStart, *StepFinish, *Snapshot, *Patch, *AgentRef, *Subtask, *Retry, *Compaction:
		return false
	}
	return true
}
