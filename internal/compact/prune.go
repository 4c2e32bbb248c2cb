package compact

import (
	"slices"

	"rally/internal/session"
)

const (
	protectTokens = 40_000 // of the newest tool output stay
	minimumGain   = 20_000 // tokens; less is not worth a new prompt cache
	protectTurns  = 2      // the newest turns stay
	protectSteps  = 2      // the newest steps with calls stay, even for size
	smallOutput   = 256    // bytes; clearing less wins nothing
	// spareBytes is won beyond the limit, so that a long turn is not pruned
	// again at each of its steps.
	spareBytes = MaxRequestBytes / 4
)

// skillTool is never pruned: its output holds rules for the rest of the work.
const skillTool = "skill"

// Pruned is tool output to leave out of what is sent: the parts, oldest
// first, whose State.Time.Compacted the caller sets on copies and stores, and
// what that saves. The parts themselves are not changed.
type Pruned struct {
	Tools  []*session.Tool
	Tokens int64
	Bytes  int64
}

func (p *Pruned) mark(t *session.Tool) {
	n := measureOutput(t)
	p.Tools = append(p.Tools, t)
	p.Tokens += n.tokens()
	p.Bytes += n.text + n.mediaBytes
}

// Prune says which old tool outputs are no longer worth their tokens: those
// older than the newest 40,000 tokens of output, outside the two newest turns
// of the user, after the newest summary, and not of the skill tool. It is
// nothing where less than 20,000 tokens would be saved.
func Prune(history []session.Message) Pruned {
	var out Pruned
	turns, kept := 0, int64(0)
	for i := len(history) - 1; i >= 0; i-- {
		m := &history[i]
		if whole(m) {
			break
		}
		if m.Role == session.User {
			if startsTurn(m) {
				turns++
			}
			continue
		}
		if turns < protectTurns {
			continue
		}
		for _, p := range slices.Backward(m.Parts) {
			call, ok := p.(*session.Tool)
			if !ok || !prunable(call) {
				continue
			}
			if kept += measureOutput(call).tokens(); kept > protectTokens {
				out.mark(call)
			}
		}
	}
	if out.Tokens <= minimumGain {
		return Pruned{}
	}
	slices.Reverse(out.Tools)
	return out
}

// PruneForSize says which tool outputs to leave out so that a request that is
// excess bytes too long fits: the oldest after the newest summary first, of
// this turn too, since one long turn is all that many runs have. The newest
// two steps and the skill tool are left alone. It may save less than is
// needed.
func PruneForSize(history []session.Message, excess int64) Pruned {
	var out Pruned
	if excess <= 0 {
		return out
	}
	end, steps := len(history), 0
	for end > 0 && steps < protectSteps {
		end--
		if len(history[end].ToolCalls()) > 0 {
			steps++
		}
	}
	begin := 0
	if _, summary, ok := newest(history); ok {
		begin = summary + 1
	}
	for i := begin; i < end; i++ {
		for _, call := range history[i].ToolCalls() {
			if out.Bytes >= excess+spareBytes {
				return out
			}
			if n := measureOutput(call); prunable(call) && n.text+n.mediaBytes > smallOutput {
				out.mark(call)
			}
		}
	}
	return out
}

func prunable(call *session.Tool) bool {
	return call.State.Status == session.ToolCompleted && call.State.Time.Compacted == 0 && call.Tool != skillTool
}

// startsTurn reports whether the user began something new with m: it is no
// marker and not written by rally alone.
func startsTurn(m *session.Message) bool {
	if m.Role != session.User || compaction(m) != nil {
		return false
	}
	return slices.ContainsFunc(m.Parts, func(p session.Part) bool {
		t, ok := p.(*session.Text)
		return !ok || !t.Synthetic
	})
}
