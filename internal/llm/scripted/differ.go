package scripted

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Request is what a recorder keeps of a request: digests that tell whether
// another one says the same, and where it does not. The system prompt is left
// out, since it names the directory and the day; so are the model's name and
// limits, which are others in a replay.
type Request struct {
	Path     string   `yaml:"path"`
	Tools    string   `yaml:"tools,omitempty"`
	Messages []string `yaml:"messages,flow"`
}

// digest reads a request of any of the three formats.
func digest(path string, body []byte) *Request {
	var raw struct {
		Messages []json.RawMessage `json:"messages"`
		Input    []json.RawMessage `json:"input"`
		Tools    json.RawMessage   `json:"tools"`
	}
	out := &Request{Path: path}
	if json.Unmarshal(body, &raw) != nil {
		out.Messages = []string{sum(body)}
		return out
	}
	if len(raw.Tools) > 0 {
		out.Tools = sum(raw.Tools)
	}
	for _, m := range append(raw.Messages, raw.Input...) {
		var head message
		if json.Unmarshal(m, &head) == nil && (head.Role == "system" || head.Role == "developer") {
			continue
		}
		out.Messages = append(out.Messages, sum(withoutMarks(m)))
	}
	return out
}

// withoutMarks drops the marks of the prompt cache, which move on with each
// request.
func withoutMarks(m []byte) []byte {
	return bytes.ReplaceAll(m, []byte(`,"cache_control":{"type":"ephemeral"}`), nil)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:6])
}

// differs says what is not as recorded, "" for nothing.
func (r *Request) differs(now *Request) string {
	if api(r.Path) != api(now.Path) {
		return fmt.Sprintf("it went to %s instead of %s", now.Path, r.Path)
	}
	for i := range min(len(r.Messages), len(now.Messages)) {
		if r.Messages[i] != now.Messages[i] {
			return fmt.Sprintf("message %d is another one", i+1)
		}
	}
	if len(r.Messages) != len(now.Messages) {
		return fmt.Sprintf("it has %d messages instead of %d", len(now.Messages), len(r.Messages))
	}
	if r.Tools != now.Tools {
		return "it offers other tools"
	}
	return ""
}

// api is the wire format of a request's path.
func api(path string) string {
	switch {
	case strings.HasSuffix(path, "/responses"):
		return "responses"
	case strings.HasSuffix(path, "/messages"):
		return "messages"
	}
	return "chat"
}

// API is the wire format the script's answers are recorded in: "chat",
// "responses" or "messages". Written scripts speak all; they say "chat".
func (s *Script) API() string {
	for i := range s.Replies {
		if w := s.Replies[i].Wire; w != nil && w.Request != nil {
			return api(w.Request.Path)
		}
	}
	return "chat"
}
