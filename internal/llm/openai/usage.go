package openai

import (
	"encoding/json"

	"rally/internal/llm"
	"rally/internal/session"
)

// wireUsage holds the names under which servers report what a call used.
type wireUsage struct {
	Prompt        int64 `json:"prompt_tokens"`
	Completion    int64 `json:"completion_tokens"`
	Total         int64 `json:"total_tokens"`
	PromptDetails struct {
		Cached     int64 `json:"cached_tokens"`
		CacheWrite int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit      int64       `json:"prompt_cache_hit_tokens"`     // DeepSeek
	Cached        int64       `json:"cached_tokens"`               // Moonshot
	CacheRead     int64       `json:"cache_read_input_tokens"`     // Anthropic behind proxies
	CacheCreation int64       `json:"cache_creation_input_tokens"` // likewise
	Reasoning     int64       `json:"reasoning_tokens"`            // some proxies
	Cost          json.Number `json:"cost"`                        // OpenRouter, USD
}

// takeUsage keeps the newest usage of the stream. Servers that put zeros into
// every chunk have said nothing.
func (d *chatDecoder) takeUsage(raw json.RawMessage) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var w wireUsage
	// A member of another type is left out; the others still count.
	_ = json.Unmarshal(raw, &w)
	if w.Prompt <= 0 && w.Completion <= 0 && w.Total <= 0 {
		return
	}
	d.usage = w.usage()
}

func (w *wireUsage) usage() *llm.Usage {
	read := max(w.PromptDetails.Cached, w.CacheHit, w.Cached, w.CacheRead, 0)
	write := max(w.PromptDetails.CacheWrite, w.CacheCreation, 0)
	reasoning := max(w.CompletionDetails.Reasoning, w.Reasoning, 0)
	output := w.Completion - reasoning
	if w.Completion < reasoning || reasoning > 0 && w.Total == w.Prompt+w.Completion+reasoning {
		output = w.Completion // this server counts reasoning beside the completion
	}
	u := &llm.Usage{Tokens: session.Tokens{
		Total:     max(w.Total, 0),
		Input:     max(w.Prompt-read-write, 0),
		Output:    max(output, 0),
		Reasoning: reasoning,
		Cache:     session.Cache{Read: read, Write: write},
	}}
	if w.Cost != "" {
		if cost, err := session.ParseMoney(w.Cost.String()); err == nil && cost >= 0 {
			u.Cost = &cost
		}
	}
	return u
}
