// Package scripted is a model provider that answers from a file: a YAML script
// of replies, served over real HTTP on a loopback port in the wire formats of
// real providers. Whoever talks to it uses the same client, stream reader and
// retry as for any other provider; there is no other way in.
//
// docs/scripted.md describes the format. It is strict: a field the format does
// not have is an error that names the line and the nearest field.
package scripted

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Script is what a server answers.
type Script struct {
	// Name is what was loaded: a path or the name of a built-in script.
	Name string `yaml:"-"`
	// Files are what the script wants to find in the work directory.
	Files   []File  `yaml:"files"`
	Replies []Reply `yaml:"replies"`
	// Default answers when no reply fits; nil makes that an error answer.
	Default *Reply `yaml:"default"`
}

// File is a file in the work directory; Path is relative to it.
type File struct {
	Path    string `yaml:"path"`
	Content string `yaml:"content"`
	Mode    uint32 `yaml:"mode"` // 0 means 0644
}

// Reply is one answer. Without Error and Wire it is a stream, or one object
// for a request that wants no stream.
type Reply struct {
	When   *When `yaml:"when"`
	Repeat bool  `yaml:"repeat"` // answers any number of times

	Reasoning string `yaml:"reasoning"`
	Text      string `yaml:"text"`
	Calls     []Call `yaml:"calls"`
	// Finish is the reason the stream ends with; empty is "stop", or
	// "tool_calls" beside calls; "none" sends no reason.
	Finish string `yaml:"finish"`
	Usage  *Usage `yaml:"usage"` // nil sends small made-up figures

	Wait  Duration `yaml:"wait"`  // before the headers
	Delay Duration `yaml:"delay"` // before each chunk
	Chunk int      `yaml:"chunk"` // characters of text a chunk; 0 sends it whole
	// Cut closes the connection after so many chunks, without an end; nil
	// sends the whole answer.
	Cut *int `yaml:"cut"`

	Error *Failure `yaml:"error"`
	Wire  *Wire    `yaml:"wire"`

	line int
}

// When says which requests a reply is for; all members that are set must hold.
type When struct {
	Request int    `yaml:"request"` // its number, from 1
	User    string `yaml:"user"`    // the last user message holds this text
	Tool    string `yaml:"tool"`    // a result after the last user message holds this text
	Model   string `yaml:"model"`
}

// Call is a tool call. Args is a mapping, or a string that is sent as it is.
type Call struct {
	ID   string    `yaml:"id"` // empty: one is made
	Name string    `yaml:"name"`
	Args yaml.Node `yaml:"args"`
}

// Usage is what the answer says it used; the prompt's cached tokens are part
// of Input, as OpenAI counts.
type Usage struct {
	Input     int64  `yaml:"input"`
	Output    int64  `yaml:"output"`
	Cached    int64  `yaml:"cached"`
	Reasoning int64  `yaml:"reasoning"`
	Cost      string `yaml:"cost"` // USD, as OpenRouter reports it
	None      bool   `yaml:"none"` // no usage at all
}

// Failure is an answer of failure. Body replaces the JSON made of the rest.
type Failure struct {
	Status  int               `yaml:"status"`
	Type    string            `yaml:"type"`
	Code    string            `yaml:"code"`
	Message string            `yaml:"message"`
	Headers map[string]string `yaml:"headers"`
	Body    string            `yaml:"body"`
}

// Wire is an answer byte for byte, as a recorder wrote it.
type Wire struct {
	// Request describes the request this answered, to find differences.
	Request *Request    `yaml:"request,omitempty"`
	Status  int         `yaml:"status"`
	Headers []string    `yaml:"headers,omitempty"` // "Name: value"
	Chunks  []WireChunk `yaml:"chunks"`
	Broken  bool        `yaml:"broken,omitempty"` // the connection broke after the last chunk
}

// WireChunk is a piece of a body: text, or base64 where it is no text.
type WireChunk struct {
	Data   string   `yaml:"data,omitempty"`
	Base64 string   `yaml:"base64,omitempty"`
	After  Duration `yaml:"after,omitempty"`
}

// Bytes is the chunk as it goes out.
func (c WireChunk) Bytes() []byte {
	if c.Base64 == "" {
		return []byte(c.Data)
	}
	b, err := base64.StdEncoding.DecodeString(c.Base64)
	if err != nil { // Parse has looked
		return nil
	}
	return b
}

// Duration is a time.Duration written as "50ms".
type Duration time.Duration

// UnmarshalYAML reads "50ms".
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is not a duration such as 50ms or 2s", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

// MarshalYAML writes "50ms".
func (d Duration) MarshalYAML() (any, error) { return time.Duration(d).String(), nil }

// IsZero leaves a zero duration out of what is written.
func (d Duration) IsZero() bool { return d == 0 }

// Load reads a script: a path, or the name of a built-in one (Builtin).
func Load(name string) (*Script, error) {
	if s, ok, err := builtin(name); ok {
		return s, err
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no script %q: neither a file nor one of the built-in scripts (%s)", name, strings.Join(Builtin(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	return Parse(name, data)
}

// Parse reads the text of a script; name is for messages.
func Parse(name string, data []byte) (*Script, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("script %s is empty", name)
		}
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	if len(root.Content) == 0 {
		return nil, fmt.Errorf("script %s is empty", name)
	}
	if err := checkFields(root.Content[0], reflect.TypeFor[Script]()); err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	s := &Script{Name: name}
	if err := root.Decode(s); err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	s.number(root.Content[0])
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	return s, nil
}

// number notes the lines of the replies, for messages.
func (s *Script) number(root *yaml.Node) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value != "replies" {
			continue
		}
		for j, n := range root.Content[i+1].Content {
			if j < len(s.Replies) {
				s.Replies[j].line = n.Line
			}
		}
	}
}
