package tools

import (
	"compress/gzip"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"
)

// web is a server that webfetch may reach only because it is let.
func web(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	page := func(path, kind, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(body))
		})
	}
	page("/html", "text/html", `<html><head><title>T</title><script>bad()</script></head><body><nav>menu</nav><h1>Head</h1><p>Some <b>bold</b> &amp; text.</p>`+
		`<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></body></html>`)
	page("/latin1", "text/plain; charset=iso-8859-1", "gr\xfc\xdfe")
	page("/meta", "text/html", "<meta charset=windows-1252><p>\x80 5</p>")
	page("/deep", "text/html", strings.Repeat("<div>", 2000)+"deep text"+strings.Repeat("</div>", 2000))
	page("/json", "application/json", `{"a":1}`)
	page("/bin", "application/zip", "PK\x03\x04\x00\x00")
	page("/pdf", "application/pdf", "%PDF-1.4 x")
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		for range 600 {
			if _, err := w.Write(make([]byte, 10_000)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for range 1000 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
		_ = z.Close()
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
	})
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/json", http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(302)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func fetchTool(ctx context.Context, t *testing.T, o Options, args m) (Result, error) {
	t.Helper()
	env := newEnv(t)
	env.Environ = nil
	return callTool(ctx, t, env, newWebFetch(o), args)
}

func TestWebFetch(t *testing.T) {
	s := web(t)
	for _, c := range []struct {
		args m
		want string
	}{
		{m{"url": "/html"}, "# Head\n\nSome **bold** & text.\n\n| a | b |\n|---|---|\n| 1 | 2 |"},
		{m{"url": "/html", "format": "text"}, "Head\n\nSome bold & text.\n\nab\n\n12"},
		{m{"url": "/latin1"}, "grüße"},
		{m{"url": "/meta"}, "€ 5"},
		{m{"url": "/deep"}, "deep text"},
		{m{"url": "/json"}, `{"a":1}`},
		{m{"url": "/here"}, `{"a":1}`},
		{m{"url": "/pdf"}, "PDF fetched successfully"},
	} {
		path := c.args["url"]
		c.args["url"] = s.URL + fmt.Sprint(path)
		r, err := fetchTool(t.Context(), t, Options{AllowPrivate: true}, c.args)
		if err != nil || r.Output != c.want {
			t.Errorf("%s: %v, got %q, wanted %q", path, err, r.Output, c.want)
		}
	}
}

func TestWebFetchRefused(t *testing.T) {
	s := web(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, c := range []struct {
		args m
		says string
	}{
		{m{"url": "/big"}, "5MB"},
		{m{"url": "/bomb"}, "5MB"},
		{m{"url": "/slow", "timeout": 0.05}, "timed out after 50ms"},
		{m{"url": "/away"}, "redirects to another host"},
		{m{"url": "/file"}, "neither http nor https"},
		{m{"url": "/round"}, "redirects more than"},
		{m{"url": "/none"}, "status code 404"},
		{m{"url": "/bin"}, "not text"},
	} {
		path := c.args["url"]
		c.args["url"] = s.URL + fmt.Sprint(path)
		_, err := fetchTool(t.Context(), t, Options{AllowPrivate: true}, c.args)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", path, err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 100<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
	for _, u := range []string{s.URL, "http://localhost:1/", "http://169.254.169.254/", "http://[::1]:9/", "http://0.0.0.0:1/", "http://[::ffff:127.0.0.1]/", "http://2130706433/", "http://127.1/"} {
		_, err := fetchTool(t.Context(), t, Options{}, m{"url": u})
		if err == nil || !strings.Contains(err.Error(), "private network") && !strings.Contains(err.Error(), "no such host") && !strings.Contains(err.Error(), "lookup") {
			t.Errorf("%s: %v", u, err)
		}
	}
	for _, u := range []string{"file:///etc/passwd", "ftp://x/", "http://", "localhost"} {
		if _, err := fetchTool(t.Context(), t, Options{}, m{"url": u}); err == nil || !strings.Contains(err.Error(), "http:// or https://") {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func TestPrivateAddresses(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1",
		"::1", "::", "fe80::1", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "ff02::1", "::7f00:1", "fd00:ec2::254",
	} {
		if !private(netip.MustParseAddr(a)) {
			t.Errorf("%s passes", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"} {
		if private(netip.MustParseAddr(a)) {
			t.Errorf("%s is refused", a)
		}
	}
}

// The address that is dialled is checked, not the one that was looked up
// before: a name may have changed.
func TestDialledAddressIsChecked(t *testing.T) {
	s := web(t)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	g := newGuard(nil, Options{})
	if c, err := g.dial(t.Context(), "tcp", "localhost:"+port); err == nil {
		_ = c.Close()
		t.Error("localhost was dialled")
	}
}

// A proxy may be anywhere, but what is asked of it may not.
func TestWebFetchProxy(t *testing.T) {
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("by proxy"))
	}))
	t.Cleanup(proxy.Close)
	env := newEnv(t)
	env.Environ = []string{"HTTP_PROXY=" + proxy.URL}
	r, err := callTool(t.Context(), t, env, newWebFetch(Options{}), m{"url": "http://only-the-proxy.invalid/x"})
	if err != nil || r.Output != "by proxy" || <-asked != "http://only-the-proxy.invalid/x" {
		t.Errorf("%v %v", r, err)
	}
	if _, err := callTool(t.Context(), t, env, newWebFetch(Options{}), m{"url": "http://10.0.0.1/x"}); err == nil || len(asked) > 0 {
		t.Errorf("%v", err)
	}
}

func TestWebFetchTrustsTheGivenRoots(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	u, _ := url.Parse(s.URL)
	if r, err := fetchTool(t.Context(), t, Options{AllowPrivate: true, RootCAs: pool}, m{"url": u.String()}); err != nil || r.Output != "hello" {
		t.Errorf("%v %v", r, err)
	}
	if _, err := fetchTool(t.Context(), t, Options{AllowPrivate: true}, m{"url": u.String()}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
}

func TestWebFetchEndsWithItsContext(t *testing.T) {
	s := web(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := fetchTool(ctx, t, Options{AllowPrivate: true}, m{"url": s.URL + "/slow"}); err == nil || time.Since(start) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}
