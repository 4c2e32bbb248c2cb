package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/google/go-cmp/cmp"
)

// web is a real server over HTTP; deny may answer a request in its place.
func web(t *testing.T, deny func(w http.ResponseWriter, r *http.Request) bool) (server Server, client *http.Client) {
	t.Helper()
	one := newTestServer("web")
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return one }, nil)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if deny == nil || !deny(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	client = s.Client()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		s.CloseClientConnections()
		for session := range one.Sessions() {
			_ = session.Close() // those that the test made it forget
		}
		s.Close()
	})
	return Server{Name: "w", URL: s.URL + "/mcp?key=hidden", Headers: map[string]string{"Authorization": "Bearer right"}, Enabled: true}, client
}

func TestHTTP(t *testing.T) {
	var deleted atomic.Bool
	server, client := web(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			deleted.Store(true)
		}
		if r.Method == http.MethodGet {
			t.Error("it asked for a stream of its own")
		}
		if r.Header.Get("Authorization") != "Bearer right" {
			http.Error(w, "who?", http.StatusUnauthorized)
			return true
		}
		return false
	})
	set, said := begin(t, Options{Client: client}, server)
	if len(*said) > 0 {
		t.Fatal(*said)
	}
	if got := output(t, set, "w_echo", `{"q":5}`); got != `said {"q":5}` {
		t.Error(got)
	}
	if n := len(output(t, set, "w_big", "")); n != 20<<20 {
		t.Errorf("%d bytes", n)
	}
	if got := output(t, set, "w_grow", ""); got != "grown" {
		t.Error(got)
	}
	set.Refresh(t.Context())
	if got := output(t, set, "w_fresh", ""); got != "new" {
		t.Error(got)
	}
	if got := set.Status(t.Context())[0].Target; !strings.HasSuffix(got, "/mcp?***") {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := run(ctx, t, set, "w_hang", ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	set.Close()
	if !deleted.Load() {
		t.Error("the server was not told that we went")
	}
}

func TestHTTPRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		headers map[string]string
		want    string
	}{
		{"no header", 401, nil, `it answered 401 Unauthorized: set the header it wants, as in mcp: [{name: w, headers: {Authorization: "Bearer {env:TOKEN}"}}]; there is no login in a browser`},
		{"wrong header", 401, map[string]string{"authorization": "Bearer wrong"}, "it answered 401 Unauthorized: the header Authorization that mcp[w].headers sets was not accepted"},
		{"forbidden", 403, map[string]string{"X-Key": "k"}, `it answered 403 Forbidden: set the header it wants, as in mcp: [{name: w, headers: {Authorization: "Bearer {env:TOKEN}"}}]; there is no login in a browser`},
		{"no endpoint", 404, nil, "it answered 404 Not Found: there is no streamable HTTP endpoint at its url (the old SSE transport is not supported)"},
		{"broken", 500, nil, `calling "initialize": rejected by transport: sending "initialize": Internal Server Error`},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := web(t, func(w http.ResponseWriter, _ *http.Request) bool {
				http.Error(w, "no", c.status)
				return true
			})
			server.Headers = c.headers
			_, said := begin(t, Options{Client: client}, server)
			if d := cmp.Diff([]string{`MCP server "w" is left out: ` + c.want}, *said); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestHTTPOdd(t *testing.T) {
	silent, client := web(t, func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	})
	silent.Timeout = 300 * time.Millisecond
	page, _ := web(t, func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write([]byte("<html>hello</html>"))
		return true
	})
	page.Name = "page"
	nobody := Server{Name: "nobody", URL: "http://127.0.0.1:1/?key=hidden", Enabled: true}
	bad := Server{Name: "bad", URL: "ftp://x/", Enabled: true}
	set, said := begin(t, Options{Client: client}, silent, page, nobody, bad)
	all := strings.Join(*said, "\n")
	for _, want := range []string{
		`"w" is left out: it did not answer within 300ms`, `"page" is left out: calling "initialize": sending "initialize": unsupported content type`,
		`"nobody" is left out: it cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused`, `"bad" is left out: its url must begin with http`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
	if strings.Contains(all, "hidden") {
		t.Errorf("a key is shown: %s", all)
	}
	set.Close()
}

// A server that has forgotten the session is connected to again, and the call
// is made once more.
func TestHTTPReconnects(t *testing.T) {
	var mu sync.Mutex
	forgotten := map[string]bool{}
	inits, last := 0, ""
	server, client := web(t, func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Mcp-Session-Id")
		if id == "" {
			inits++
		} else {
			last = id
		}
		if forgotten[id] {
			http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, http.StatusNotFound)
		}
		return forgotten[id]
	})
	set, _ := begin(t, Options{Client: client}, server)
	for range 2 { // as often as it happens
		mu.Lock()
		forgotten[last] = true
		mu.Unlock()
		if got := output(t, set, "w_echo", "{}"); got != "said {}" {
			t.Error(got)
		}
	}
	if inits != 3 {
		t.Errorf("%d connections", inits)
	}
}

// The configured headers go to the configured host alone.
func TestHTTPRedirect(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		http.Error(w, "no", http.StatusTeapot)
	}))
	defer other.Close()
	server, client := web(t, func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		return true
	})
	_, said := begin(t, Options{Client: client}, server)
	if leaked.Load() || len(*said) != 1 {
		t.Errorf("leaked %v, %q", leaked.Load(), *said)
	}
}
