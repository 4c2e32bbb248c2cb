package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// What every adapter says in the same words.
const (
	// MediaFromTool is the text of the user message that carries media a tool
	// result cannot hold.
	MediaFromTool = "Attached media from tool result:"
	maxName       = 64
)

// WireName is name in the form every provider takes, [a-zA-Z0-9_-]{1,64}:
// names that need no change stay, others get a hash so that no two become one.
func WireName(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	switch {
	case name == "":
		return "unnamed"
	case clean == name && len(name) <= maxName:
		return name
	}
	sum := sha256.Sum256([]byte(name))
	mark := "_" + hex.EncodeToString(sum[:4])
	return clean[:min(len(clean), maxName-len(mark))] + mark
}

// WireNames maps the wire names of tools to their own where they differ; nil
// when none does.
func WireNames(tools []Tool) map[string]string {
	var out map[string]string
	for i := range tools {
		if wire := WireName(tools[i].Name); wire != tools[i].Name {
			if out == nil {
				out = map[string]string{}
			}
			out[wire] = tools[i].Name
		}
	}
	return out
}

// WireArgs is the text of a JSON object for the arguments of a call: "{}"
// where they are anything else.
func WireArgs(args json.RawMessage) string {
	text := strings.TrimSpace(string(args))
	if !strings.HasPrefix(text, "{") || !json.Valid([]byte(text)) {
		return "{}"
	}
	return text
}

// Modality is the kind of media as models name them: "image", "pdf", "audio",
// or "" for what no model takes.
func (m Media) Modality() string {
	switch {
	case strings.HasPrefix(m.Mime, "image/"):
		return "image"
	case m.Mime == "application/pdf":
		return "pdf"
	case strings.HasPrefix(m.Mime, "audio/"):
		return "audio"
	}
	return ""
}

// Note stands for media that the model does not take.
func (m Media) Note() string {
	name := m.Filename
	if name == "" {
		name = "file"
	}
	return "[Attached " + m.Mime + ": " + name + "]"
}

// DataURL is the media as a data: URL.
func (m Media) DataURL() string { return "data:" + m.Mime + ";base64," + m.Data }
