package loop

import (
	"sync"

	"rally/internal/session"
)

// budget is what a run has used: a turn and the turns of its child sessions,
// which may run in parallel.
type budget struct {
	mu     sync.Mutex
	steps  int
	tokens int64
	cost   session.Money
}

// step counts a model request of a turn's own agent.
func (b *budget) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps++
}

// use counts what a request used; a nil cost is unknown and counts nothing.
func (b *budget) use(tokens session.Tokens, cost *session.Money) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens += tokens.Sum()
	if cost != nil {
		b.cost += *cost
	}
}

// over is the reason to stop before the next request, and whether that request
// is the last one the step limit allows.
func (b *budget) over(l Limits) (reason session.Reason, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case l.Cost > 0 && b.cost >= l.Cost:
		return session.ReasonLimitCost, false
	case l.Tokens > 0 && b.tokens >= l.Tokens:
		return session.ReasonLimitTokens, false
	case l.Steps > 0 && b.steps >= l.Steps:
		return session.ReasonLimitSteps, false
	}
	return "", l.Steps > 0 && b.steps == l.Steps-1
}
