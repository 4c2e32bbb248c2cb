package main

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"

	"rally/internal/config"
	"rally/internal/llm"
	"rally/internal/llm/anthropic"
	"rally/internal/llm/openai"
	"rally/internal/llm/scripted"
	"rally/internal/session"
	"rally/internal/session/loop"
)

// builtin is a provider that needs no entry in the configuration.
type builtin struct {
	id, kind, key, url, baseURL string
	first                       string // the model when nothing names one
}

// builtins are they, in the order in which a key in the environment decides.
func builtins() []builtin {
	return []builtin{
		{id: "openai", kind: "openai", key: "OPENAI_API_KEY", url: "OPENAI_BASE_URL", baseURL: "https://api.openai.com/v1", first: "gpt-6.2-sol"},
		{id: "anthropic", kind: "anthropic", key: "ANTHROPIC_API_KEY", url: "ANTHROPIC_BASE_URL", baseURL: "https://api.anthropic.com", first: "claude-sonnet-5-5"},
	}
}

// providers finds models and makes the clients that reach them, each when it
// is first needed. It is safe for concurrent use.
type providers struct {
	app    *app
	cfg    *config.Config
	list   []config.Provider // configured ones, then built-in ones that are not
	script *play
	notice func(string)
	record *scripted.Recorder // nil: nothing is recorded

	mu      sync.Mutex
	clients map[string]llm.Provider
	told    map[session.Model]bool
}

func (a *app) newProviders(cfg *config.Config, script *play, notice func(string)) *providers {
	p := &providers{
		app: a, cfg: cfg, script: script, notice: notice,
		clients: map[string]llm.Provider{}, told: map[session.Model]bool{},
	}
	for _, entry := range cfg.Providers {
		p.list = append(p.list, a.complete(entry))
	}
	for _, b := range builtins() {
		if p.entry(b.id) == nil {
			p.list = append(p.list, a.complete(config.Provider{ID: b.id}))
		}
	}
	return p
}

// complete fills in what an entry leaves to its type, its name and, for the
// built-in providers, the environment.
func (a *app) complete(p config.Provider) config.Provider {
	for _, b := range builtins() {
		if p.ID == b.id || p.Type == b.kind {
			p.Type = firstSet(p.Type, b.kind)
			if p.ID == b.id {
				p.APIKey = firstSet(p.APIKey, a.env(b.key))
				p.BaseURL = firstSet(p.BaseURL, a.env(b.url))
			}
			p.BaseURL = firstSet(p.BaseURL, b.baseURL)
		}
	}
	p.Type = firstSet(p.Type, "openai-compatible")
	if p.Type == "openai" {
		p.API = firstSet(p.API, "responses")
	}
	return p
}

func (p *providers) entry(id string) *config.Provider {
	i := slices.IndexFunc(p.list, func(c config.Provider) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &p.list[i]
}

// find is loop.Options.Model.
func (p *providers) find(ref session.Model) (llm.Provider, llm.Model, error) {
	if ref.Provider == scriptedID {
		return p.script.find(ref)
	}
	entry := p.entry(ref.Provider)
	if entry == nil {
		return nil, llm.Model{}, p.unknownProvider(ref)
	}
	model, err := p.model(entry, ref)
	if err != nil {
		return nil, model, err
	}
	client, err := p.client(entry)
	return client, model, err
}

func (p *providers) unknownProvider(ref session.Model) error {
	ids := []string{scriptedID}
	for _, c := range p.list {
		ids = append(ids, c.ID)
	}
	return usagef(didYouMean(config.Near(ref.Provider, ids), "rally models lists what there is"), "there is no provider %q (model %s)", ref.Provider, ref)
}

// model is what is known of a model. A provider that lists its models has no
// others; one that lists none may have any.
func (p *providers) model(entry *config.Provider, ref session.Model) (llm.Model, error) {
	for i := range entry.Models {
		if entry.Models[i].ID == ref.ID {
			return configured(entry, &entry.Models[i])
		}
	}
	if len(entry.Models) > 0 {
		var ids []string
		for _, m := range entry.Models {
			ids = append(ids, entry.ID+"/"+m.ID)
		}
		return llm.Model{}, usagef(didYouMean(config.Near(ref.String(), ids), "rally models lists what there is"), "there is no model %s", ref)
	}
	m, err := configured(entry, &config.Model{ID: ref.ID})
	if m.Assumed {
		p.tellAssumed(m)
	}
	return m, err
}

// tellAssumed says once that the limits of a model are a guess.
func (p *providers) tellAssumed(m llm.Model) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ref := m.Ref(); !p.told[ref] {
		p.told[ref] = true
		p.notice(fmt.Sprintf("the limits of model %s are not known: taking %d tokens of context, %d of output", ref, m.Context, m.Output))
	}
}

// client makes the client of a provider, once.
func (p *providers) client(entry *config.Provider) (llm.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clients[entry.ID]; c != nil {
		return c, nil
	}
	if err := p.reachable(entry); err != nil {
		return nil, err
	}
	transport := llm.Transport{Getenv: p.app.env, CAFile: p.cfg.CAFile, Connect: p.cfg.Timeouts.Connect}
	via, err := transport.Client()
	if err != nil {
		return nil, &loop.UsageError{Err: err}
	}
	if p.record != nil {
		via = p.record.Wrap(via)
	}
	c, err := p.newClient(entry, transport, via)
	if err == nil {
		p.clients[entry.ID] = c
	}
	return c, err
}

// reachable says what an entry lacks.
func (p *providers) reachable(entry *config.Provider) error {
	if entry.Err != nil {
		return &loop.UsageError{Err: entry.Err}
	}
	if entry.BaseURL == "" {
		return usagef("set providers["+entry.ID+"].base_url", "provider %s has no base_url", entry.ID)
	}
	for _, b := range builtins() {
		if entry.ID == b.id && entry.APIKey == "" && entry.BaseURL == b.baseURL {
			return usagef("set "+b.key+"; without a key: -m scripted/tour", "there is no key for %s", entry.ID)
		}
	}
	return nil
}

func (p *providers) newClient(entry *config.Provider, transport llm.Transport, via *http.Client) (llm.Provider, error) {
	patterns, err := llm.CompilePatterns(p.cfg.Compaction.OverflowPatterns)
	if err != nil {
		return nil, &loop.UsageError{Err: err}
	}
	timeouts := llm.Timeouts{Connect: p.cfg.Timeouts.Connect, FirstByte: p.cfg.Timeouts.FirstByte, Idle: p.cfg.Timeouts.Idle}
	classify := llm.Classifier{Provider: entry.ID, Secrets: secretsOf(entry), Overflow: patterns, Now: p.app.now}
	if entry.Type == "anthropic" {
		return anthropic.New(anthropic.Options{
			Provider: entry.ID, BaseURL: entry.BaseURL, Key: entry.APIKey, Headers: entry.Headers, Client: via,
			Timeouts: timeouts, Errors: classify, Reach: transport.Probe,
		}), nil
	}
	o := openai.Options{
		Provider: entry.ID, BaseURL: entry.BaseURL, Key: entry.APIKey, Headers: entry.Headers, Client: via,
		Timeouts: timeouts, Errors: classify, Official: entry.Type == "openai", Reach: transport.Probe,
	}
	if entry.API == "responses" {
		return openai.NewResponses(o), nil
	}
	return openai.NewChat(o), nil
}

// secretsOf are the values of an entry that must not be seen anywhere.
func secretsOf(entry *config.Provider) []string {
	var out []string
	if entry.APIKey != "" {
		out = append(out, entry.APIKey)
	}
	for _, value := range entry.Headers {
		out = append(out, value)
	}
	slices.Sort(out)
	return out
}

// first is the model when nothing names one: that of the first configured
// provider that can be reached, else of the first built-in one whose key is in
// the environment.
func (p *providers) first() (session.Model, bool) {
	for i := range p.cfg.Providers {
		entry := p.entry(p.cfg.Providers[i].ID)
		if len(entry.Models) > 0 && p.reachable(entry) == nil {
			return session.Model{Provider: entry.ID, ID: entry.Models[0].ID}, true
		}
	}
	for _, b := range builtins() {
		if p.app.env(b.key) != "" {
			return session.Model{Provider: b.id, ID: b.first}, true
		}
	}
	return session.Model{}, false
}

// models lists what can be named, as provider/model.
func (p *providers) models() []llm.Model {
	var out []llm.Model
	for i := range p.list {
		for j := range p.list[i].Models {
			if m, err := configured(&p.list[i], &p.list[i].Models[j]); err == nil {
				out = append(out, m)
			}
		}
		if table, err := llm.Models(); err == nil && len(p.list[i].Models) == 0 {
			for _, m := range table {
				if m.Provider == p.list[i].ID {
					out = append(out, m)
				}
			}
		}
	}
	for _, name := range scriptNames() {
		out = append(out, llm.Model{Provider: scriptedID, ID: path.Base(name), Context: scriptedContext, Output: scriptedOutput, Price: &llm.Price{}})
	}
	return out
}
