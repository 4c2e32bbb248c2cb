package llm

import (
	"bytes"
	_ "embed" // for the table
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"

	"rally/internal/session"
)

//go:embed models.yaml
var modelsYAML []byte

// The limits assumed for a model nobody has described.
const (
	AssumedContext = 128_000
	AssumedOutput  = 8_192
)

// Models is the built-in table, in its own order; the caller must not change
// what the entries point to. It is read when it is first asked for.
func Models() ([]Model, error) { return readModels() }

var readModels = sync.OnceValues(func() ([]Model, error) { return parseModels(modelsYAML) })

// Lookup finds a model in the built-in table. A dated name
// ("gpt-5-2025-08-07") is found under the one without the date.
func Lookup(provider, id string) (Model, bool) {
	names := []string{id, datedName().ReplaceAllString(id, "")}
	if !bytes.Contains(modelsYAML, []byte("id: "+names[1]+",")) {
		return Model{}, false // reading the table is the dearest part of a short run
	}
	models, err := Models()
	if err != nil { // a test reads the table
		return Model{}, false
	}
	for _, name := range names {
		for _, m := range models {
			if m.Provider == provider && m.ID == name {
				m.ID = id
				return m, true
			}
		}
	}
	return Model{}, false
}

// Assume is a model nobody has described, with limits most models meet and
// without a price.
func Assume(provider, id string) Model {
	return Model{Provider: provider, ID: id, Context: AssumedContext, Output: AssumedOutput, Assumed: true}
}

var datedName = lazy(`-(?:\d{4}-\d{2}-\d{2}|\d{8})$`)

// tableRow is an entry of models.yaml.
type tableRow struct {
	Provider  string      `yaml:"provider"`
	ID        string      `yaml:"id"`
	Date      string      `yaml:"date"`
	Context   int64       `yaml:"context"`
	Output    int64       `yaml:"output"`
	Input     []string    `yaml:"input"`
	Reasoning bool        `yaml:"reasoning"`
	Efforts   []string    `yaml:"efforts"`
	Budgets   []budget    `yaml:"budgets"`
	Price     *tablePrice `yaml:"price"`
}

type budget struct {
	Name   string `yaml:"name"`
	Tokens int    `yaml:"tokens"`
}

// rates are texts, so that no price goes through a binary fraction.
type rates struct {
	Input      string `yaml:"input"`
	Output     string `yaml:"output"`
	CacheRead  string `yaml:"cache_read"`
	CacheWrite string `yaml:"cache_write"`
}

type tablePrice struct {
	rates `yaml:",inline"`
	Tiers []struct {
		Above int64 `yaml:"above"`
		rates `yaml:",inline"`
	} `yaml:"tiers"`
}

func parseModels(data []byte) ([]Model, error) {
	var rows []tableRow
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&rows); err != nil {
		return nil, fmt.Errorf("read the model table: %w", err)
	}
	out := make([]Model, 0, len(rows))
	for i := range rows {
		m, err := rows[i].model()
		if err != nil {
			return nil, fmt.Errorf("read the model table: %s: %w", rows[i].ID, err)
		}
		out = append(out, m)
	}
	return out, nil
}

func (r *tableRow) model() (Model, error) {
	m := Model{
		Provider: r.Provider, ID: r.ID, Context: r.Context, Output: r.Output, Input: r.Input,
		Reasoning: ReasoningMode{Replay: r.Reasoning}, Released: r.Date,
	}
	for _, effort := range r.Efforts {
		options := session.Metadata{}
		if r.Provider == "anthropic" {
			options.Set("thinking", map[string]string{"type": "adaptive"})
			options.Set("output_config", map[string]string{"effort": effort})
		} else {
			options.Set("reasoning_effort", effort)
		}
		m.Variants = append(m.Variants, Variant{Name: effort, Options: options})
	}
	for _, b := range r.Budgets {
		options := session.Metadata{}
		options.Set("thinking", map[string]any{"type": "enabled", "budget_tokens": b.Tokens})
		m.Variants = append(m.Variants, Variant{Name: b.Name, Options: options})
	}
	if r.Price == nil {
		return m, nil
	}
	base, err := r.Price.price()
	if err != nil {
		return m, err
	}
	for _, t := range r.Price.Tiers {
		p, err := t.price()
		if err != nil {
			return m, err
		}
		base.Tiers = append(base.Tiers, PriceTier{Above: t.Above, Price: p})
	}
	m.Price = &base
	return m, nil
}

func (r rates) price() (Price, error) {
	var p Price
	for _, f := range []struct {
		text string
		into *session.Money
	}{{r.Input, &p.Input}, {r.Output, &p.Output}, {r.CacheRead, &p.CacheRead}, {r.CacheWrite, &p.CacheWrite}} {
		if f.text == "" {
			continue
		}
		m, err := PerMillion(f.text)
		if err != nil {
			return p, err
		}
		*f.into = m
	}
	return p, nil
}
