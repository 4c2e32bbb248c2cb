package compact

import (
	"testing"

	"rally/internal/llm"
	"rally/internal/session"
)

var (
	refused   = Need{Why: ByProvider, Used: 50_000, Window: 40_000, Usable: 36_000}
	over      = Need{Why: ByUsage, Used: 37_000, Window: 40_000, Usable: 36_000}
	beyond    = Need{Why: ByUsage, Used: 50_000, Window: 40_000, Usable: 36_000}
	estimated = Need{Why: ByEstimate, Used: 50_000, Window: 40_000, Usable: 36_000}
)

// winning plans always win, hopeless ones never.
func winning(m Means) Plan {
	return Plan{Means: m, Before: 100, After: 10, Messages: make([]session.Message, 1)}
}
func hopeless(m Means) Plan { return Plan{Means: m, Before: 100, After: 95} }

// Invariant 12, I28: three compactions without a successful step, each with
// stricter means, then the end.
func TestBreakerEnds(t *testing.T) {
	for _, need := range []Need{refused, beyond} {
		b := Breaker{Auto: true}
		for _, want := range []Means{KeepTail, SummaryOnly, Cut} {
			p, verdict := b.Decide(need, winning)
			diff(t, Compact, verdict)
			diff(t, want, p.Means)
			b.Done(p.Means, 100, 10)
			b.Succeeded(need.Used, need.Window) // a step beyond the window is no success
		}
		_, verdict := b.Decide(need, winning)
		diff(t, Exhausted, verdict)
	}
}

func TestBreakerForgivesAfterASuccess(t *testing.T) {
	b := Breaker{Auto: true}
	for range 20 {
		p, verdict := b.Decide(refused, winning)
		diff(t, Compact, verdict)
		diff(t, KeepTail, p.Means)
		b.Done(p.Means, 100, 10)
		b.Succeeded(1_000, 40_000)
	}
}

// Means that won less than a tenth are not tried again, successes or not, so
// that no turn compacts at each of its steps for nothing.
func TestBreakerLeavesWhatDoesNotWin(t *testing.T) {
	b := Breaker{Auto: true}
	for _, want := range []Means{KeepTail, SummaryOnly, Cut} {
		p, verdict := b.Decide(over, winning)
		diff(t, Compact, verdict)
		diff(t, want, p.Means)
		b.Done(p.Means, 100, 91)
		b.Succeeded(1_000, 40_000)
	}
	_, verdict := b.Decide(over, winning)
	diff(t, Send, verdict)
	_, verdict = b.Decide(refused, winning)
	diff(t, Exhausted, verdict)
}

func TestBreakerVerdicts(t *testing.T) {
	compacted := Breaker{Auto: true}
	compacted.Done(KeepTail, 100, 10)
	tests := map[string]struct {
		b    Breaker
		need Need
		plan func(Means) Plan
		want Verdict
	}{
		"never, although it was refused (I29)":      {Breaker{}, refused, winning, Exhausted},
		"never, by usage (I29)":                     {Breaker{}, beyond, winning, Send},
		"never, by estimate (I29)":                  {Breaker{}, estimated, winning, Send},
		"nothing to summarise: the provider says":   {Breaker{Auto: true}, estimated, hopeless, Send},
		"nothing to summarise, by usage":            {Breaker{Auto: true}, beyond, hopeless, Send},
		"nothing to summarise, refused":             {Breaker{Auto: true}, refused, hopeless, Exhausted},
		"estimate":                                  {Breaker{Auto: true}, estimated, winning, Compact},
		"estimate, but it was compacted":            {compacted, estimated, winning, Send},
		"over, compacted, nothing more to win":      {compacted, over, hopeless, Send},
		"beyond the window, compacted, all is lost": {compacted, beyond, hopeless, Exhausted},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, verdict := test.b.Decide(test.need, test.plan)
			diff(t, test.want, verdict)
		})
	}
}

func TestUsable(t *testing.T) {
	tests := []struct{ context, output, reserve, want int64 }{
		{0, 0, 20_000, 0},
		{200_000, 64_000, 20_000, 180_000},
		{128_000, 0, 20_000, 108_000},
		{60_000, 4_000, 4_000, 56_000},
		{16_000, 4_000, 20_000, 12_000}, // the model cannot answer with more
		{16_000, 0, 20_000, 4_000},      // a quarter at least
		{32_000, 32_000, 40_000, 8_000},
		{1_000, 0, -5, 1_000},
	}
	for _, test := range tests {
		got := Usable(llm.Model{Context: test.context, Output: test.output}, test.reserve)
		if got != test.want {
			t.Errorf("Usable(%d/%d, %d) = %d, want %d", test.context, test.output, test.reserve, got, test.want)
		}
	}
	if Over(session.Tokens{Input: 1 << 40}, 0) {
		t.Error("an unknown window cannot be passed")
	}
}

func TestRatio(t *testing.T) {
	var r Ratio
	diff(t, int64(1000), r.Apply(1000))
	for _, test := range []struct{ estimated, counted, want int64 }{
		{100, 150, 1500},
		{0, 99, 1500}, // no pair
		{100, 0, 1500},
		{100, 1, 250}, // a server that counts nonsense
		{1, 100, 4000},
		{200, 100, 500},
	} {
		r.Observe(test.estimated, test.counted)
		diff(t, test.want, r.Apply(1000))
	}
}

func TestEstimate(t *testing.T) {
	req := &llm.Request{
		System: "1234", Tools: []llm.Tool{{Name: "read", Description: "d", Schema: []byte("{}")}},
		Messages: []llm.Message{
			{Role: llm.User, Content: []llm.Content{llm.Text{Text: "hello"}, llm.Media{Mime: "image/png", Data: "AAAABBBB"}}},
			{Role: llm.Assistant, Content: []llm.Content{llm.Thought{Text: "hm"}, llm.Call{Name: "read", Args: []byte("{}")}}},
			{Role: llm.ToolRole, Content: []llm.Content{llm.Result{Text: "ok", Media: []llm.Media{{Data: "CC"}}}}},
		},
	}
	const text = 4 + (4 + 1 + 2 + overhead) + (overhead + 5) + (overhead + 2 + 4 + 2 + overhead) + (overhead + 2 + overhead)
	diff(t, int64(text/bytesPerToken+2*mediaTokens), Estimate(req))
	diff(t, int64(text+10), RequestBytes(req))
}
