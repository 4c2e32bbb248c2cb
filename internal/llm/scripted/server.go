package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server plays a script over HTTP.
type Server struct {
	// URL is the base URL for clients: http://127.0.0.1:PORT/v1.
	URL string

	player   player
	http     *http.Server
	served   chan struct{}
	mu       sync.Mutex
	received []Received
}

// Received is a request the server got.
type Received struct {
	Path string
	Body []byte
}

// ServeOptions say where a server listens.
type ServeOptions struct {
	Port int // of 127.0.0.1; 0 picks a free one
	// Strict refuses a request that differs from the recorded one.
	Strict bool
}

const maxRequest = 64 << 20

// Serve begins to answer on a loopback port; Close ends it.
func (s *Script) Serve(ctx context.Context, o ServeOptions) (*Server, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve script: %w", err)
	}
	srv := &Server{
		URL:    "http://" + listener.Addr().String() + "/v1",
		player: player{script: s, strict: o.Strict, used: make([]bool, len(s.Replies))},
		served: make(chan struct{}),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", srv.models)
	mux.HandleFunc("POST /v1/chat/completions", srv.answer(chatFormat{}))
	mux.HandleFunc("POST /v1/responses", srv.answer(responsesFormat{}))
	mux.HandleFunc("POST /v1/messages", srv.answer(messagesFormat{}))
	srv.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(srv.served)
		_ = srv.http.Serve(listener) // always http.ErrServerClosed after Close
	}()
	return srv, nil
}

// Close ends all connections and returns when the server has stopped.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.served
	return err
}

// Requests lists what came so far, in order, models requests excepted.
func (s *Server) Requests() []Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Received(nil), s.received...)
}

// Differences says of each request that was not as the script wants it what
// is different, the first one first.
func (s *Server) Differences() []string {
	s.player.mu.Lock()
	defer s.player.mu.Unlock()
	return append([]string(nil), s.player.differences...)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	writeBody(w, http.StatusOK, map[string]any{
		"object": "list",
		"data":   []any{map[string]any{"id": s.player.script.Name, "object": "model", "owned_by": "scripted"}},
	})
}

// format is one wire format: how a reply looks in it.
type format interface {
	// stream is the reply as pieces of an event stream, the end included.
	stream(a *answer) [][]byte
	// object is the reply in one piece.
	object(a *answer) any
	// failure is the body of an error answer.
	failure(f *Failure) any
}

// answer is a reply to one request.
type answer struct {
	*Reply
	model  string
	number int
}

func (s *Server) answer(f format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			return // the client went away, or sends without end
		}
		s.mu.Lock()
		s.received = append(s.received, Received{Path: r.URL.Path, Body: body})
		s.mu.Unlock()
		q, err := readAsked(body)
		if err != nil {
			fail(w, f, &Failure{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: err.Error()})
			return
		}
		reply, number, why := s.player.pick(q, digest(r.URL.Path, body))
		if reply == nil {
			fail(w, f, &Failure{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "script_exhausted", Message: why})
			return
		}
		if !pause(r.Context(), reply.Wait) {
			return
		}
		a := &answer{Reply: reply, model: q.Model, number: number}
		switch {
		case reply.Error != nil:
			fail(w, f, reply.Error)
		case reply.Wire != nil:
			replay(r.Context(), w, reply.Wire)
		case q.Stream:
			a.play(r.Context(), w, f.stream(a))
		default:
			writeBody(w, http.StatusOK, f.object(a))
		}
	}
}

// play sends the pieces one by one; a cut one breaks the connection.
func (a *answer) play(ctx context.Context, w http.ResponseWriter, pieces [][]byte) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	flush(w)
	for i, piece := range pieces {
		if a.Cut != nil && i >= *a.Cut {
			panic(http.ErrAbortHandler) // how net/http breaks a connection off
		}
		if !pause(ctx, a.Delay) {
			return
		}
		if _, err := w.Write(piece); err != nil {
			return
		}
		flush(w)
	}
}

func replay(ctx context.Context, w http.ResponseWriter, wire *Wire) {
	setHeaders(w, wire.Headers)
	w.WriteHeader(wire.Status)
	flush(w)
	for _, c := range wire.Chunks {
		if !pause(ctx, c.After) {
			return
		}
		if _, err := w.Write(c.Bytes()); err != nil {
			return
		}
		flush(w)
	}
	if wire.Broken {
		panic(http.ErrAbortHandler)
	}
}

func fail(w http.ResponseWriter, f format, e *Failure) {
	for name, value := range e.Headers {
		w.Header().Set(name, value)
	}
	if e.Body != "" {
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", http.DetectContentType([]byte(e.Body)))
		}
		w.WriteHeader(e.Status)
		_, _ = io.WriteString(w, e.Body) // the client may be gone
		return
	}
	writeBody(w, e.Status, f.failure(e))
}

func writeBody(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

// pause waits and reports whether the client is still there.
func pause(ctx context.Context, d Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(time.Duration(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// setHeaders sets recorded headers, "Name: value" each; Parse has looked at
// them.
func setHeaders(w http.ResponseWriter, lines []string) {
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, ":"); ok {
			w.Header().Add(name, strings.TrimSpace(value))
		}
	}
}
