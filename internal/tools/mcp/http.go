package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// remote is a server that is spoken to over HTTP: the way to it, which every
// request of the SDK takes.
//
// It ends all requests with life, since the SDK has some that no context of
// ours reaches, adds the configured headers for the server's own host only,
// and remembers the answer that says why a server cannot be used.
type remote struct {
	base    http.RoundTripper
	life    context.Context // ended by stop
	stop    context.CancelFunc
	host    string
	scheme  string
	headers map[string]string

	told chan struct{} // a server was told that a call was cancelled

	mu      sync.Mutex
	refused int // the status of the last answer to a message, if it was 4xx
}

func newRemote(ctx context.Context, s Server, client *http.Client) (*remote, error) {
	at, err := url.Parse(s.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("its url must begin with http:// or https:// and name a host")
	}
	r := &remote{base: client.Transport, host: at.Host, scheme: at.Scheme, headers: s.Headers, told: make(chan struct{}, 64)}
	if r.base == nil {
		r.base = http.DefaultTransport
	}
	r.life, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	return r, nil
}

// transport is the SDK's. The stream that a server may keep open for messages
// of its own is not asked for: some servers never answer that request, and all
// it could bring is news that Refresh asks for anyway.
func (r *remote) transport(s Server, client *http.Client) sdk.Transport {
	c := *client
	c.Transport, c.Timeout = r, 0
	return &sdk.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: &c, MaxRetries: 1, DisableStandaloneSSE: true, MaxEventSize: maxMessage,
	}
}

// RoundTrip implements http.RoundTripper.
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	free := context.AfterFunc(r.life, cancel) //nolint:contextcheck // both of them end it
	done := func() { free(); cancel() }
	out := req.Clone(ctx)
	if out.URL.Host == r.host && out.URL.Scheme == r.scheme {
		for name, value := range r.headers {
			out.Header.Set(name, value)
			if strings.EqualFold(name, "Host") {
				out.Host = value
			}
		}
	}
	resp, err := r.base.RoundTrip(out)
	if isCancellation(req) {
		select {
		case r.told <- struct{}{}:
		default:
		}
	}
	if err != nil {
		done()
		return nil, err
	}
	if req.Method == http.MethodPost {
		r.answered(resp.StatusCode)
	}
	limit := int64(maxMessage)
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		limit = -1 // each event has its own limit
	}
	resp.Body = &body{ReadCloser: resp.Body, left: limit, done: done}
	return resp, nil
}

// isCancellation reports whether a request says that a call was cancelled. The
// SDK sends that by itself, so this is the way to know that it is sent.
func isCancellation(req *http.Request) bool {
	if req.GetBody == nil || req.ContentLength > 1000 {
		return false
	}
	again, err := req.GetBody()
	if err != nil {
		return false
	}
	defer func() { _ = again.Close() }() // it is in memory
	text, err := io.ReadAll(again)
	return err == nil && bytes.Contains(text, []byte(`"notifications/cancelled"`))
}

// settle waits until the server was told of n cancelled calls.
func (r *remote) settle(n int, late <-chan time.Time) {
	for range n {
		select {
		case <-r.told:
		case <-late:
			return
		}
	}
}

func (r *remote) answered(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused = status; status < 400 || status >= 500 || status == http.StatusTooManyRequests {
		r.refused = 0
	}
}

// gone reports whether the server has forgotten our session.
func (r *remote) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused == http.StatusNotFound
}

// explain says in words for people what an answer of 4xx means; nil if that
// was not it. session says that the server had accepted us before.
func (r *remote) explain(name string, session bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == 0 {
		return nil
	}
	status := fmt.Sprintf("%d %s", r.refused, http.StatusText(r.refused))
	switch r.refused {
	case http.StatusUnauthorized, http.StatusForbidden:
		for header := range r.headers {
			if strings.EqualFold(header, "Authorization") {
				return fmt.Errorf("it answered %s: the header Authorization that mcp[%s].headers sets was not accepted", status, name)
			}
		}
		return fmt.Errorf("it answered %s: set the header it wants, as in mcp: [{name: %s, headers: {Authorization: \"Bearer {env:TOKEN}\"}}]; "+
			"there is no login in a browser", status, name)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		if session {
			return fmt.Errorf("it answered %s: the session is gone", status)
		}
		return fmt.Errorf("it answered %s: there is no streamable HTTP endpoint at its url (the old SSE transport is not supported)", status)
	}
	return nil
}

// body is an answer's, bounded; its request's context lives as long as it does.
type body struct {
	io.ReadCloser
	left int64 // -1: no bound
	done func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("the answer has more than 64 MiB")
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// plainURL takes what may be secret out of an address.
func plainURL(raw string) string {
	at, err := url.Parse(raw)
	if err != nil {
		return "(an address that cannot be read)"
	}
	at.User, at.Fragment = nil, ""
	if at.RawQuery != "" {
		at.RawQuery = "***"
	}
	return at.String()
}

// withoutSecrets is err's text without the query of the server's address.
func withoutSecrets(err error, s Server) string {
	text := err.Error()
	if s.URL != "" {
		text = strings.ReplaceAll(text, s.URL, plainURL(s.URL))
	}
	for _, value := range s.Headers {
		if len(value) >= 6 {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	return text
}
