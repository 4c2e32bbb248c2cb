package llm

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

func TestTableIsSound(t *testing.T) {
	models, err := Models()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range models {
		name := m.Provider + "/" + m.ID
		if seen[name] {
			t.Errorf("%s stands twice", name)
		}
		seen[name] = true
		if found, ok := Lookup(m.Provider, m.ID); !ok || found.Price != m.Price {
			t.Errorf("%s is not found", name)
		}
		if m.Context <= m.Output || m.Output <= 0 || m.Price == nil || m.Price.Input <= 0 || m.Price.Output <= m.Price.Input || m.Released == "" {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestLookup(t *testing.T) {
	m, ok := Lookup("openai", "gpt-5-mini-2025-08-07")
	if !ok || m.ID != "gpt-5-mini-2025-08-07" || m.Price.Input != 250_000 || !m.Takes("pdf") {
		t.Errorf("%v %+v", ok, m)
	}
	if _, ok := Lookup("other", "gpt-5-mini"); ok {
		t.Error("a model of another provider was found")
	}
	if m := Assume("p", "x"); !m.Assumed || m.Price != nil || m.Context != 128000 || m.Output != 8192 {
		t.Errorf("%+v", m)
	}
}

func TestCost(t *testing.T) {
	m, _ := Lookup("anthropic", "claude-haiku-5-5")
	for _, tt := range []struct {
		name   string
		tokens session.Tokens
		want   string
	}{
		{"plain", session.Tokens{Input: 1000, Output: 10, Reasoning: 5}, "0.0001075"},
		{"cached", session.Tokens{Input: 100, Output: 10, Cache: session.Cache{Read: 900, Write: 8}}, "0.000025"},
		{"tier counts cached tokens", session.Tokens{Input: 1000, Cache: session.Cache{Read: 100_000}}, "0.0055"},
		{"tier begins above", session.Tokens{Input: 100_000}, "0.01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := m.CostOf(Usage{Tokens: tt.tokens}).String(); got != tt.want {
				t.Errorf("cost %s, want %s", got, tt.want)
			}
		})
	}
	said := session.Money(42)
	if got := m.CostOf(Usage{Tokens: session.Tokens{Input: 5}, Cost: &said}); *got != said {
		t.Errorf("the provider's figure lost: %s", got)
	}
	if got := Assume("p", "x").CostOf(Usage{Tokens: session.Tokens{Input: 5}}); got != nil {
		t.Errorf("unknown price cost %s", got)
	}
}

func TestOutputCap(t *testing.T) {
	m := Model{Context: 1000, Output: 300}
	got := []int64{m.OutputCap(100, 50), m.OutputCap(800, 50), m.OutputCap(2000, 0), Model{Output: 7}.OutputCap(1, 1), Model{Context: 9}.OutputCap(1, 1)}
	if d := cmp.Diff([]int64{300, 150, 300, 7, 0}, got); d != "" {
		t.Error(d)
	}
}
