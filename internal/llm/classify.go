package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Classifier makes an Error of whatever a provider answers: HTTP status, JSON
// body and error inside a stream are judged by the same table.
type Classifier struct {
	Provider string
	// Secrets are values that never reach an Error: keys a server may echo.
	Secrets []string
	// Overflow are wordings, beside the built-in ones, that mean that the
	// prompt is longer than the window.
	Overflow []*regexp.Regexp
	// Now reads the clock for Retry-After dates; nil ignores dates.
	Now func() time.Time
}

// CompilePatterns compiles configured overflow wordings, case-insensitive.
func CompilePatterns(patterns []string) ([]*regexp.Regexp, error) {
	out := make([]*regexp.Regexp, 0, len(patterns))
	for _, p := range patterns {
		re, err := regexp.Compile("(?i)" + p)
		if err != nil {
			return nil, fmt.Errorf("overflow pattern %q: %w", p, err)
		}
		out = append(out, re)
	}
	return out, nil
}

// Response is the Error of an HTTP answer that is no success, or of a success
// whose body is no answer.
func (c *Classifier) Response(status int, header http.Header, body []byte) *Error {
	f := readFault(body)
	if f.message == "" {
		f.message = plainText(body, header.Get("Content-Type"))
		f.plain = f.message
	}
	e := c.judge(status, f, len(body) == 0)
	if wait, ok := c.retryAfter(header); ok {
		e.RetryAfter = &wait
	} else {
		e.RetryAfter = f.retry
	}
	e.Body = c.clean(string(body[:min(len(body), maxBody)]), maxBody)
	return e
}

// Object is the Error of a JSON error object inside a successful answer.
func (c *Classifier) Object(raw []byte) *Error {
	f := readFault(raw)
	if f.message == "" {
		f.message = strings.TrimSpace(string(raw[:min(len(raw), maxMessage)]))
	}
	e := c.judge(f.status, f, false)
	e.RetryAfter = f.retry
	e.Body = c.clean(string(raw[:min(len(raw), maxBody)]), maxBody)
	return e
}

// Transport is the Error of a connection: begun says that headers of success
// had come before it broke.
func (c *Classifier) Transport(err error, begun bool) *Error {
	e := &Error{Provider: c.Provider, Err: err}
	switch {
	case errors.Is(err, ErrEventSize):
		e.Class, e.Message = BadRequest, err.Error()
	case begun && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		e.Class, e.Message = Incomplete, "the answer broke off before its end"
	case begun:
		e.Class, e.Message = Incomplete, "the answer broke off: "+c.clean(err.Error(), maxMessage)
	case isTLS(err):
		e.Class, e.Message = BadRequest, "the server's certificate was not accepted: "+c.clean(rootCause(err), maxMessage)
	default:
		e.Class, e.Message = Network, "cannot reach the server: "+c.clean(rootCause(err), maxMessage)
	}
	return e
}

// Deadline is the Error of a stream deadline; what names it ("first byte").
func (c *Classifier) Deadline(what string, after time.Duration) *Error {
	return &Error{Class: Timeout, Provider: c.Provider, Message: fmt.Sprintf("no %s within %s", what, after)}
}

const (
	maxMessage = 2 << 10
	maxBody    = 8 << 10
)

func (c *Classifier) judge(status int, f fault, empty bool) *Error {
	if (status == 0 || status < 300) && f.status >= 400 {
		status = f.status
	}
	e := &Error{Provider: c.Provider, Status: status, Code: f.code}
	e.Class = c.class(status, f, empty)
	text := c.clean(f.message, maxMessage)
	switch {
	case text == "" && empty && status == http.StatusBadRequest:
		text = "400 without an explanation; some servers answer so when the prompt is too long"
	case text == "":
		text = strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
	case f.message == f.plain && status != 0:
		text = fmt.Sprintf("%d: %s", status, text)
	}
	e.Message = text
	return e
}

// class goes from the most to the least certain: codes, the wordings of an
// overflow, the status, then the wordings of what passes.
func (c *Classifier) class(status int, f fault, empty bool) Class {
	for _, code := range f.codes {
		if class, ok := codeClass(code); ok {
			return class
		}
	}
	if status != http.StatusTooManyRequests && status != http.StatusUnauthorized && c.overflows(f.message) {
		return Overflow
	}
	if class := statusClass(status, empty); class != "" {
		return class
	}
	for _, code := range f.codes {
		if strings.Contains(code, "invalid_request") || code == "invalid_argument" || code == "not_found_error" {
			return BadRequest
		}
	}
	if rateWords().MatchString(f.message) {
		return RateLimit
	}
	// The request was accepted before this: the fault is the server's.
	return Server
}

func statusClass(status int, empty bool) Class {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return Auth
	case status == http.StatusPaymentRequired:
		return Quota
	case status == http.StatusRequestEntityTooLarge:
		return TooLarge
	case status == http.StatusTooManyRequests:
		return RateLimit
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		return Server
	case status == http.StatusBadRequest && empty:
		return Overflow
	case status >= 300:
		return BadRequest
	}
	return ""
}

// codeClass is what the provider's code says, whatever the status.
func codeClass(code string) (Class, bool) {
	switch code {
	case "insufficient_quota", "usage_not_included", "freeusagelimiterror", "insufficient_balance", "insufficient_credits":
		return Quota, true
	case "invalid_api_key", "authentication_error", "unauthenticated", "permission_error", "permission_denied",
		"invalid_authentication", "unauthorized", "account_deactivated", "accessdeniedexception", "unrecognizedclientexception":
		return Auth, true
	case "rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted", "throttlingexception",
		"rate_limited", "tokens_per_minute_limit_exceeded":
		return RateLimit, true
	case "content_filter", "content_policy_violation", "responsibleaipolicyviolation", "data_inspection_failed":
		return ContentFilter, true
	case "server_error", "internal_server_error", "internal_error", "overloaded_error", "api_error", "server_is_overloaded",
		"unavailable", "service_unavailable", "internalserverexception", "serviceunavailableexception", "timeout_error":
		return Server, true
	case "request_too_large":
		return TooLarge, true
	case "invalid_prompt", "model_not_found":
		return BadRequest, true
	}
	if overflowCode(code) {
		return Overflow, true
	}
	if strings.HasPrefix(code, "billing") {
		return Quota, true
	}
	return "", false
}

func (c *Classifier) overflows(text string) bool {
	return builtinOverflow().MatchString(text) || matchesAny(c.Overflow, text)
}

func matchesAny(patterns []*regexp.Regexp, text string) bool {
	for _, re := range patterns {
		if re.MatchString(text) {
			return true
		}
	}
	return false
}

// retryAfter reads the headers: milliseconds, seconds or a date.
func (c *Classifier) retryAfter(h http.Header) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return seconds(ms / 1000), true
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return seconds(s), true
	}
	if at, err := http.ParseTime(value); err == nil && c.Now != nil {
		return at.Sub(c.Now()), true
	}
	return 0, false
}

func seconds(s float64) time.Duration {
	if s > math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(math.Ceil(s*1000)) * time.Millisecond
}

// fault is what a body says went wrong.
type fault struct {
	message string
	plain   string   // message, when the body was no JSON
	codes   []string // lower case, the most telling first
	code    string   // as the provider wrote it
	status  int
	retry   *time.Duration
}

// readFault reads the error shapes of the field: an object or a string under
// "error", a list around it, a bare {message}, {detail}, {errors}.
func readFault(body []byte) fault {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		return fault{}
	}
	f := fault{}
	f.take(top)
	inner := top["error"]
	var object map[string]json.RawMessage
	var text string
	switch {
	case json.Unmarshal(inner, &text) == nil:
		f.message = text
	case json.Unmarshal(inner, &object) == nil && object != nil:
		f = fault{status: f.status}
		f.take(object)
		if f.message == "" {
			f.message = string(inner)
		}
	}
	if f.message == "" {
		f.message = detailText(top)
	}
	return f
}

func (f *fault) take(m map[string]json.RawMessage) {
	var message string
	if json.Unmarshal(m["message"], &message) == nil {
		f.message = message
	}
	for _, key := range []string{"code", "type", "error_type", "status", "status_code", "__type"} {
		f.takeCode(m[key])
	}
	var inner map[string]json.RawMessage
	if json.Unmarshal(m["innererror"], &inner) == nil { // Azure
		f.takeCode(inner["code"])
	}
	var meta struct {
		Raw string `json:"raw"`
	}
	if json.Unmarshal(m["metadata"], &meta) == nil && meta.Raw != "" { // OpenRouter: what the upstream said
		f.message += ": " + meta.Raw
	}
	var details []struct {
		RetryDelay string `json:"retryDelay"`
	}
	if json.Unmarshal(m["details"], &details) == nil { // Google's RetryInfo
		for _, d := range details {
			if wait, err := time.ParseDuration(d.RetryDelay); err == nil {
				f.retry = &wait
			}
		}
	}
}

func (f *fault) takeCode(raw json.RawMessage) {
	var number int
	var text string
	switch {
	case json.Unmarshal(raw, &number) == nil:
	case json.Unmarshal(raw, &text) == nil && text != "":
		if n, err := strconv.Atoi(text); err == nil {
			number = n
			break
		}
		if f.code == "" {
			f.code = text
		}
		f.codes = append(f.codes, strings.ToLower(text))
	}
	if number >= 400 && number < 600 && f.status == 0 {
		f.status = number
	}
}

func detailText(top map[string]json.RawMessage) string {
	for _, key := range []string{"detail", "errors", "error_message", "msg"} {
		raw, ok := top[key]
		if !ok {
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return text
		}
		return string(raw)
	}
	return ""
}
