// Package openai speaks OpenAI's two wire formats, chat completions and
// responses, and the many dialects of the first.
//
// Requests are built from the SDK's parameter types and go out through its
// client, with its retries off and nothing read from OPENAI_* variables.
// Answers are decoded here: the SDK's stream reader ends without an error on a
// cut stream, on an error object or a web page inside a 200 and on CR line
// ends, fails on `"error":null`, and needs four times the time a chunk costs
// here, since its types keep the raw text of every member.
package openai

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"rally/internal/llm"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// Options are what an adapter needs to reach one provider.
type Options struct {
	Provider string // its id
	BaseURL  string // ends before "/chat/completions"
	Key      string // empty for none
	Headers  map[string]string
	Client   *http.Client
	Timeouts llm.Timeouts
	Errors   llm.Classifier
	// Official says that this is OpenAI's own API, which wants newer names of
	// parameters than most compatible servers know.
	Official bool
	// Reach probes the server for Probe; nil says it is always reachable.
	Reach func(ctx context.Context, baseURL string) error
}

// client sends requests; the two adapters share it.
type client struct {
	Options
	sdk sdk.Client
}

func newClient(o Options) client {
	opts := []option.RequestOption{
		option.WithHTTPClient(o.Client),
		option.WithBaseURL(o.BaseURL),
		option.WithMaxRetries(0),
	}
	if o.Key != "" {
		opts = append(opts, option.WithAPIKey(o.Key))
	}
	if base, err := url.Parse(o.BaseURL); err == nil { // Azure's api-version stands there
		for name, values := range base.Query() {
			opts = append(opts, option.WithQuery(name, values[0]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		opts = append(opts, option.WithHeader(name, o.Headers[name]))
	}
	// NewClient would read OPENAI_* variables and build thirty services.
	return client{Options: o, sdk: sdk.Client{Options: opts}}
}

// Probe implements llm.Prober.
func (c *client) Probe(ctx context.Context) error {
	if c.Reach == nil {
		return nil
	}
	return c.Reach(ctx, c.BaseURL)
}

// post sends body and returns an answer of success, whose body the caller
// closes, or what is wrong: an *llm.Error for the server's refusal, else the
// transport's error.
func (c *client) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	var res *http.Response
	err := c.sdk.Post(ctx, path, body, &res,
		option.WithHeader("Content-Type", "application/json"),
		option.WithHeader("Accept", "text/event-stream"))
	if res == nil || res.Body == nil {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		if err != nil {
			_ = res.Body.Close()
			return nil, err
		}
		return res, nil
	}
	defer res.Body.Close() //nolint:errcheck // nothing depends on it
	said, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil && len(said) == 0 {
		said = []byte(http.StatusText(res.StatusCode))
	}
	return nil, c.Errors.Response(res.StatusCode, res.Header, said)
}

const maxErrorBody = 1 << 20
