package llm

import (
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func fetch(t *testing.T, c *http.Client, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // the test is over
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func TestPrivateCA(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(hello))
	defer srv.Close()
	srv.Config.ErrorLog = nil
	file := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(file, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	trusting, err := Transport{CAFile: file, Connect: 5 * time.Second}.Client()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fetch(t, trusting, srv.URL); got != "hello" || err != nil {
		t.Errorf("with ca_file: %q, %v", got, err)
	}
	plain, err := Transport{Connect: 5 * time.Second}.Client()
	if err != nil {
		t.Fatal(err)
	}
	_, err = fetch(t, plain, srv.URL)
	if err == nil {
		t.Fatal("an unknown certificate was trusted")
	}
	c := Classifier{}
	if e := c.Transport(err, false); e.Class != BadRequest || !strings.Contains(e.Message, "certificate") {
		t.Errorf("%s: %s", e.Class, e.Message)
	}
	for name, content := range map[string]string{"gone.pem": "", "text.pem": "no certificate"} {
		path := filepath.Join(t.TempDir(), name)
		if content != "" {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := (Transport{CAFile: path}).Client(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProxy(t *testing.T) {
	var through atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through.Add(1)
		_, _ = io.WriteString(w, "proxied "+r.URL.Host)
	}))
	defer proxy.Close()
	direct := httptest.NewServer(http.HandlerFunc(hello))
	defer direct.Close()
	env := map[string]string{"HTTP_PROXY": proxy.URL, "no_proxy": "skip.test"}
	tr := Transport{Getenv: func(k string) string { return env[k] }, Connect: 5 * time.Second}
	c, err := tr.Client()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fetch(t, c, "http://model.test/v1"); got != "proxied model.test" || err != nil {
		t.Errorf("through the proxy: %q, %v", got, err)
	}
	if got, err := fetch(t, c, direct.URL); got != "hello" || err != nil {
		t.Errorf("loopback goes direct: %q, %v", got, err)
	}
	if _, err := fetch(t, c, "http://skip.test/v1"); err == nil {
		t.Error("NO_PROXY was not heeded")
	}
	if n := through.Load(); n != 1 {
		t.Errorf("%d requests through the proxy", n)
	}
	if err := tr.Probe(t.Context(), "http://model.test/v1"); err != nil {
		t.Errorf("the probe goes to the proxy: %v", err)
	}
	if err := tr.Probe(t.Context(), direct.URL); err != nil {
		t.Errorf("probe: %v", err)
	}
}

func TestProbeOfNothing(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	tr := Transport{Connect: time.Second}
	if err := tr.Probe(t.Context(), "http://"+address); err == nil {
		t.Error("a closed port was reached")
	}
	c, err := tr.Client()
	if err != nil {
		t.Fatal(err)
	}
	_, err = fetch(t, c, "http://"+address+"/?key=secret")
	cl := Classifier{}
	if e := cl.Transport(err, false); e.Class != Network || strings.Contains(e.Message, "secret") {
		t.Errorf("%s: %s", e.Class, e.Message)
	}
}

func TestRedirectKeepsTheMethod(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/301":
			http.Redirect(w, r, "/end", http.StatusMovedPermanently)
		case "/307":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		default:
			_, _ = io.WriteString(w, r.Method)
		}
	}))
	defer srv.Close()
	c, err := Transport{}.Client()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/301": 301, "/307": 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, want)
		}
	}
}

type probes struct{ left int }

func (p *probes) Probe(context.Context) error {
	p.left--
	if p.left > 0 {
		return io.EOF
	}
	return nil
}

func TestAwaitOnline(t *testing.T) {
	if !awaitOnline(t.Context(), time.Millisecond, time.Minute, &probes{3}) {
		t.Error("not online after three probes")
	}
	if awaitOnline(t.Context(), time.Millisecond, 20*time.Millisecond, &probes{1 << 30}) {
		t.Error("online without a network")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if awaitOnline(ctx, time.Millisecond, time.Minute, &probes{1 << 30}) {
		t.Error("online after the end")
	}
}
