package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rally/internal/llm"
	"rally/internal/session"
)

// emptyRetries is how often a model that says nothing is asked again.
const emptyRetries = 2

// stream makes the step's request until an attempt holds: retries by the one
// policy there is, then the fallback models in order. It returns the recorder
// of the attempt that holds; with an error, that of the attempt that was cut
// off in the middle, or nil.
func (t *turn) stream(ctx context.Context, m *session.Message, history []session.Message, req *llm.Request) (*recorder, error) {
	for {
		provider, model, err := t.Model(t.model)
		if err != nil {
			return nil, err
		}
		if req == nil {
			req = t.request(model, history)
		}
		rec, err := t.attempts(ctx, m, provider, req)
		if err == nil || len(t.fallbacks) == 0 || ctx.Err() != nil || !worthFallback(err) {
			return rec, err
		}
		t.model, t.fallbacks = t.fallbacks[0], t.fallbacks[1:]
		m.Model, req = t.model, nil
		t.status(ctx, session.Status{
			Type:    session.StatusRetry,
			Message: fmt.Sprintf("%s: %s; going on with %s", model.Ref(), err, t.model),
		})
	}
}

// attempts makes one request to one model, again where the policy says so.
func (t *turn) attempts(ctx context.Context, m *session.Message, provider llm.Provider, req *llm.Request) (*recorder, error) {
	empty := 0
	for attempt := 1; ; attempt++ {
		proc := newProcessor(m.ID, m.SessionID, t.NewID)
		proc.tags = req.Model.Reasoning.ThinkTags
		rec := newRecorder(t, proc, req)
		err := t.attempt(ctx, rec, provider, req)
		if err == nil && !rec.proc.visible() && rec.proc.finish.Reason != session.FinishContentFilter {
			empty++
			err = errEmpty
		}
		if err == nil || ctx.Err() != nil {
			return rec, err
		}
		again, wait := t.again(attempt, empty, err)
		if errors.Is(err, errEmpty) && !again {
			err = emptyEnd(m)
		}
		if discardErr := rec.discard(ctx, t.retryPart(m, rec, attempt, err)); discardErr != nil {
			return rec, discardErr
		}
		if t.answered && llm.Offline(err) {
			if !t.reconnected(ctx, provider) {
				return nil, err
			}
			attempt = 0
			continue
		}
		if !again {
			return nil, err
		}
		t.status(ctx, session.Status{
			Type: session.StatusRetry, Attempt: attempt, Message: err.Error(), Next: t.nowMS() + wait.Milliseconds(),
		})
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
		t.status(ctx, session.Status{Type: session.StatusBusy})
	}
}

// reconnected waits for the network to come back after a provider had answered
// before, and says whether it did.
func (t *turn) reconnected(ctx context.Context, provider llm.Provider) bool {
	prober, ok := provider.(llm.Prober)
	if !ok {
		return false
	}
	t.status(ctx, session.Status{Type: session.StatusOffline, Message: "The provider cannot be reached; waiting for it"})
	if !llm.AwaitOnline(ctx, t.Retry.OfflineWait, prober) {
		return false
	}
	t.status(ctx, session.Status{Type: session.StatusBusy, Message: "Reconnected"})
	return true
}

// worthFallback reports whether another model may do what this one could not:
// not where the request itself is at fault.
func worthFallback(err error) bool {
	switch llm.ClassOf(err) {
	case llm.RateLimit, llm.Quota, llm.Auth, llm.Server, llm.Network, llm.Timeout, llm.Incomplete:
		return true
	case llm.Overflow, llm.TooLarge, llm.BadRequest, llm.ContentFilter, llm.Unknown:
		return false
	}
	return false
}

// errEmpty is an answer without text and without a call.
var errEmpty = errors.New("the model answered with nothing")

func emptyEnd(m *session.Message) error {
	return &endError{end{
		reason: session.ReasonEmptyResponse,
		err:    session.NewError(session.APIError, fmt.Sprintf("%s answered with nothing, %d times", m.Model, emptyRetries+1)),
	}}
}

func (t *turn) again(attempt, empty int, err error) (again bool, wait time.Duration) {
	if errors.Is(err, errEmpty) {
		return empty <= emptyRetries, 0
	}
	wait, again = t.Retry.Next(attempt, err)
	return again, wait
}

// retryPart is what a failed attempt leaves; what it used is counted.
func (t *turn) retryPart(m *session.Message, rec *recorder, attempt int, err error) *session.Retry {
	part := &session.Retry{
		Header: t.partHead(m), Attempt: attempt, Error: errorOf(err), Time: session.RetryTime{Created: t.nowMS()},
	}
	if rec.proc.usage != nil {
		tokens, cost := t.use(rec.req.Model, rec.proc.usage)
		part.Tokens, part.Cost = &tokens, cost
	}
	return part
}

// errorOf is an error in the form that is stored.
func errorOf(err error) *session.Error {
	var own *endError
	if errors.As(err, &own) && own.end.err != nil {
		return own.end.err
	}
	return llm.SessionError(err)
}

// streamed is one element of a stream on its way between goroutines.
type streamed struct {
	event llm.Event
	err   error
}

// attempt sends req once and records what comes.
func (t *turn) attempt(ctx context.Context, rec *recorder, provider llm.Provider, req *llm.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	events := make(chan streamed, 64)
	go func() {
		defer close(events)
		for event, err := range provider.Stream(ctx, req) {
			select {
			case events <- streamed{event, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { // the goroutine has ended when attempt returns
		cancel()
		for range events {
		}
	}()
	flush := time.NewTimer(flushEvery)
	defer flush.Stop()
	for {
		select {
		case s, more := <-events:
			if !more {
				return t.streamEnd(ctx, rec)
			}
			if s.err != nil {
				return s.err
			}
			if rec.apply(rec.proc.feed(s.event, t.nowMS())) {
				if err := rec.flush(ctx); err != nil {
					return err
				}
			}
			t.answered = t.answered || rec.proc.connected
		case <-flush.C:
			if err := rec.flush(ctx); err != nil {
				return err
			}
			flush.Reset(flushEvery)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// streamEnd judges a stream that ended without an error of its own.
func (t *turn) streamEnd(ctx context.Context, rec *recorder) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if rec.proc.finish == nil {
		return &llm.Error{Class: llm.Incomplete, Message: "the stream ended without a finish"}
	}
	if rec.proc.finish.Reason == session.FinishError {
		return &llm.Error{Class: llm.Server, Message: "the provider ended the answer with an error it did not explain"}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
