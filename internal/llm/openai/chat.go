package openai

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
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
	return func(yield func(llm.Event, error) bool) {
		streamCtx, watch := llm.NewWatch(ctx, c.Timeouts)
		defer watch.Stop()
		res, err := c.request(streamCtx, req)
		if err != nil {
			yield(nil, c.failed(ctx, watch, err))
			return
		}
		defer res.Body.Close() //nolint:errcheck // nothing depends on it
		watch.Content()
		if !yield(llm.Connected{}, nil) {
			return
		}
		d := &decoder{yield: yield, watch: watch, errors: &c.Errors, names: llm.WireNames(req.Tools)}
		d.think.enabled = req.Model.Reasoning.ThinkTags
		err = d.read(res.Body)
		switch {
		case d.stopped:
		case err == nil:
			d.finish()
		case isError(err):
			d.flush()
			yield(nil, err)
		default:
			if err := watch.Judge(ctx, &c.Errors, err, true, d.finished); err != nil {
				d.flush()
				yield(nil, err)
				return
			}
			d.finish()
		}
	}
}

func (c *Chat) failed(ctx context.Context, watch *llm.Watch, err error) error {
	if isError(err) {
		return err
	}
	return watch.Judge(ctx, &c.Errors, err, false, false)
}

func isError(err error) bool {
	var e *llm.Error
	return errors.As(err, &e)
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

// read decodes an answer of success to its end: a stream, or one JSON object
// from a server that does not stream. The first byte tells, since the content
// type is wrong often.
func (d *decoder) read(body io.Reader) error {
	r := bufio.NewReader(body)
	first, err := firstByte(r)
	if err != nil {
		return err
	}
	switch first {
	case '{', '[':
		whole, err := io.ReadAll(io.LimitReader(r, maxAnswer))
		if err != nil {
			return err
		}
		if !json.Valid(whole) {
			return io.ErrUnexpectedEOF
		}
		return d.whole(whole)
	case '<':
		page, err := io.ReadAll(io.LimitReader(r, maxErrorBody))
		if err != nil {
			return err
		}
		e := d.errors.Response(http.StatusOK, http.Header{"Content-Type": {"text/html"}}, page)
		e.Class, e.Message = llm.BadRequest, "the server answered with a web page, so base_url is probably wrong: "+e.Message
		return e
	}
	return d.stream(llm.NewSSE(r))
}

// firstByte peeks at the first byte that is neither blank nor a byte order
// mark.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.Peek(1)
		if err != nil {
			return 0, err
		}
		switch b[0] {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF:
			if _, err := r.Discard(1); err != nil {
				return 0, err
			}
			continue
		}
		return b[0], nil
	}
}
