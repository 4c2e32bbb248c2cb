package compact

// MaxTries is how many automatic compactions a turn may make without a
// successful step between.
const MaxTries = 3

// Verdict is what to do about a context that is too long.
type Verdict string

// The verdicts.
const (
	// Send the request as it is and let the provider decide.
	Send Verdict = "send"
	// Compact by the plan that came with the verdict.
	Compact Verdict = "compact"
	// Exhausted ends the turn: nothing makes the context fit.
	Exhausted Verdict = "exhausted"
)

// Breaker keeps a turn from compacting without end (invariant 12). Each
// compaction without a successful step between uses stricter means than the
// one before, and means that won less than a tenth are not used again in the
// turn. The zero Breaker never compacts.
type Breaker struct {
	// Auto is the setting compaction.auto; false means never.
	Auto bool

	tries int
	means Means // next to be used
	floor Means // the least strict that is worth trying in this turn
}

// Decide says what to do about n. plan makes the plan for given means; one
// that would win too little counts as failed without being made, and the next
// means are looked at.
func (b *Breaker) Decide(n Need, plan func(Means) Plan) (Plan, Verdict) {
	if b.Auto && b.tries < MaxTries && (n.Why != ByEstimate || b.tries == 0) {
		for means := b.means; means <= Cut; means++ {
			if p := plan(means); p.Wins() {
				return p, Compact
			}
		}
	}
	return Plan{}, b.hopeless(n)
}

// hopeless is the verdict where no compaction helps. An estimate alone ends
// no turn, and usage does only where the window itself is passed although
// the context was compacted: such a provider would be compacted for at every
// step.
func (b *Breaker) hopeless(n Need) Verdict {
	switch n.Why {
	case ByProvider:
		return Exhausted
	case ByUsage:
		if b.Auto && b.tries > 0 && n.Window > 0 && n.Used >= n.Window {
			return Exhausted
		}
	case ByEstimate:
	}
	return Send
}

// Done takes note of an automatic compaction: the means it was planned with
// and the tokens of the request before and after it. One that failed has won
// nothing.
func (b *Breaker) Done(means Means, before, after int64) {
	b.tries++
	b.means = min(means+1, Cut)
	if !won(before, before-after) {
		b.floor = max(b.floor, means+1) // past Cut, nothing is left to try
		b.means = b.floor
	}
}

// Succeeded takes note of a step that ended well. One whose usage passes the
// window itself does not count as such.
func (b *Breaker) Succeeded(used, window int64) {
	if window > 0 && used >= window {
		return
	}
	b.tries, b.means = 0, b.floor
}
