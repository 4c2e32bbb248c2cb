package loop

import (
	"fmt"

	"rally/internal/session"
)

// How often a call, or a cycle of up to doomCycle calls, may come in a row:
// the third time it is refused, the fourth time ends the turn.
const (
	doomRepeats = 3
	doomCycle   = 3
)

// priorCalls lists the turn's calls in the order they were sent, as keys that
// are equal for equal calls. Equal calls of one step count once, calls that an
// end cut off do not count.
func priorCalls(history []session.Message, turnID string) []string {
	var keys []string
	for i := range history {
		m := &history[i]
		if m.TurnID != turnID || m.Role != session.Assistant {
			continue
		}
		seen := map[string]bool{}
		for _, call := range m.ToolCalls() {
			key := callKey(call.Tool, string(call.State.Input))
			if seen[key] || call.State.Metadata.Bool(session.MetaInterrupted) {
				continue
			}
			seen[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

func callKey(tool, args string) string { return tool + "\x00" + args }

// repetition says how often in a row the last cycle of keys came: the most
// for any cycle of up to doomCycle calls.
func repetition(keys []string) int {
	most := 1
	for period := 1; period <= doomCycle; period++ {
		n := period
		for n < len(keys) && keys[len(keys)-1-n] == keys[len(keys)-1-n+period] {
			n++
		}
		most = max(most, n/period)
	}
	return most
}

// repeated refuses a call that only repeats what came before; otherwise it
// gives back what the call's answer would be anyway.
func (x *executor) repeated(i int, otherwise *refusal) *refusal {
	part := x.calls[i]
	key := callKey(part.Tool, string(part.State.Input))
	for _, earlier := range x.calls[:i] { // equal calls within one step count once
		if callKey(earlier.Tool, string(earlier.State.Input)) == key {
			return otherwise
		}
	}
	x.prior = append(x.prior, key)
	n := repetition(x.prior)
	if n < doomRepeats || x.gate.allowsLoop(part.Tool) {
		return otherwise
	}
	no := &refusal{text: fmt.Sprintf("The same call came %d times in a row and was not run again: its result would be the same. "+
		"Do something else, or say what is in the way.", n)}
	if n > doomRepeats {
		no.stop = &end{
			reason: session.ReasonLoopDetected,
			err:    session.NewError(session.UnknownError, fmt.Sprintf("the model repeated the same call of %s %d times", part.Tool, n)),
		}
	}
	return no
}
