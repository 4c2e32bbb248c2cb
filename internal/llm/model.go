package llm

import "rally/internal/session"

// Model is what rally knows of a model.
type Model struct {
	Provider string
	ID       string
	Context  int64    // tokens; 0 is unknown
	Output   int64    // tokens; 0 is unknown
	Price    *Price   // nil is unknown
	Input    []string // modalities beside text: "image", "pdf"
	// Reasoning says how thinking goes back and whether it may stand in tags.
	Reasoning ReasoningMode
	Variants  []Variant
	Released  string // date of the table's figures, YYYY-MM-DD; empty when configured
	Assumed   bool   // the limits are defaults for an unknown model
}

// Ref is the model's name as sessions store it.
func (m Model) Ref() session.Model { return session.Model{Provider: m.Provider, ID: m.ID} }

// Takes reports whether the model accepts input of this modality.
func (m Model) Takes(modality string) bool {
	for _, in := range m.Input {
		if in == modality {
			return true
		}
	}
	return false
}

// Variant is a named set of request options.
type Variant struct {
	Name    string
	Options session.Metadata
}

// ReasoningMode is a provider's habit with reasoning.
type ReasoningMode struct {
	Replay    bool // send reasoning back with assistant messages
	ThinkTags bool // a leading <think> block in text is reasoning
}

// Price is in picodollars per token: USD per million tokens times 1e6.
type Price struct {
	Input, Output, CacheRead, CacheWrite session.Money
	// Tiers replace the base price when the prompt has more than Above
	// tokens, cached ones included; the largest that fits counts.
	Tiers []PriceTier
}

// PriceTier is a price for long prompts.
type PriceTier struct {
	Above int64
	Price Price
}
