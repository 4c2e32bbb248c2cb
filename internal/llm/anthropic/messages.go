// Package anthropic speaks the Messages API.
//
// Requests are built from the SDK's parameter types and go out through its
// client with its retries off; the key is set here as x-api-key, since the SDK
// would send it as a bearer token and read ANTHROPIC_* variables. Answers are
// decoded here: the SDK's reader takes a stream that breaks off for one that
// ended.
package anthropic

import (
	"context"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"rally/internal/llm"
)

// apiVersion is the wire format spoken here.
const apiVersion = "2023-06-01"

// Options are what the adapter needs to reach one provider.
type Options struct {
	Provider string // its id
	BaseURL  string // with or without "/v1" at its end
	Key      string // empty for none
	Headers  map[string]string
	Client   *http.Client
	Timeouts llm.Timeouts
	Errors   llm.Classifier
	// Reach probes the server for Probe; nil says it is always reachable.
	Reach func(ctx context.Context, baseURL string) error
}

// Messages is the Messages API of one provider. It is safe for concurrent use.
type Messages struct {
	Options
	sdk sdk.Client
}

// New is an adapter with these options.
func New(o Options) *Messages {
	base := strings.TrimSuffix(strings.TrimSuffix(o.BaseURL, "/"), "/v1")
	opts := []option.RequestOption{
		option.WithHTTPClient(o.Client),
		option.WithBaseURL(base),
		option.WithMaxRetries(0),
		option.WithHeader("anthropic-version", apiVersion),
	}
	if o.Key != "" {
		opts = append(opts, option.WithHeader("x-api-key", o.Key))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		opts = append(opts, option.WithHeader(name, o.Headers[name]))
	}
	return &Messages{Options: o, sdk: sdk.Client{Options: opts}}
}

// Probe implements llm.Prober.
func (m *Messages) Probe(ctx context.Context) error {
	if m.Reach == nil {
		return nil
	}
	return m.Reach(ctx, m.BaseURL)
}

// Stream implements llm.Provider.
func (m *Messages) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return llm.Exchange{
		Timeouts: m.Timeouts,
		Errors:   &m.Errors,
		Send: func(ctx context.Context) (*http.Response, error) {
			body, err := body(req)
			if err != nil {
				return nil, &llm.Error{Class: llm.BadRequest, Provider: m.Provider, Message: err.Error(), Err: err}
			}
			return m.post(ctx, body)
		},
		Decode: func(sink *llm.Sink) llm.Decoder {
			return &decoder{sink: sink, errors: &m.Errors, names: llm.WireNames(req.Tools), blocks: map[int]*block{}}
		},
	}.Stream(ctx)
}

// post sends body and returns an answer of success, whose body the caller
// closes.
func (m *Messages) post(ctx context.Context, body []byte) (*http.Response, error) {
	var res *http.Response
	err := m.sdk.Post(ctx, "v1/messages", body, &res,
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
	return nil, m.Errors.Response(res.StatusCode, res.Header, said)
}

const maxErrorBody = 1 << 20
