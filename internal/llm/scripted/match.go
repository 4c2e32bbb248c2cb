package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// player picks the reply for each request. It is safe for concurrent use.
type player struct {
	script *Script
	strict bool

	mu          sync.Mutex
	used        []bool
	count       int
	differences []string
}

// pick gives the first unused reply that is for this request, then the
// default; nil with a text says that there is none. Of recorded replies the
// one whose request was the same comes first, since requests of child sessions
// have no order among each other; else the next one, and the difference is
// noted.
func (p *player) pick(q *asked, now *Request) (reply *Reply, number int, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	next := -1
	for i := range p.script.Replies {
		r := &p.script.Replies[i]
		if p.used[i] || !r.When.holds(q, p.count) {
			continue
		}
		if next < 0 {
			next = i
		}
		if r.recorded() == nil {
			break
		}
		if r.recorded().differs(now) == "" {
			next = i
			break
		}
	}
	switch {
	case next >= 0:
		r := &p.script.Replies[next]
		if was := r.recorded(); was != nil {
			if what := was.differs(now); what != "" {
				p.differences = append(p.differences, fmt.Sprintf("request %d differs from the recorded one: %s", p.count, what))
				if p.strict {
					return nil, p.count, p.differences[len(p.differences)-1]
				}
			}
		}
		p.used[next] = !r.Repeat
		return r, p.count, ""
	case p.script.Default != nil:
		return p.script.Default, p.count, ""
	}
	why = fmt.Sprintf("script %s has no reply for request %d (model %q, last user message %q)",
		p.script.Name, p.count, q.Model, shorten(q.lastUser))
	p.differences = append(p.differences, why)
	return nil, p.count, why
}

func (r *Reply) recorded() *Request {
	if r.Wire == nil {
		return nil
	}
	return r.Wire.Request
}

func shorten(s string) string {
	const limit = 80
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

func (w *When) holds(q *asked, number int) bool {
	switch {
	case w == nil:
		return true
	case w.Request != 0 && w.Request != number:
		return false
	case w.Model != "" && w.Model != q.Model:
		return false
	case w.User != "" && !strings.Contains(q.lastUser, w.User):
		return false
	case w.Tool != "":
		for _, result := range q.results {
			if strings.Contains(result, w.Tool) {
				return true
			}
		}
		return false
	}
	return true
}

// asked is what a script looks at in a request, whatever its format.
type asked struct {
	Model    string
	Stream   bool
	lastUser string
	results  []string // tool results after the last user message
}

// message reads a message of any of the three formats.
type message struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
}

func readAsked(body []byte) (*asked, error) {
	var raw struct {
		Model    string          `json:"model"`
		Stream   bool            `json:"stream"`
		Messages []message       `json:"messages"`
		Input    json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, fmt.Errorf("the request is not the JSON expected: %w", err)
	}
	q := &asked{Model: raw.Model, Stream: raw.Stream}
	messages := raw.Messages
	if len(raw.Input) > 0 && json.Unmarshal(raw.Input, &messages) != nil {
		q.lastUser = flatText(raw.Input)
	}
	for _, m := range messages {
		q.take(m)
	}
	return q, nil
}

func (q *asked) take(m message) {
	switch {
	case m.Role == "tool":
		q.results = append(q.results, flatText(m.Content))
	case m.Type == "function_call_output":
		q.results = append(q.results, flatText(m.Output))
	case m.Role == "user":
		var blocks []message
		results := false
		if json.Unmarshal(m.Content, &blocks) == nil {
			for _, b := range blocks {
				if b.Type == "tool_result" {
					q.results = append(q.results, flatText(b.Content))
					results = true
				}
			}
		}
		if !results {
			q.lastUser, q.results = flatText(m.Content), nil
		}
	}
}

// flatText is a text, or the texts of a list of parts.
func flatText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		text += p.Text
	}
	return text
}
