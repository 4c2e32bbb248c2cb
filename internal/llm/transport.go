package llm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Timeouts bound the phases of a stream; 0 is no bound. FirstByte runs until
// the headers of the answer, Idle between events with content: keep-alives and
// empty deltas do not count.
type Timeouts struct {
	Connect   time.Duration
	FirstByte time.Duration
	Idle      time.Duration
}

// DefaultTimeouts are the deadlines a config does not name.
func DefaultTimeouts() Timeouts {
	return Timeouts{Connect: 30 * time.Second, FirstByte: 120 * time.Second, Idle: 120 * time.Second}
}

// Transport says how to reach providers: through which proxy, trusting whom.
type Transport struct {
	// Getenv gives HTTPS_PROXY, HTTP_PROXY, NO_PROXY (and their lower-case
	// forms); nil uses no proxy. Loopback addresses are always direct.
	Getenv func(string) string
	// CAFile holds more certificates to trust, in PEM; empty for none. The
	// system's (SSL_CERT_FILE, SSL_CERT_DIR) stay.
	CAFile  string
	Connect time.Duration
}

// maxErrorBody bounds what is read of an answer that is no success.
const maxErrorBody = 1 << 20

// Client is an HTTP client for one provider. It follows no redirect that
// would turn a POST into a GET, and reads error bodies up to 1 MiB.
func (t Transport) Client() (*http.Client, error) {
	base := &http.Transport{
		Proxy:                 t.proxy(),
		DialContext:           (&net.Dialer{Timeout: t.Connect, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   t.Connect,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		// A compressed stream may be held back until a block is full.
		DisableCompression: true,
	}
	if t.CAFile != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file %q holds no certificate in PEM form", t.CAFile)
		}
		base.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{
		Transport:     boundErrors{base},
		CheckRedirect: keepMethod,
	}, nil
}

// keepMethod ends at a redirect that would lose the request's body.
func keepMethod(req *http.Request, via []*http.Request) error {
	if len(via) >= 5 || req.Method != via[0].Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// boundErrors cuts the bodies of failures, which the SDKs read whole.
type boundErrors struct{ next http.RoundTripper }

func (b boundErrors) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(req)
	if err == nil && res.StatusCode >= 300 {
		res.Body = &boundBody{Reader: io.LimitReader(res.Body, maxErrorBody), Closer: res.Body}
	}
	return res, err
}

// CloseIdleConnections lets http.Client.CloseIdleConnections through.
func (b boundErrors) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type boundBody struct {
	io.Reader
	io.Closer
}

func (t Transport) proxy() func(*http.Request) (*url.URL, error) {
	choose := t.proxyFor()
	return func(req *http.Request) (*url.URL, error) { return choose(req.URL) }
}

func (t Transport) proxyFor() func(*url.URL) (*url.URL, error) {
	if t.Getenv == nil {
		return func(*url.URL) (*url.URL, error) { return nil, nil }
	}
	either := func(upper, lower string) string {
		if v := t.Getenv(upper); v != "" {
			return v
		}
		return t.Getenv(lower)
	}
	config := httpproxy.Config{
		HTTPProxy:  either("HTTP_PROXY", "http_proxy"),
		HTTPSProxy: either("HTTPS_PROXY", "https_proxy"),
		NoProxy:    either("NO_PROXY", "no_proxy"),
	}
	if all := either("ALL_PROXY", "all_proxy"); all != "" {
		if config.HTTPProxy == "" {
			config.HTTPProxy = all
		}
		if config.HTTPSProxy == "" {
			config.HTTPSProxy = all
		}
	}
	return config.ProxyFunc()
}

// Probe opens and closes a TCP connection to the server of baseURL, or to the
// proxy that leads there.
func (t Transport) Probe(ctx context.Context, baseURL string) error {
	target, err := url.Parse(baseURL)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if proxy, err := t.proxyFor()(target); err == nil && proxy != nil {
		target = proxy
	}
	port := target.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[target.Scheme == "https"]
	}
	conn, err := (&net.Dialer{Timeout: t.Connect}).DialContext(ctx, "tcp", net.JoinHostPort(target.Hostname(), port))
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return conn.Close()
}
