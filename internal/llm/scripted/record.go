package scripted

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// keptHeaders are all that is stored of an answer's headers: what the client
// acts on. Cookies and request ids of the provider stay out.
var keptHeaders = [...]string{"Content-Type", "Retry-After", "Retry-After-Ms"}

// Recorder writes what a provider answers as a script that plays it back to
// the byte. Of requests it keeps digests, never headers; secrets in an answer
// are masked. It is safe for concurrent use.
type Recorder struct {
	secrets []string

	mu    sync.Mutex
	w     io.Writer
	begun bool
	err   error
}

// NewRecorder writes to w; secrets are values to mask.
func NewRecorder(w io.Writer, secrets []string) *Recorder {
	return &Recorder{w: w, secrets: secrets}
}

// Wrap is the client with its exchanges recorded.
func (r *Recorder) Wrap(c *http.Client) *http.Client {
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	out := *c
	out.Transport = recording{r, next}
	return &out
}

// Err is the first error of writing, to be looked at when the run has ended.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

type recording struct {
	r    *Recorder
	next http.RoundTripper
}

// RoundTrip passes the request on and records its answer when the body has
// been read or closed.
func (t recording) RoundTrip(req *http.Request) (*http.Response, error) {
	var asked []byte
	if req.Body != nil {
		var err error
		asked, err = io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("record request: %w", err)
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(asked))
	}
	res, err := t.next.RoundTrip(req)
	if err != nil || req.Method != http.MethodPost {
		return res, err
	}
	wire := &Wire{Status: res.StatusCode, Request: digest(req.URL.Path, asked)}
	for _, name := range keptHeaders {
		if value := res.Header.Get(name); value != "" {
			wire.Headers = append(wire.Headers, name+": "+value)
		}
	}
	res.Body = &recordedBody{ReadCloser: res.Body, r: t.r, wire: wire}
	return res, nil
}

// recordedBody keeps what is read of a body.
type recordedBody struct {
	io.ReadCloser
	r    *Recorder
	wire *Wire
	data bytes.Buffer
	once sync.Once
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.data.Write(p[:n])
	if err != nil {
		b.done(!errors.Is(err, io.EOF))
	}
	return n, err
}

// Close ends the record too: a client stops reading at the end it knows.
func (b *recordedBody) Close() error {
	b.done(false)
	return b.ReadCloser.Close()
}

func (b *recordedBody) done(broken bool) {
	b.once.Do(func() {
		b.wire.Broken = broken
		text := b.data.String()
		for _, secret := range b.r.secrets {
			if secret != "" {
				text = strings.ReplaceAll(text, secret, "***")
			}
		}
		b.wire.Chunks = []WireChunk{chunkOf(text)}
		b.r.write(b.wire)
	})
}

// chunkOf keeps text readable and anything else exact.
func chunkOf(text string) WireChunk {
	plain := utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == 0xfeff || r == 0x85 || r == 0x2028 || r == 0x2029
	}) < 0
	if plain {
		return WireChunk{Data: text}
	}
	return WireChunk{Base64: base64.StdEncoding.EncodeToString([]byte(text))}
}

// write appends one reply, so that a run that is killed leaves a script of
// what came before.
func (r *Recorder) write(wire *Wire) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	item, err := yaml.Marshal([]map[string]any{{"wire": wire}})
	if err != nil {
		r.err = fmt.Errorf("record answer: %w", err)
		return
	}
	if !r.begun {
		item = append([]byte("# Recorded by rally; docs/scripted.md describes the format.\nreplies:\n"), item...)
		r.begun = true
	}
	if _, err := r.w.Write(item); err != nil {
		r.err = fmt.Errorf("record answer: %w", err)
	}
}
