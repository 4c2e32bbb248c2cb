package llm

import (
	"fmt"

	"rally/internal/session"
)

// CostOf is what a call cost: the provider's own figure where it gave one,
// else the model's price; nil when neither is known.
func (m Model) CostOf(u Usage) *session.Money {
	if u.Cost != nil {
		return u.Cost
	}
	if m.Price == nil {
		return nil
	}
	cost := m.Price.Of(u.Tokens)
	return &cost
}

// Of is the exact price of these tokens. Reasoning is billed as output. The
// tier is chosen by the whole prompt, cached tokens included.
func (p *Price) Of(t session.Tokens) session.Money {
	rates := p.tier(t.Input + t.Cache.Read + t.Cache.Write)
	return rates.Input*session.Money(t.Input) +
		rates.Output*session.Money(t.Output+t.Reasoning) +
		rates.CacheRead*session.Money(t.Cache.Read) +
		rates.CacheWrite*session.Money(t.Cache.Write)
}

func (p *Price) tier(prompt int64) *Price {
	best, above := p, int64(-1)
	for i := range p.Tiers {
		if t := &p.Tiers[i]; prompt > t.Above && t.Above > above {
			best, above = &t.Price, t.Above
		}
	}
	return best
}

// PerMillion reads a price in USD per million tokens and gives it per token.
func PerMillion(usd string) (session.Money, error) {
	m, err := session.ParseMoney(usd)
	if err != nil {
		return 0, err
	}
	if m < 0 {
		return 0, fmt.Errorf("price %q is negative", usd)
	}
	return m / 1_000_000, nil
}

// OutputCap is how many tokens the answer may have: the model's own limit,
// but not more than the window leaves beside a prompt of this size and the
// reserve. 0 means that nothing is known and no limit should be sent.
func (m Model) OutputCap(prompt, reserve int64) int64 {
	if m.Context <= 0 {
		return m.Output
	}
	left := m.Context - prompt - reserve
	if left <= 0 { // the estimate may be wrong: leave the decision to the provider
		return m.Output
	}
	if m.Output <= 0 {
		return 0
	}
	return min(m.Output, left)
}
