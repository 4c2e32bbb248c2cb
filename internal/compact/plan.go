package compact

import (
	"strings"

	"rally/internal/llm"
	"rally/internal/session"
)

// Means is how much a compaction keeps. Each is stricter than the one before.
type Means int

// The means, in the order they are tried.
const (
	// KeepTail summarises all but the newest turns.
	KeepTail Means = iota
	// SummaryOnly summarises everything; the task's text stays all the same.
	SummaryOnly
	// Cut puts a note in place of a summary and asks no model.
	Cut
)

const (
	// The tail may have a quarter of the room there is, within these bounds.
	tailShare    = 4
	minTail      = 2_000
	maxTail      = 8_000
	summaryGuess = 1_000 // tokens that a summary is expected to have
	// minimumWin is the share, one in so many, a compaction has to win.
	minimumWin = 10
)

// Settings are what a plan depends on beside the history.
type Settings struct {
	// HeadID is the user message of the turn that is served; empty when the
	// compaction is all that was asked for.
	HeadID string
	// TailTurns is how many of the newest turns may stay; 0 keeps none.
	TailTurns int
	Model     llm.Model // that the next requests go to
	Ratio     Ratio
	Need      Need // zero when a person asked
}

// Plan is a compaction that has not been done yet.
type Plan struct {
	Means    Means
	Overflow bool              // for the marker: a provider refused the request
	Messages []session.Message // what is summarised, in order
	Previous string            // the earlier summary, to be carried on
	// TailStartID is for the marker, when the summary is whole.
	TailStartID string
	// Before and After are what the history takes in tokens, estimated; After
	// guesses the length of the summary.
	Before, After int64
	used          int64
}

// NewPlan plans a compaction of history, which may end with a marker waiting
// for its summary. It is a pure function, so a process that takes over from a
// dead one plans the same.
func NewPlan(history []session.Message, means Means, s Settings) Plan {
	view := Project(history, s.HeadID)
	p := Plan{Means: means, Overflow: s.Need.Why == ByProvider, Before: s.tokens(view), used: s.Need.Used}
	body := view
	if len(view) > 1 && whole(&view[1]) {
		p.Previous, body = view[1].Text(), view[2:]
	}
	keep := len(body)
	if means == KeepTail {
		keep = s.tail(body, s.tailBudget(p.Before))
	}
	p.Messages = body[:keep:keep]
	if keep < len(body) {
		p.TailStartID = body[keep].ID
	}
	p.After = s.after(history, p)
	return p
}

// Possible reports whether there is anything to summarise.
func (p Plan) Possible() bool { return len(p.Messages) > 0 }

// Wins reports whether the compaction makes the context smaller by a tenth at
// least, so that it is worth its price.
func (p Plan) Wins() bool {
	return p.Possible() && won(max(p.Before, p.used), p.Before-p.After)
}

func won(before, saved int64) bool { return saved > 0 && saved >= before/minimumWin }

// tailBudget is a share of what is usable beside the fixed part of every
// request, the system prompt and the tools: in a small window that part is
// most of it.
func (s Settings) tailBudget(before int64) int64 {
	room := s.Need.Usable
	if room <= 0 { // the window is unknown, or a person asked
		room = before
	} else if fixed := s.Need.Used - before; fixed > 0 {
		room = max(room-fixed, 0)
	}
	return min(max(room/tailShare, minTail), maxTail, room/2)
}

// tail is the index in body where the tail begins, len(body) for none. Turns
// are kept whole from the newest backwards while they fit. The first that
// does not is split if it is the one being served: its task is sent before
// the tail, so a tail that begins with the model's words still answers
// something. A tail that is everything would win nothing.
func (s Settings) tail(body []session.Message, budget int64) int {
	keep, end := len(body), len(body)
	for n := 0; n < s.TailTurns && end > 0; n++ {
		start := end - 1
		for start > 0 && !startsTurn(&body[start]) {
			start--
		}
		size := s.tokens(body[start:end])
		if size > budget {
			if body[start].ID == s.HeadID {
				keep = s.split(body, start+1, end, budget)
			}
			break
		}
		keep, budget, end = start, budget-size, start
	}
	if keep == 0 {
		return len(body)
	}
	return keep
}

// split is the first message by the model from which body[i:end] fits.
func (s Settings) split(body []session.Message, start, end int, budget int64) int {
	keep := end
	for i := end - 1; i >= start; i-- {
		if budget -= s.tokens(body[i : i+1]); budget < 0 {
			break
		}
		if body[i].Role == session.Assistant {
			keep = i
		}
	}
	return keep
}

func (s Settings) tokens(messages []session.Message) int64 {
	var n amount
	for i := range messages {
		n.add(measureMessage(&messages[i], s.Model))
	}
	return s.Ratio.Apply(n.tokens())
}

// after is the size of what would be sent once p is done: the projection of
// the rows it would store.
func (s Settings) after(history []session.Message, p Plan) int64 {
	text := cutNote(p.Previous)
	if p.Means != Cut {
		text = strings.Repeat("x", int(s.Ratio.bytes(summaryGuess)))
	}
	marker := session.Message{ID: "marker", Role: session.User}
	if n := len(history); n > 0 {
		marker.Place, marker.TurnID = history[n-1].Place, history[n-1].TurnID
	}
	if s.HeadID == "" { // a compaction that was asked for is a turn of its own
		marker.Place, marker.TurnID = marker.Place+1, ""
	}
	marker.Parts = []session.Part{&session.Compaction{Overflow: p.Overflow, TailStartID: p.TailStartID}}
	summary := session.Message{
		Role: session.Assistant, ParentID: marker.ID, Summary: true, Completed: 1, Finish: session.FinishStop,
		Parts: []session.Part{&session.Text{Text: text}},
	}
	rows := append(history[:len(history):len(history)], marker, summary)
	return s.tokens(Project(rows, s.HeadID))
}
