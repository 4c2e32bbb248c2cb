package session

import (
	"encoding/json"
	"slices"
)

// Role says who a message is by.
type Role string

// The two roles of stored messages.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Finish is why a model call ended, as the provider said and we understood.
// It is a statement of the provider, never proof of anything.
type Finish string

// The finish reasons; a stored message holds one of them, or none while it
// is open.
const (
	FinishStop          Finish = "stop"
	FinishLength        Finish = "length"
	FinishToolCalls     Finish = "tool-calls"
	FinishContentFilter Finish = "content-filter"
	FinishError         Finish = "error"
	FinishUnknown       Finish = "unknown"
)

// Message is one entry of a session by one role, with its parts.
//
// Order is (Place, Seq): the place of the user message in the queue, then the
// store's own counter; never a time and never an id. An assistant message has
// the Place of the user message it answers.
type Message struct {
	ID        string
	SessionID string
	Role      Role
	ParentID  string // assistant: the user message it answers
	TurnID    string // empty for messages no turn serves (--no-reply, shell)
	Place     int64  // set by the store
	Seq       int64  // set by the store
	Created   int64
	Completed int64 // assistant: 0 while open
	Agent     string
	Model     Model

	// What only a user message has.
	System       string   // in place of the base prompt
	AppendSystem string   // after it
	Format       *Format  // what the final answer must look like; nil for text
	Tools        []string // tools switched off for this message
	Diffs        []FileDiff

	// What only an assistant message has.
	Path       Path
	Finish     Finish
	Error      *Error
	Tokens     Tokens
	Cost       *Money // nil where a price is unknown
	Summary    bool   // a compaction's summary
	Structured json.RawMessage

	Parts []Part // in order of position
}

// Path is where an assistant message's tools ran.
type Path struct {
	Cwd  string `json:"cwd"`
	Root string `json:"root"`
}

// Format is the shape wanted of the final answer.
type Format struct {
	Type   string          `json:"type"` // "json_schema"
	Schema json.RawMessage `json:"schema,omitempty"`
}

// FileDiff is the statistics of one changed file.
type FileDiff struct {
	File      string `json:"file"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Status    string `json:"status,omitempty"`
	Patch     string `json:"patch,omitempty"`
}

// Text joins the visible text of the message: its text parts that are neither
// synthetic nor ignored.
func (m *Message) Text() string {
	var out string
	for _, p := range m.Parts {
		if t, ok := p.(*Text); ok && !t.Synthetic && !t.Ignored {
			out += t.Text
		}
	}
	return out
}

// ToolCalls lists the tool parts in order.
func (m *Message) ToolCalls() []*Tool {
	var out []*Tool
	for _, p := range m.Parts {
		if t, ok := p.(*Tool); ok {
			out = append(out, t)
		}
	}
	return out
}

// messageTime is the "time" member of a message.
type messageTime struct {
	Created   int64 `json:"created"`
	Completed int64 `json:"completed,omitempty"`
}

// messageHead holds the members both roles have.
type messageHead struct {
	ID        string      `json:"id"`
	SessionID string      `json:"sessionID"`
	Role      Role        `json:"role"`
	TurnID    string      `json:"turnID,omitempty"`
	Time      messageTime `json:"time"`
	Agent     string      `json:"agent"`
}

type userInfo struct {
	messageHead
	Model        *Model       `json:"model"`
	System       string       `json:"system,omitempty"`
	AppendSystem string       `json:"appendSystem,omitempty"`
	Format       *Format      `json:"format,omitempty"`
	Tools        toolSwitches `json:"tools,omitempty"`
	Summary      *userSummary `json:"summary,omitempty"`
}

type userSummary struct {
	Diffs []FileDiff `json:"diffs"`
}

// toolSwitches is OpenCode's map of tool names to false.
type toolSwitches map[string]bool

type assistantInfo struct {
	messageHead
	ParentID   string          `json:"parentID"`
	Mode       string          `json:"mode"` // OpenCode's older name for agent
	ModelID    string          `json:"modelID"`
	ProviderID string          `json:"providerID"`
	Variant    string          `json:"variant,omitempty"`
	Path       Path            `json:"path"`
	Cost       *Money          `json:"cost"`
	Tokens     Tokens          `json:"tokens"`
	Finish     Finish          `json:"finish,omitempty"`
	Error      *Error          `json:"error,omitempty"`
	Summary    bool            `json:"summary,omitempty"`
	Structured json.RawMessage `json:"structured,omitempty"`
}

// MarshalJSON writes the message without its parts, as `info` of an export.
func (m *Message) MarshalJSON() ([]byte, error) {
	head := messageHead{
		ID: m.ID, SessionID: m.SessionID, Role: m.Role, TurnID: m.TurnID, Agent: m.Agent,
		Time: messageTime{Created: m.Created, Completed: m.Completed},
	}
	if m.Role == User {
		info := userInfo{messageHead: head, Model: &m.Model, System: m.System, AppendSystem: m.AppendSystem, Format: m.Format}
		for _, name := range m.Tools {
			if info.Tools == nil {
				info.Tools = toolSwitches{}
			}
			info.Tools[name] = false
		}
		if m.Diffs != nil {
			info.Summary = &userSummary{Diffs: m.Diffs}
		}
		return json.Marshal(info)
	}
	return json.Marshal(assistantInfo{
		messageHead: head, ParentID: m.ParentID, Mode: m.Agent, ModelID: m.Model.ID, ProviderID: m.Model.Provider,
		Variant: m.Model.Variant, Path: m.Path, Cost: m.Cost, Tokens: m.Tokens, Finish: m.Finish, Error: m.Error,
		Summary: m.Summary, Structured: m.Structured,
	})
}

// UnmarshalJSON reads what MarshalJSON or OpenCode's export wrote; Place, Seq
// and Parts are left as they are.
func (m *Message) UnmarshalJSON(b []byte) error {
	var head messageHead
	if err := json.Unmarshal(b, &head); err != nil {
		return err
	}
	m.ID, m.SessionID, m.Role, m.TurnID, m.Agent = head.ID, head.SessionID, head.Role, head.TurnID, head.Agent
	m.Created, m.Completed = head.Time.Created, head.Time.Completed
	if head.Role == User {
		return m.unmarshalUser(b)
	}
	var info assistantInfo
	if err := json.Unmarshal(b, &info); err != nil {
		return err
	}
	m.ParentID, m.Path, m.Cost, m.Tokens = info.ParentID, info.Path, info.Cost, info.Tokens
	m.Model = Model{Provider: info.ProviderID, ID: info.ModelID, Variant: info.Variant}
	m.Finish, m.Error, m.Summary, m.Structured = info.Finish, info.Error, info.Summary, info.Structured
	return nil
}

func (m *Message) unmarshalUser(b []byte) error {
	var info userInfo
	if err := json.Unmarshal(b, &info); err != nil {
		return err
	}
	if info.Model != nil {
		m.Model = *info.Model
	}
	m.System, m.AppendSystem, m.Format = info.System, info.AppendSystem, info.Format
	for name, on := range info.Tools {
		if !on {
			m.Tools = append(m.Tools, name)
		}
	}
	slices.Sort(m.Tools) // an object has no order, equal messages must be equal
	if info.Summary != nil {
		m.Diffs = info.Summary.Diffs
	}
	return nil
}
