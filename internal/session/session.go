package session

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Session is a stored conversation with its work directory, model and rules.
type Session struct {
	ID       string
	ParentID string // empty for a root session
	Title    string
	// Directory is a real path: absolute, links resolved.
	Directory string
	Agent     string
	Model     Model
	// Rules are the session's own permission rules (flags), in order; the
	// last match wins.
	Rules   []Rule
	Revert  *Revert // nil when nothing is taken back
	Todos   []Todo
	Version string // of the rally that created it
	Created int64  // milliseconds since the epoch, as all times here
	Updated int64
}

// Model names a model of a provider, with the variant to use it in.
type Model struct {
	Provider string `json:"providerID"`
	ID       string `json:"modelID"`
	Variant  string `json:"variant,omitempty"`
}

// ParseModel splits "provider/model" at the first slash; the model's own name
// may contain more of them.
func ParseModel(s string) (Model, error) {
	provider, id, ok := strings.Cut(s, "/")
	if !ok || provider == "" || id == "" {
		return Model{}, fmt.Errorf("model %q is not of the form provider/model", s)
	}
	return Model{Provider: provider, ID: id}, nil
}

// String is "provider/model", without the variant; empty for the zero Model.
func (m Model) String() string {
	if m == (Model{}) {
		return ""
	}
	return m.Provider + "/" + m.ID
}

// Action is what a permission rule says of a call that matches it.
type Action string

// The three actions.
const (
	Allow Action = "allow"
	Ask   Action = "ask"
	Deny  Action = "deny"
)

// Rule is one permission rule. Both Permission and Pattern may hold the
// wildcards * and ?.
type Rule struct {
	Permission string `json:"permission"`
	Pattern    string `json:"pattern"`
	Action     Action `json:"action"`
}

// String is the form rules have in flags and YAML: "bash:git *".
func (r Rule) String() string { return r.Permission + ":" + r.Pattern }

// Revert says which messages of a session are hidden and which snapshot
// brings the files back.
type Revert struct {
	MessageID string `json:"messageID"`
	PartID    string `json:"partID,omitempty"`
	Snapshot  string `json:"snapshot,omitempty"`
	Diff      string `json:"diff,omitempty"`
}

// Todo is one entry of the list the model keeps with todowrite. Status and
// Priority are the model's own words.
type Todo struct {
	Content  string `json:"content"`
	Status   string `json:"status"`
	Priority string `json:"priority"`
}

// Status tells other processes what a session is doing now.
type Status struct {
	Type    StatusType `json:"type"`
	Attempt int        `json:"attempt,omitempty"`
	Message string     `json:"message,omitempty"`
	Next    int64      `json:"next,omitempty"` // when a retry will be made, in milliseconds since the epoch
}

// StatusType is the kind of a Status.
type StatusType string

// The kinds of Status. Idle is the zero meaning of a session nobody serves.
const (
	StatusIdle       StatusType = "idle"
	StatusBusy       StatusType = "busy"
	StatusRetry      StatusType = "retry"
	StatusOffline    StatusType = "offline"
	StatusCompacting StatusType = "compacting"
)

// Metadata is a JSON object whose members are kept as they came.
type Metadata map[string]json.RawMessage

// Set stores v under key; v must be encodable, a nil map is not allowed.
func (m Metadata) Set(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil { // only channels, functions and the like get here
		b, _ = json.Marshal(err.Error())
	}
	m[key] = b
}

// Bool reports whether key holds true.
func (m Metadata) Bool(key string) bool { return string(m[key]) == "true" }

// Text is the string under key, or "" when there is none.
func (m Metadata) Text(key string) string {
	var s string
	if json.Unmarshal(m[key], &s) != nil {
		return ""
	}
	return s
}
