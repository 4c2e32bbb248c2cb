package compact

import (
	"rally/internal/llm"
	"rally/internal/session"
)

// Usable is how many tokens of the model's window a context may take: the
// window without the reserve for the answer, but never less than a quarter of
// it. A reserve of more than a quarter of the window is lowered to what the
// model can answer at all, so that a small window is not compacted at every
// step. 0 means that the window is unknown.
func Usable(model llm.Model, reserve int64) int64 {
	if model.Context <= 0 {
		return 0
	}
	if reserve > model.Context/4 && model.Output > 0 {
		reserve = min(reserve, model.Output)
	}
	return max(model.Context-max(reserve, 0), model.Context/4)
}

// Over reports whether a step's usage leaves no room for the next one.
func Over(usage session.Tokens, usable int64) bool {
	return usable > 0 && usage.Sum() >= usable
}

// Trigger is why a context counts as too long.
type Trigger string

// The triggers.
const (
	ByUsage    Trigger = "usage"    // the last step's usage passed what is usable
	ByEstimate Trigger = "estimate" // the next request would, by its estimate
	ByProvider Trigger = "provider" // the provider refused the request
)

// Need says that a context is too long; sizes are tokens.
type Need struct {
	Why    Trigger
	Used   int64 // by usage or estimate; of a refused request its estimate
	Usable int64
	Window int64 // 0 is unknown
}

// Due looks whether the context is too long for the next request, whose
// corrected estimate the caller gives, before it is sent.
func Due(history []session.Message, model llm.Model, reserve, estimated int64) (Need, bool) {
	n := Need{Used: estimated, Usable: Usable(model, reserve), Window: model.Context}
	if used, ok := Used(history); ok && Over(used, n.Usable) {
		n.Why, n.Used = ByUsage, used.Sum()
		return n, true
	}
	n.Why = ByEstimate
	return n, n.Usable > 0 && estimated >= n.Usable
}

// Refused is the need after the provider's own word.
func Refused(model llm.Model, reserve, estimated int64) Need {
	return Need{Why: ByProvider, Used: estimated, Usable: Usable(model, reserve), Window: model.Context}
}

// Less is the need once pruning has saved tokens, and whether it is one still.
// What a provider refused stays refused until it is asked again.
func (n Need) Less(saved int64) (Need, bool) {
	n.Used -= saved
	return n, n.Why == ByProvider || n.Used >= n.Usable
}
