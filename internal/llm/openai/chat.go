package openai

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"regexp"
	"sync/atomic"

	"rally/internal/llm"
)

// Chat is the chat-completions API of one provider. It is safe for concurrent
// use.
type Chat struct {
	client
	// What refusals have taught about this server.
	otherTokens    atomic.Bool // the other of max_tokens and max_completion_tokens
	noStreamOption atomic.Bool
}

// NewChat is an adapter with these options.
func NewChat(o Options) *Chat { return &Chat{client: newClient(o)} }

// Stream implements llm.Provider.
func (c *Chat) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return llm.Exchange{
		Timeouts: c.Timeouts,
		Errors:   &c.Errors,
		Send:     func(ctx context.Context) (*http.Response, error) { return c.request(ctx, req) },
		Decode: func(sink *llm.Sink) llm.Decoder {
			d := &chatDecoder{sink: sink, errors: &c.Errors, names: llm.WireNames(req.Tools)}
			d.think.enabled = req.Model.Reasoning.ThinkTags
			return d
		},
	}.Stream(ctx)
}

// request posts req; a refusal of a parameter whose name or presence is a
// matter of the server's age is answered once with another request.
func (c *Chat) request(ctx context.Context, req *llm.Request) (*http.Response, error) {
	for {
		body, err := c.body(req)
		if err != nil {
			return nil, &llm.Error{Class: llm.BadRequest, Provider: c.Provider, Message: err.Error(), Err: err}
		}
		res, err := c.post(ctx, "chat/completions", body)
		if err == nil || !c.learn(req, err) {
			return res, err
		}
	}
}

// learn reports whether the refusal says how this server wants the request;
// it does so at most once for each habit.
func (c *Chat) learn(req *llm.Request, err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return false
	}
	refused := func(param string) bool {
		re := regexp.MustCompile(`(?is)(?:unsupported|not supported|unrecognized|unknown|not permitted|extra inputs|unexpected|invalid).{0,60}\b` + param +
			`\b|\b` + param + `\b.{0,60}(?:unsupported|not supported|unrecognized|unknown|not permitted|extra inputs|unexpected)`)
		return re.MatchString(e.Message + " " + e.Body)
	}
	switch {
	case req.MaxOutput > 0 && refused(c.tokensName()):
		return c.otherTokens.CompareAndSwap(false, true)
	case refused("stream_options") || refused("include_usage"):
		return c.noStreamOption.CompareAndSwap(false, true)
	}
	return false
}

// tokensName is the parameter for the length of the answer.
func (c *Chat) tokensName() string {
	if c.Official != c.otherTokens.Load() {
		return "max_completion_tokens"
	}
	return "max_tokens"
}
