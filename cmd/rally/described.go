package main

import (
	"strconv"

	"rally/internal/config"
	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/loop"
)

// configured is a model as its entry describes it, over what the built-in
// table knows of it.
func configured(entry *config.Provider, m *config.Model) (llm.Model, error) {
	out, known := llm.Lookup(entry.ID, m.ID)
	if !known {
		out = llm.Assume(entry.ID, m.ID)
		out.Reasoning.Replay = entry.Type == "anthropic"
	}
	if m.Context > 0 {
		out.Context, out.Assumed = m.Context, false
		out.Output = min(out.Output, m.Context/4)
	}
	if m.Output > 0 {
		out.Output = m.Output
	}
	if m.Input != nil {
		out.Input = m.Input
	}
	out.Reasoning.ThinkTags = entry.Type == "openai-compatible"
	if r := entry.Reasoning.Replay; r != nil {
		out.Reasoning.Replay = *r
	}
	if t := entry.Reasoning.ThinkTags; t != nil {
		out.Reasoning.ThinkTags = *t
	}
	if len(m.Variants) > 0 {
		out.Variants = nil
	}
	for _, v := range m.Variants {
		options := session.Metadata{}
		for name, value := range v.Options {
			options.Set(name, value)
		}
		out.Variants = append(out.Variants, llm.Variant{Name: v.Name, Options: options})
	}
	if m.Cost == nil {
		return out, nil
	}
	var err error
	out.Price, err = price(m.Cost)
	return out, err
}

// price is nil unless both prices that every call needs are known. A cached
// token of unknown price costs what any other does.
func price(c *config.Cost) (*llm.Price, error) {
	if c.Input == nil || c.Output == nil {
		return nil, nil
	}
	var p llm.Price
	for _, f := range []struct {
		to   *session.Money
		from *float64
	}{
		{&p.Input, c.Input},
		{&p.Output, c.Output},
		{&p.CacheRead, either(c.CacheRead, c.Input)},
		{&p.CacheWrite, either(c.CacheWrite, c.Input)},
	} {
		var err error
		if *f.to, err = llm.PerMillion(strconv.FormatFloat(*f.from, 'f', -1, 64)); err != nil {
			return nil, &loop.UsageError{Err: err}
		}
	}
	return &p, nil
}

func either(a, b *float64) *float64 {
	if a != nil {
		return a
	}
	return b
}
