package llm

import (
	"context"
	"errors"
	"time"
)

// The waits between attempts when the provider does not name one.
const (
	firstWait   = 2 * time.Second
	backoffCap  = 30 * time.Second
	probeEvery  = 3 * time.Second
	jitterShare = 0.1
)

// Policy says whether and when a failed model call is made again. It is the
// only retry layer: the SDKs' own are off.
type Policy struct {
	Attempts int // including the first; less than 1 counts as 1
	// MaxWait bounds what a provider may ask us to wait; beyond it the call
	// fails at once, since the run would sleep through its own deadline.
	MaxWait time.Duration
	// OfflineWait bounds how long a run that has had an answer waits for the
	// network to come back.
	OfflineWait time.Duration
	// Jitter gives numbers in [0, 1) that spread the waits of many processes;
	// nil spreads nothing.
	Jitter func() float64
}

// Next decides after the attempt-th failure (the first is 1). It never waits
// less than the provider asked.
func (p Policy) Next(attempt int, err error) (wait time.Duration, retry bool) {
	var e *Error
	if attempt >= p.Attempts || !errors.As(err, &e) || !e.Retryable() {
		return 0, false
	}
	// A Retry-After of zero would spend the attempts within a millisecond.
	if e.RetryAfter != nil && *e.RetryAfter > 0 {
		if *e.RetryAfter > p.MaxWait {
			return 0, false
		}
		return p.spread(*e.RetryAfter), true
	}
	limit := backoffCap
	if e.Status != 0 && p.MaxWait > limit { // a server that answers is worth a longer wait
		limit = p.MaxWait
	}
	wait = limit
	if shift := max(attempt-1, 0); shift < 16 {
		wait = min(firstWait<<shift, limit)
	}
	return p.spread(wait), true
}

func (p Policy) spread(wait time.Duration) time.Duration {
	if p.Jitter == nil {
		return wait
	}
	return wait + time.Duration(p.Jitter()*jitterShare*float64(wait))
}

// Offline reports whether err says that the provider cannot be reached, as
// against a provider that answers badly or breaks off.
func Offline(err error) bool { return ClassOf(err) == Network }

// Prober is a Provider that can tell whether its server is reachable, without
// making a request.
type Prober interface {
	Probe(ctx context.Context) error
}

// AwaitOnline probes every 3 s until the server is reachable (true), limit
// has passed or ctx ends (false).
func AwaitOnline(ctx context.Context, limit time.Duration, p Prober) bool {
	return awaitOnline(ctx, probeEvery, limit, p)
}

func awaitOnline(ctx context.Context, every, limit time.Duration, p Prober) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		try, done := context.WithTimeout(ctx, every)
		err := p.Probe(try)
		done()
		if err == nil {
			return true
		}
	}
}
