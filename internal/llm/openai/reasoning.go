package openai

import (
	"encoding/json"
	"maps"
	"slices"

	"rally/internal/llm"
	"rally/internal/session"
)

// fieldKey is the member of a thought's metadata that names the field it came
// in; detailsKey holds OpenRouter's list.
const (
	fieldKey   = "field"
	detailsKey = "reasoning_details"
)

// detail is one entry of reasoning_details, with all its members.
type detail map[string]json.RawMessage

// reasoning follows the thinking of one stream. A block ends where text or a
// call begins.
type reasoning struct {
	block   int
	open    bool
	details []detail
}

// take reads the fields thinking may come in. Servers that fill two of them
// say the same twice, so the first one counts.
func (r *reasoning) take(m *delta) (llm.ReasoningDelta, bool) {
	r.merge(m.Details)
	for _, f := range []struct {
		name  string
		value any
	}{{"reasoning_content", m.ReasoningContent}, {"reasoning", m.Reasoning}} {
		if text, ok := f.value.(string); ok && text != "" {
			return r.delta(f.name, text), true
		}
	}
	var text string
	for _, d := range m.Details {
		text += d.text()
	}
	if text == "" {
		return llm.ReasoningDelta{}, false
	}
	return r.delta(detailsKey, text), true
}

func (r *reasoning) delta(field, text string) llm.ReasoningDelta {
	e := llm.ReasoningDelta{Block: r.block, Text: text}
	if !r.open {
		r.open = true
		e.Metadata = session.Metadata{}
		e.Metadata.Set(fieldKey, field)
	}
	return e
}

// end closes the block: thinking after it is another one.
func (r *reasoning) end() {
	if r.open {
		r.open = false
		r.block++
	}
}

// close gives the details of the whole stream to its last block, once: with
// each delta they would cost the square of their length.
func (r *reasoning) close() (llm.ReasoningDelta, bool) {
	if len(r.details) == 0 {
		return llm.ReasoningDelta{}, false
	}
	e := llm.ReasoningDelta{Block: r.block, Metadata: session.Metadata{}}
	if !r.open && r.block > 0 {
		e.Block = r.block - 1
	}
	e.Metadata.Set(fieldKey, detailsKey)
	e.Metadata.Set(detailsKey, r.joined())
	r.details = nil
	return e, true
}

// merge keeps the entries in the order they came.
func (r *reasoning) merge(more []detail) { r.details = append(r.details, more...) }

// joined puts together the pieces of entries that came in several: same type
// and index, one after the other.
func (r *reasoning) joined() []detail {
	var out []detail
	for first := 0; first < len(r.details); {
		next := first + 1
		for next < len(r.details) && r.details[first].continues(r.details[next]) {
			next++
		}
		out = append(out, joinDetails(r.details[first:next]))
		first = next
	}
	return out
}

func (d detail) continues(next detail) bool {
	return string(d["type"]) == string(next["type"]) && string(d["index"]) == string(next["index"]) &&
		(next["id"] == nil || string(d["id"]) == string(next["id"]))
}

func joinDetails(pieces []detail) detail {
	out := maps.Clone(pieces[0])
	for _, key := range []string{"text", "summary", "data"} {
		var parts []byte
		found := false
		for _, p := range pieces {
			if s, ok := p.string(key); ok {
				parts, found = append(parts, s...), true
			}
		}
		if found {
			out[key], _ = json.Marshal(string(parts)) // a string can always be encoded
		}
	}
	for _, p := range pieces[1:] {
		for _, key := range slices.Sorted(maps.Keys(p)) {
			if _, isText := p.string(key); isText && (key == "text" || key == "summary" || key == "data") {
				continue
			}
			if string(p[key]) != "null" {
				out[key] = p[key]
			}
		}
	}
	return out
}

func (d detail) string(key string) (string, bool) {
	var s string
	raw, ok := d[key]
	if !ok || string(raw) == "null" || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

func (d detail) text() string {
	if s, ok := d.string("text"); ok {
		return s
	}
	s, _ := d.string("summary")
	return s
}
