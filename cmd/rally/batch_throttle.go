package main

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"sync"
	"time"

	"rally/internal/llm"
	"rally/internal/session"
)

// throttles hold back all workers of a provider that has asked one of them to
// slow down. The zero value is ready; it is safe for concurrent use.
type throttles struct {
	mu     sync.Mutex
	byName map[string]*throttle // by the provider's id
	// links are clients that workshops share, by all that makes them: a worktree
	// for each task must not mean a pool of connections for each.
	links map[string]*throttled
}

// models is the workshop's loop.Options.Model, throttled.
func (g *throttles) models(w *workshop) func(session.Model) (llm.Provider, llm.Model, error) {
	find := w.engine.Model
	return func(ref session.Model) (llm.Provider, llm.Model, error) {
		p, model, err := find(ref)
		if err != nil {
			return p, model, err
		}
		return g.before(w, ref, p), model, nil
	}
}

func (g *throttles) before(w *workshop, ref session.Model, p llm.Provider) *throttled {
	g.mu.Lock()
	defer g.mu.Unlock()
	shut := g.byName[ref.Provider]
	if shut == nil {
		shut = &throttle{policy: w.engine.Retry, now: w.app.now}
		shut.policy.Attempts = math.MaxInt // how often is each turn's own business
		if g.byName == nil {
			g.byName = map[string]*throttle{}
		}
		g.byName[ref.Provider] = shut
	}
	entry := w.providers.entry(ref.Provider)
	if entry == nil { // a script: its server belongs to the workshop
		return &throttled{p, shut}
	}
	key, err := json.Marshal([]any{entry, w.cfg.CAFile, w.cfg.Timeouts, w.cfg.Compaction.OverflowPatterns})
	if err != nil {
		return &throttled{p, shut}
	}
	if g.links[string(key)] == nil {
		if g.links == nil {
			g.links = map[string]*throttled{}
		}
		g.links[string(key)] = &throttled{p, shut}
	}
	return g.links[string(key)]
}

// throttle is shut until a time. It opens for all at once: every turn spreads
// its own waits.
type throttle struct {
	policy llm.Policy
	now    func() time.Time

	mu    sync.Mutex
	until time.Time
	shut  time.Time // when it was last shut
	times int       // in a row
}

// wait returns when it is open, or ctx has ended.
func (g *throttle) wait(ctx context.Context) error {
	for {
		g.mu.Lock()
		left := g.until.Sub(g.now())
		g.mu.Unlock()
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// limited shuts it after a request that began at the given time was
// told to slow down. Requests that were under way together count once.
func (g *throttle) limited(began time.Time, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if g.times == 0 || began.After(g.shut) {
		g.times++
		g.shut = now
	}
	wait, ok := g.policy.Next(g.times, err)
	if !ok { // the provider asks for more than a turn may wait; the others need not run into it at once
		wait = g.policy.MaxWait
	}
	if until := now.Add(wait); until.After(g.until) {
		g.until = until
	}
}

func (g *throttle) passed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.times = 0
}

// throttled is a provider behind its throttle.
type throttled struct {
	llm.Provider
	throttle *throttle
}

// Stream waits at the throttle, and shuts it for all when the provider says so.
func (p *throttled) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := p.throttle.wait(ctx); err != nil {
			yield(nil, err)
			return
		}
		began := p.throttle.now()
		for event, err := range p.Provider.Stream(ctx, req) {
			if _, ok := event.(llm.Connected); ok {
				p.throttle.passed()
			}
			if llm.ClassOf(err) == llm.RateLimit {
				p.throttle.limited(began, err)
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

// Probe implements llm.Prober as far as the provider does.
func (p *throttled) Probe(ctx context.Context) error {
	if prober, ok := p.Provider.(llm.Prober); ok {
		return prober.Probe(ctx)
	}
	return nil
}
