package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/config"
	"rally/internal/llm"
	"rally/internal/session"
)

func float(f float64) *float64 { return &f }

func testProviders(environ []string, list ...config.Provider) (*providers, *[]string) {
	a := testApp()
	a.environ = environ
	var said []string
	return a.newProviders(&config.Config{Providers: list}, &play{app: a}, func(s string) { said = append(said, s) }), &said
}

func TestModelOfAnEntry(t *testing.T) {
	p, said := testProviders(nil, config.Provider{
		ID: "local", BaseURL: "http://127.0.0.1:1/v1",
		Models: []config.Model{{
			ID: "Qwen2.5/Coder", Context: 32768, Output: 4096, Input: []string{"image"},
			Cost:     &config.Cost{Input: float(0.10), Output: float(0.4), CacheRead: float(0.01)},
			Variants: []config.Variant{{Name: "high", Options: map[string]any{"reasoning_effort": "high"}}},
		}},
	})
	_, got, err := p.find(session.Model{Provider: "local", ID: "Qwen2.5/Coder"})
	if err != nil {
		t.Fatal(err)
	}
	want := llm.Model{
		Provider: "local", ID: "Qwen2.5/Coder", Context: 32768, Output: 4096, Input: []string{"image"},
		Price:     &llm.Price{Input: 100_000, Output: 400_000, CacheRead: 10_000, CacheWrite: 100_000},
		Reasoning: llm.ReasoningMode{ThinkTags: true},
		Variants:  []llm.Variant{{Name: "high", Options: session.Metadata{"reasoning_effort": []byte(`"high"`)}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(*said) > 0 {
		t.Errorf("it said %q", *said)
	}
}

func TestUnknownModels(t *testing.T) {
	entry := config.Provider{ID: "local", BaseURL: "http://127.0.0.1:1/v1", Models: []config.Model{{ID: "coder"}}}
	tests := map[string]struct {
		ref  session.Model
		hint string
	}{
		"near model":    {session.Model{Provider: "local", ID: "codre"}, "did you mean local/coder?"},
		"near provider": {session.Model{Provider: "locla", ID: "coder"}, "did you mean local?"},
		"nothing near":  {session.Model{Provider: "local", ID: "zebra9"}, "rally models lists what there is"},
		"no key":        {session.Model{Provider: "openai", ID: "gpt-5"}, "set OPENAI_API_KEY; without a key: -m scripted/tour"},
		"no script":     {session.Model{Provider: "scripted", ID: "missing.yaml"}, "docs/scripted.md describes the format"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, _ := testProviders(nil, entry)
			_, _, err := p.find(tt.ref)
			if reasonOf(err) != session.ReasonUsage || hintOf(err) != tt.hint {
				t.Errorf("%v with hint %q, want %q", err, hintOf(err), tt.hint)
			}
		})
	}
}

func TestAssumedLimitsAreSaidOnce(t *testing.T) {
	p, said := testProviders(nil, config.Provider{ID: "open", BaseURL: "http://127.0.0.1:1/v1"})
	for range 3 {
		_, m, err := p.find(session.Model{Provider: "open", ID: "anything"})
		if err != nil || !m.Assumed || m.Context != llm.AssumedContext {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	if len(*said) != 1 {
		t.Errorf("it said %q, want one line", *said)
	}
}

func TestFirstModel(t *testing.T) {
	entry := config.Provider{ID: "local", BaseURL: "http://127.0.0.1:1/v1", Models: []config.Model{{ID: "m"}}}
	broken := config.Provider{ID: "broken", Models: []config.Model{{ID: "m"}}}
	tests := map[string]struct {
		environ []string
		list    []config.Provider
		want    string
	}{
		"configured before built-in": {[]string{"OPENAI_API_KEY=k"}, []config.Provider{entry}, "local/m"},
		"one that can be reached":    {nil, []config.Provider{broken, entry}, "local/m"},
		"openai's key":               {[]string{"ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=k"}, nil, "openai/" + builtins()[0].first},
		"anthropic's key":            {[]string{"ANTHROPIC_API_KEY=k"}, nil, "anthropic/" + builtins()[1].first},
		"none":                       {nil, nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, _ := testProviders(tt.environ, tt.list...)
			if got, _ := p.first(); got.String() != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	for _, b := range builtins() {
		if _, ok := llm.Lookup(b.id, b.first); !ok {
			t.Errorf("the table does not know %s/%s", b.id, b.first)
		}
	}
}

// Invariant 15: a key never reaches a child's environment.
func TestSecretVariables(t *testing.T) {
	a := testApp()
	a.environ = []string{"KEY_A=sk-12345678", "DEPLOY=token-1", "PLAIN=1"}
	cfg := &config.Config{Secrets: []string{"DEPLOY"}, Providers: []config.Provider{{ID: "p", APIKey: "sk-12345678"}}}
	w := &workshop{app: a, cfg: cfg, providers: a.newProviders(cfg, &play{app: a}, func(string) {})}
	if diff := cmp.Diff([]string{"DEPLOY", "KEY_A"}, w.secretVariables()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"sk-12345678", "token-1"}, w.secrets()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
