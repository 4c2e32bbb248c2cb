package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"rally/internal/config"
	"rally/internal/session"
	"rally/internal/session/loop"
	"rally/internal/session/store"
)

// exitStatus ends the program with code; all there is to say has been said.
type exitStatus struct{ code int }

func (e *exitStatus) Error() string { return fmt.Sprintf("exit status %d", e.code) }

// exit is the error for code: nil for 0.
func exit(code int) error {
	if code == 0 {
		return nil
	}
	return &exitStatus{code}
}

// classify says which reason and exit code belong to an error that kept a
// command from having a result. It is the only place that does.
func classify(err error) (session.Reason, int) {
	reason := reasonOf(err)
	if reason == session.ReasonInterrupted && errors.Is(err, loop.ErrTerminated) {
		return reason, session.ExitCodeTerminated
	}
	return reason, reason.ExitCode()
}

func reasonOf(err error) session.Reason {
	var usage *loop.UsageError
	var ambiguous *store.AmbiguousError
	var configured *config.Error
	switch {
	case errors.As(err, &usage), errors.As(err, &configured), errors.As(err, &ambiguous), errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExists):
		return session.ReasonUsage
	case errors.Is(err, loop.ErrBusy):
		return session.ReasonBusy
	case errors.Is(err, loop.ErrOutputClosed):
		return session.ReasonOutputClosed
	case errors.Is(err, loop.ErrTimeout):
		return session.ReasonTimeout
	case errors.Is(err, loop.ErrInterrupted), errors.Is(err, loop.ErrTerminated):
		return session.ReasonInterrupted
	}
	return session.ReasonInternal
}

// because replaces the bare context.Canceled of err by what ended ctx.
func because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// failure is the result of a command that could not have one of its own.
// sessionID is empty before a session exists.
func failure(err error, sessionID string) session.Result {
	reason, code := classify(err)
	name := session.UnknownError
	switch reason { //nolint:exhaustive // all others are unknown errors
	case session.ReasonUsage:
		name = session.UsageError
	case session.ReasonBusy:
		name = session.BusyError
	case session.ReasonInterrupted, session.ReasonTimeout, session.ReasonOutputClosed:
		name = session.AbortedError
	}
	failed := session.NewError(name, err.Error())
	failed.Data.Hint = hintOf(err)
	return session.Result{SessionID: sessionID, Reason: reason, ExitCode: code, Error: failed, Cost: new(session.Money), CostComplete: true}
}

// hintOf is what to do about err, if that is known.
func hintOf(err error) string {
	var usage *loop.UsageError
	var configured *config.Error
	switch {
	case errors.As(err, &usage) && usage.Hint != "":
		return usage.Hint
	case errors.As(err, &configured):
		return configured.Hint
	case errors.Is(err, loop.ErrBusy):
		return "wait for it with --when-busy wait, or end it with: rally abort"
	case errors.Is(err, store.ErrNotFound):
		return "list them with: rally sessions"
	}
	return ""
}

// sayError tells a person what went wrong and, where it helps, what to do.
func sayError(w io.Writer, err error) {
	sayFailure(w, err.Error(), hintOf(err))
}

func sayFailure(w io.Writer, message, hint string) {
	fmt.Fprintf(w, "rally: error: %s\n", printable(message))
	if hint != "" {
		fmt.Fprintf(w, "rally: hint: %s\n", printable(hint))
	}
}

// explain says in a sentence why a turn ended that did not complete; empty
// where the turn's own error says it better.
func explain(r session.Reason) string {
	switch r { //nolint:exhaustive // the others come with an error
	case session.ReasonRefused:
		return "a call was refused, and nobody is here to ask"
	case session.ReasonLimitSteps:
		return "the limit of steps was reached"
	case session.ReasonLimitCost:
		return "the cost limit was reached"
	case session.ReasonLimitTokens:
		return "the limit of tokens was reached"
	case session.ReasonTimeout:
		return "the time limit was reached"
	case session.ReasonSuperseded:
		return "a newer message took the session over"
	case session.ReasonAborted:
		return "the turn was aborted"
	case session.ReasonInterrupted:
		return "the turn was interrupted"
	case session.ReasonLoopDetected:
		return "the model made the same call again and again"
	case session.ReasonEmptyResponse:
		return "the model gave an empty answer"
	case session.ReasonNoStructured:
		return "the model gave no answer that fits the schema"
	}
	return "the turn ended with " + string(r)
}

// origin is where a panic came from: the first of our own frames.
func origin(stack []byte) string {
	_, after, _ := bytes.Cut(stack, []byte("\npanic("))
	for line := range bytes.Lines(after) {
		if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("rally/")) {
			return string(line)
		}
	}
	return "an unknown place"
}
