package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/llm"
	"rally/internal/llm/openai"
	"rally/internal/session"
)

// slow serves pieces and then holds the connection open until the client goes.
func slow(t *testing.T, headers bool, every time.Duration, pieces ...string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the client go
		if headers {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		for _, p := range pieces {
			_, _ = io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
		}
		for every > 0 && r.Context().Err() == nil {
			select {
			case <-r.Context().Done():
			case <-time.After(every):
				_, _ = io.WriteString(w, ": keepalive\n\n"+data(`{"content":""}`))
				_ = http.NewResponseController(w).Flush()
			}
		}
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func with(url string, timeouts llm.Timeouts) *openai.Chat {
	return openai.NewChat(openai.Options{
		Provider: "test", BaseURL: url, Client: &http.Client{}, Timeouts: timeouts, Errors: llm.Classifier{Provider: "test"},
	})
}

func TestDeadlines(t *testing.T) {
	short := llm.Timeouts{FirstByte: 100 * time.Millisecond, Idle: 150 * time.Millisecond}
	for _, tt := range []struct {
		name string
		url  string
		want string
	}{
		{"no headers", slow(t, false, 0), "test: no answer within 100ms"},
		{"no content", slow(t, true, 0), "test: no content within 150ms"},
		{"falls silent", slow(t, true, 0, data(`{"content":"A"}`)), "test: no content within 150ms"},
		{"keep-alives and empty deltas do not count", slow(t, true, 20*time.Millisecond, data(`{"content":"A"}`)), "test: no content within 150ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := collect(t.Context(), with(tt.url, short), request("go"))
			if llm.ClassOf(err) != llm.Timeout || err.Error() != tt.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	for e, streamErr := range with(slow(t, true, 0, data(`{"content":"A"}`)), llm.Timeouts{}).Stream(ctx, request("go")) {
		if _, ok := e.(llm.TextDelta); ok {
			cancel()
		}
		err = streamErr
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestBreakingOffClosesTheConnection(t *testing.T) {
	gone := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, data(`{"content":"A"}`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	defer srv.Close()
	for e, err := range with(srv.URL, llm.Timeouts{}).Stream(t.Context(), request("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := e.(llm.TextDelta); ok {
			break
		}
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the server still sends")
	}
}

func TestUnreachable(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	_, err := collect(t.Context(), with(srv.URL, llm.Timeouts{}), request("go"))
	if llm.ClassOf(err) != llm.Network || !llm.Offline(err) {
		t.Errorf("got %v", err)
	}
}

// Reset before the headers is the network; after them it is a failed attempt.
func TestReset(t *testing.T) {
	for _, after := range []bool{false, true} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if after {
				_, _ = io.WriteString(w, data(`{"content":"A"}`))
				_ = http.NewResponseController(w).Flush()
			}
			panic(http.ErrAbortHandler)
		}))
		_, err := collect(t.Context(), with(srv.URL, llm.Timeouts{}), request("go"))
		srv.Close()
		if want := map[bool]llm.Class{false: llm.Network, true: llm.Incomplete}[after]; llm.ClassOf(err) != want {
			t.Errorf("after the headers %v: %v", after, err)
		}
	}
}

func TestLearnsParameters(t *testing.T) {
	var bodies []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b))
		for param, message := range map[string]string{
			`"max_tokens"`:     "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
			`"stream_options"`: "Unrecognized request argument supplied: stream_options",
		} {
			if strings.Contains(string(b), param) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error"}}`, message)
				return
			}
		}
		_, _ = io.WriteString(w, data(`{"content":"A"}`)+end("stop"))
	}))
	defer srv.Close()
	p := with(srv.URL, llm.Timeouts{})
	req := request("go")
	req.MaxOutput = 5
	for range 2 {
		if _, err := collect(t.Context(), p, req); err != nil {
			t.Fatal(err)
		}
	}
	if len(bodies) != 4 || !strings.Contains(bodies[3], `"max_completion_tokens":5`) || bodies[2] != bodies[3] {
		t.Errorf("%d requests: %s", len(bodies), bodies)
	}
}

func TestRefusalsAreNotRetriedHere(t *testing.T) {
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":"loading model"}`)
	}))
	defer srv.Close()
	_, err := collect(t.Context(), with(srv.URL, llm.Timeouts{}), request("go"))
	wait := 7 * time.Second
	want := &llm.Error{Class: llm.Server, Provider: "test", Status: 503, Message: "loading model", Body: `{"error":"loading model"}`, RetryAfter: &wait}
	var got *llm.Error
	if !errors.As(err, &got) || n.Load() != 1 {
		t.Fatalf("%d requests, %v", n.Load(), err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The SDK must not read its variables: a key for OpenAI would go to any
// server.
func TestNoEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-from-environment")
	t.Setenv("OPENAI_BASE_URL", "http://192.0.2.1/")
	t.Setenv("OPENAI_ORG_ID", "org")
	var header http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		if r.URL.String() != "/deploy/chat/completions?api-version=1" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, end("stop"))
	}))
	defer srv.Close()
	p := openai.NewChat(openai.Options{BaseURL: srv.URL + "/deploy?api-version=1", Client: &http.Client{}, Headers: map[string]string{"api-key": "k"}})
	got, err := collect(t.Context(), p, request("go"))
	if d := cmp.Diff([]llm.Event{llm.Connected{}, finish(session.FinishStop, "stop")}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if header.Get("Authorization") != "" || header.Get("OpenAI-Organization") != "" || header.Get("api-key") != "k" {
		t.Errorf("headers %v", header)
	}
}

// A chunk that is like the one before gives the same text as a parse.
func FuzzLikeness(f *testing.F) {
	f.Add(`plain`, `\\n\\u00e9 "`, `{"content":"x"}`)
	f.Add("h\xc3", "\x01", "\u2028")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		var body strings.Builder
		for _, text := range []string{"first", a, b, c} {
			var q string
			if json.Valid([]byte(`"` + text + `"`)) {
				q = `"` + text + `"`
			} else {
				enc, _ := json.Marshal(text)
				q = string(enc)
			}
			body.WriteString(strings.ReplaceAll(data(`{"content":`+q+`}`), "\n", " ") + "\n\n")
		}
		read := func(body string) (text string) {
			p := openai.NewChat(openai.Options{BaseURL: "http://model.test", Client: &http.Client{Transport: canned(body + done)}})
			for e, err := range p.Stream(t.Context(), request("go")) {
				if err != nil {
					return text + string(llm.ClassOf(err))
				}
				if d, ok := e.(llm.TextDelta); ok {
					text += d.Text
				}
			}
			return text
		}
		// Blanks that differ from chunk to chunk keep the chunks unlike.
		n := 0
		unlike := regexp.MustCompile(`"choices":`).ReplaceAllStringFunc(body.String(), func(s string) string {
			n++
			return s + strings.Repeat(" ", n)
		})
		if like, parsed := read(body.String()), read(unlike); like != parsed {
			t.Errorf("like %q, parsed %q", like, parsed)
		}
	})
}

// BenchmarkDecode decodes an answer of 5,000 chunks.
func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{5000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			chunk := `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1694268190,"model":"m","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" a piece of text of forty characters long"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"
			var text strings.Builder
			for i := range n {
				text.WriteString(strings.Replace(chunk, "forty", strconv.Itoa(i), 1))
			}
			body := text.String() + end("stop") + done
			client := &http.Client{Transport: canned(body)}
			p := openai.NewChat(openai.Options{BaseURL: "http://model.test", Client: client, Timeouts: llm.DefaultTimeouts()})
			b.ReportAllocs()
			for b.Loop() {
				if events, err := collect(b.Context(), p, request("go")); err != nil || len(events) != n+2 {
					b.Fatal(len(events), err)
				}
			}
		})
	}
}

// canned answers every request with the same stream.
type canned string

func (c canned) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(string(c))),
	}, nil
}
