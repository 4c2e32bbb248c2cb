// Package compact keeps a session's context inside the model's window: when
// it is too full, what of it is summarised, pruned or left out, and what is
// sent afterwards.
//
// Nothing stored is ever deleted. The stored history and the history that is
// sent are two views, and Project is the way from one to the other. It and
// everything else here is pure, but for Summariser.Run, which asks a model
// through a function it is given.
//
// # A compaction in rows
//
//  1. the marker: a user message of the turn with one Compaction part,
//  2. the summary: an assistant message with Summary set and the marker as
//     its parent, open,
//  3. in one transaction: the summary's text, its finish "stop" and
//     completion, and TailStartID in the marker's part,
//  4. where the turn goes on by itself, a synthetic user message that says so.
//
// Until 3 is stored the projection is what it was before 1; after it, it is
// the complete new one (invariant 12).
//
// Histories are in order, which is (Place, Seq): never a time, never an id.
package compact

import (
	"slices"

	"rally/internal/session"
)

// Project is the history as it is sent: what stands before the newest whole
// summary is replaced by it. The result is
//
//	marker, summary, task, tail, everything after the summary
//
// where the tail begins at the marker's TailStartID (an id that is not there
// gives no tail) and the task is the user message of the turn that the marker
// belongs to, and the one with id headID, if they stand before the tail: their
// text stays word for word. The caller gives the id of the user message its
// turn answers as headID. A message of the tail is there once and in order.
//
// A summary with an error, without a finish or without text hides nothing;
// neither it nor its marker is sent. Projecting the result again changes
// nothing. What is hidden costs nothing but the search for an id. history is
// not changed; the result may share it.
func Project(history []session.Message, headID string) []session.Message {
	marker, summary, ok := newest(history)
	if !ok {
		for i := range history {
			if leftover(&history[i]) {
				return appendVisible(nil, history)
			}
		}
		return slices.Clip(history)
	}
	tail := tailStart(history, marker)
	out := make([]session.Message, 0, len(history)-tail+2)
	out = append(out, history[marker], history[summary])
	for _, i := range tasks(history, marker, tail, headID) {
		if m, ok := pin(history[i], overflowed(&history[marker])); ok {
			out = append(out, m)
		}
	}
	out = appendVisible(out, history[tail:marker])
	out = appendVisible(out, history[marker+1:summary])
	return appendVisible(out, history[summary+1:])
}

// Pending is the turn's newest marker if it has neither a whole summary nor
// one that failed with an error and no step was made since, so that a
// compaction which was asked for or cut off is done; else nil.
func Pending(history []session.Message, turnID string) *session.Message {
	done := map[string]bool{}
	for i := len(history) - 1; i >= 0; i-- {
		m := &history[i]
		if whole(m) || m.Summary && m.Error != nil {
			done[m.ParentID] = true
		} else if m.Role == session.Assistant && !m.Summary {
			return nil
		}
		if m.TurnID == turnID && compaction(m) != nil {
			if done[m.ID] {
				return nil
			}
			return m
		}
	}
	return nil
}

// Used is what the newest step says the context holds. What was counted
// before the newest summary does not: those tokens are gone.
func Used(history []session.Message) (session.Tokens, bool) {
	for i := len(history) - 1; i >= 0; i-- {
		m := &history[i]
		if whole(m) {
			break
		}
		if m.Role == session.Assistant && !m.Summary && m.Tokens.Sum() > 0 {
			return m.Tokens, true
		}
	}
	return session.Tokens{}, false
}

// whole reports whether m is a summary that may stand for what is before it.
func whole(m *session.Message) bool {
	if !m.Summary || m.Role != session.Assistant || m.Error != nil || m.Completed == 0 {
		return false
	}
	switch m.Finish {
	case "", session.FinishError, session.FinishLength, session.FinishContentFilter:
		return false
	case session.FinishStop, session.FinishToolCalls, session.FinishUnknown:
	}
	return m.Text() != ""
}

// newest finds the newest whole summary and the user message it answers. One
// without such a message cannot say what it stands for and does not count.
func newest(history []session.Message) (marker, summary int, ok bool) {
	var waiting map[string]int // parent id → the newest summary for it
	for i := len(history) - 1; i >= 0; i-- {
		m := &history[i]
		if whole(m) {
			if waiting == nil {
				waiting = map[string]int{}
			}
			if _, later := waiting[m.ParentID]; !later {
				waiting[m.ParentID] = i
			}
			continue
		}
		if waiting == nil || m.Role != session.User {
			continue
		}
		if s, ok := waiting[m.ID]; ok {
			return i, s, true
		}
	}
	return 0, 0, false
}

func compaction(m *session.Message) *session.Compaction {
	if m.Role != session.User {
		return nil
	}
	for _, p := range m.Parts {
		if c, ok := p.(*session.Compaction); ok {
			return c
		}
	}
	return nil
}

func overflowed(marker *session.Message) bool {
	c := compaction(marker)
	return c != nil && c.Overflow
}

// tailStart is the index of the first message that is kept; the marker's own
// for none.
func tailStart(history []session.Message, marker int) int {
	c := compaction(&history[marker])
	if c == nil || c.TailStartID == "" {
		return marker
	}
	for i := marker - 1; i >= 0; i-- {
		if history[i].ID == c.TailStartID {
			return i
		}
	}
	return marker
}

// tasks are the indexes before tail of the user messages that stay, in order:
// headID and the one the marker's turn began with. Keeping the latter also
// when a later turn is served leaves the beginning of the request, and with
// it the provider's cache, as it was.
func tasks(history []session.Message, marker, tail int, headID string) []int {
	head, first := -1, -1
	wanted := headID != ""
	for i := tail; wanted && i < len(history); i++ {
		wanted = history[i].ID != headID
	}
	at := &history[marker]
	for i := tail - 1; i >= 0; i-- {
		m := &history[i]
		if !wanted && m.Place < at.Place { // the messages of a turn have its place
			break
		}
		if sameTurn(m, at) && startsTurn(m) {
			first = i
		}
		if wanted && m.ID == headID && m.Role == session.User && !leftover(m) {
			head, wanted = i, false
		}
	}
	out := make([]int, 0, 2)
	for _, i := range []int{min(head, first), max(head, first)} {
		if i >= 0 && !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	return out
}

// sameTurn goes by the place, since a message that is continued belongs to
// another turn afterwards; by the turn where the store gave no place.
func sameTurn(a, b *session.Message) bool {
	if b.Place != 0 {
		return a.Place == b.Place
	}
	return b.TurnID != "" && a.TurnID == b.TurnID
}

// leftover reports whether m belongs to a compaction and holds nothing else:
// a summary, or a marker without words of the user.
func leftover(m *session.Message) bool {
	if m.Role == session.Assistant {
		return m.Summary
	}
	if compaction(m) == nil {
		return false
	}
	return !slices.ContainsFunc(m.Parts, func(p session.Part) bool { return p.Kind() != session.TypeCompaction })
}

// appendVisible appends messages without what is left of other compactions.
func appendVisible(out, messages []session.Message) []session.Message {
	for i := range messages {
		if leftover(&messages[i]) {
			continue
		}
		m := messages[i]
		if compaction(&m) != nil {
			m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p session.Part) bool { return p.Kind() == session.TypeCompaction })
		}
		out = append(out, m)
	}
	return out
}

// pinnedSynthetic bounds, in bytes, each text that rally itself wrote into a
// task: a file the user named may be longer than the window.
const pinnedSynthetic = 2000

// pin is a task as it stands behind a summary: the user's words as they are,
// what was attached to them shortened. After an overflow media are named
// only, since they may be what did not fit. It reports false where nothing
// remains to say.
func pin(m session.Message, overflow bool) (session.Message, bool) {
	parts := make([]session.Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *session.Text:
			if p.Ignored || p.Text == "" {
				continue
			}
			if p.Synthetic && len(p.Text) > pinnedSynthetic {
				short := *p
				short.Text = shorten(p.Text, pinnedSynthetic, "it was summarised; read the source again if it is needed")
				parts = append(parts, &short)
				continue
			}
			parts = append(parts, p)
		case *session.File:
			if overflow && isMedia(p) {
				note := mediaNote(p, "left out, because the conversation did not fit the model's window")
				parts = append(parts, &session.Text{Header: p.Header, Text: note, Synthetic: true})
				continue
			}
			parts = append(parts, p)
		case *session.AgentRef:
			parts = append(parts, p)
		case *session.Subtask, *session.Compaction, *session.Reasoning, *session.Tool, *session.StepStart, *session.StepFinish,
			*session.Snapshot, *session.Patch, *session.Retry:
		}
	}
	m.Parts = parts
	return m, len(parts) > 0
}
