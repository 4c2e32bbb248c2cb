package llm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rally/internal/session"
)

// Class says what kind of failure an Error is, and with that what may help.
type Class string

// The classes. Network means that no answer began (connection refused, name
// not found, reset before the headers); Incomplete that an answer broke off;
// Timeout that a stream deadline passed.
const (
	Auth          Class = "auth"
	Quota         Class = "quota"
	RateLimit     Class = "rate_limit"
	Overflow      Class = "overflow"
	TooLarge      Class = "too_large"
	BadRequest    Class = "bad_request"
	Server        Class = "server"
	Network       Class = "network"
	Incomplete    Class = "incomplete"
	Timeout       Class = "timeout"
	ContentFilter Class = "content_filter"
	Unknown       Class = "unknown"
)

// Error is a failed attempt at a model call. Its texts hold no keys and no
// request headers.
type Error struct {
	Class    Class
	Provider string
	Status   int    // of HTTP, or the one the body names; 0 when there is none
	Code     string // the provider's own code or type
	Message  string // for people, at most 2 KiB
	Body     string // what the provider said, at most 8 KiB
	// RetryAfter is how long the provider asks to wait; nil when it does not.
	RetryAfter *time.Duration
	Err        error // the cause, nil when the provider said it
}

// Error is the message with the provider's id before it.
func (e *Error) Error() string {
	if e.Provider == "" {
		return e.Message
	}
	return e.Provider + ": " + e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool {
	switch e.Class {
	case RateLimit, Server, Network, Incomplete, Timeout:
		return true
	case Auth, Quota, Overflow, TooLarge, BadRequest, ContentFilter, Unknown:
		return false
	}
	return false
}

// Session is the error in the form that messages store.
func (e *Error) Session() *session.Error {
	out := &session.Error{Name: e.Class.name(), Data: session.ErrorData{
		Message:      e.Message,
		ProviderID:   e.Provider,
		StatusCode:   e.Status,
		IsRetryable:  e.Retryable(),
		ResponseBody: e.Body,
		Hint:         e.hint(),
	}}
	return out
}

func (c Class) name() session.ErrorName {
	switch c {
	case Auth:
		return session.ProviderAuthError
	case Overflow:
		return session.ContextOverflowError
	case ContentFilter:
		return session.ContentFilterError
	case Unknown:
		return session.UnknownError
	case Quota, RateLimit, TooLarge, BadRequest, Server, Network, Incomplete, Timeout:
		return session.APIError
	}
	return session.UnknownError
}

func (e *Error) hint() string {
	switch e.Class {
	case Auth:
		return fmt.Sprintf("check the API key of provider %q and what it may use", e.Provider)
	case Quota:
		return fmt.Sprintf("check plan and billing of provider %q, or use another model", e.Provider)
	case TooLarge:
		return "the request has too many bytes for this server: attach less or smaller files"
	case Network:
		return fmt.Sprintf("check base_url of provider %q, the network and the proxy variables", e.Provider)
	case RateLimit:
		if e.RetryAfter != nil {
			return fmt.Sprintf("the provider asks to wait %s", e.RetryAfter.Round(time.Second))
		}
	case Overflow, BadRequest, Server, Incomplete, Timeout, ContentFilter, Unknown:
	}
	return ""
}

// SessionError is any error of a Stream in the form that messages store. The
// end of a context becomes an abort.
func SessionError(err error) *session.Error {
	var e *Error
	var s *session.Error
	switch {
	case errors.As(err, &e):
		return e.Session()
	case errors.As(err, &s):
		return s
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return session.NewError(session.AbortedError, "Aborted")
	}
	return session.NewError(session.UnknownError, err.Error())
}

// ClassOf is the class of err, Unknown for errors that are no *Error, and ""
// for nil.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Unknown
}
