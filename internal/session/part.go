package session

import (
	"encoding/json"
	"fmt"
)

// Part is one piece of a message. The implementations in this package are all
// there are; switches over them are checked to be complete.
//
//sumtype:decl
type Part interface {
	// Head is the part's identity; the pointer lets the store set it.
	Head() *Header
	// Kind is the value of the JSON member "type".
	Kind() PartType
	isPart()
}

// Header is what every part has.
type Header struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionID"`
	MessageID string `json:"messageID"`
	// Rev is the store's counter at the part's last write; a waiter asks for
	// parts with a higher one. Not exported.
	Rev int64 `json:"-"`
}

// Head returns h itself; embedding Header gives every part the method.
func (h *Header) Head() *Header { return h }

func (*Header) isPart() {}

// PartType is the JSON member "type" of a part.
type PartType string

// The twelve part types.
const (
	TypeText       PartType = "text"
	TypeReasoning  PartType = "reasoning"
	TypeFile       PartType = "file"
	TypeTool       PartType = "tool"
	TypeStepStart  PartType = "step-start"
	TypeStepFinish PartType = "step-finish"
	TypeSnapshot   PartType = "snapshot"
	TypePatch      PartType = "patch"
	TypeAgent      PartType = "agent"
	TypeSubtask    PartType = "subtask"
	TypeRetry      PartType = "retry"
	TypeCompaction PartType = "compaction"
)

// Span is when something began and ended; End is 0 while it goes on.
type Span struct {
	Start int64 `json:"start"`
	End   int64 `json:"end,omitempty"`
	// Compacted is when the output was left out of what the model sees.
	Compacted int64 `json:"compacted,omitempty"`
}

// Text is text by the user or the model. Synthetic text was written by rally
// for the model; ignored text never reaches a provider.
type Text struct {
	Header
	Text      string   `json:"text"`
	Synthetic bool     `json:"synthetic,omitempty"`
	Ignored   bool     `json:"ignored,omitempty"`
	Time      *Span    `json:"time,omitempty"`
	Metadata  Metadata `json:"metadata,omitempty"`
}

// Reasoning is the model's thinking. Metadata keeps what the provider wants
// back with it: the field it came in, a signature.
type Reasoning struct {
	Header
	Text     string   `json:"text"`
	Metadata Metadata `json:"metadata,omitempty"`
	Time     *Span    `json:"time,omitempty"`
}

// File is an attachment; URL is a data: or file: URL.
type File struct {
	Header
	Mime     string          `json:"mime"`
	Filename string          `json:"filename,omitempty"`
	URL      string          `json:"url"`
	Source   json.RawMessage `json:"source,omitempty"`
}

// StepStart begins a step; Snapshot is the tree before its first change.
type StepStart struct {
	Header
	Snapshot string `json:"snapshot,omitempty"`
}

// StepFinish ends a step with what it used. Cost is nil where a price is
// unknown; UsageMissing says the provider gave no usage.
type StepFinish struct {
	Header
	Reason       Finish `json:"reason"`
	Snapshot     string `json:"snapshot,omitempty"`
	Cost         *Money `json:"cost"`
	Tokens       Tokens `json:"tokens"`
	UsageMissing bool   `json:"usageMissing,omitempty"`
}

// Snapshot names a tree (an older form of StepStart.Snapshot).
type Snapshot struct {
	Header
	Snapshot string `json:"snapshot"`
}

// Patch lists the files a step changed since tree Hash; paths are absolute.
type Patch struct {
	Header
	Hash  string   `json:"hash"`
	Files []string `json:"files"`
}

// AgentRef is an @agent the user named.
type AgentRef struct {
	Header
	Name   string          `json:"name"`
	Source json.RawMessage `json:"source,omitempty"`
}

// Subtask asks for a child session before the model is called.
type Subtask struct {
	Header
	Prompt      string `json:"prompt"`
	Description string `json:"description"`
	Agent       string `json:"agent"`
	Model       *Model `json:"model,omitempty"`
	Command     string `json:"command,omitempty"`
}

// Retry is left by a failed attempt: exported, never sent.
type Retry struct {
	Header
	Attempt int       `json:"attempt"`
	Error   *Error    `json:"error"`
	Time    RetryTime `json:"time"`
	// Tokens and Cost are what the attempt used all the same; nil when it
	// brought no usage.
	Tokens *Tokens `json:"tokens,omitempty"`
	Cost   *Money  `json:"cost,omitempty"`
}

// RetryTime is when an attempt failed.
type RetryTime struct {
	Created int64 `json:"created"`
}

// Compaction marks where history was or shall be summarised.
type Compaction struct {
	Header
	Auto        bool   `json:"auto"`
	Overflow    bool   `json:"overflow,omitempty"`
	TailStartID string `json:"tail_start_id,omitempty"`
}

// Kind implements Part.
func (*Text) Kind() PartType { return TypeText }

// Kind implements Part.
func (*Reasoning) Kind() PartType { return TypeReasoning }

// Kind implements Part.
func (*File) Kind() PartType { return TypeFile }

// Kind implements Part.
func (*Tool) Kind() PartType { return TypeTool }

// Kind implements Part.
func (*StepStart) Kind() PartType { return TypeStepStart }

// Kind implements Part.
func (*StepFinish) Kind() PartType { return TypeStepFinish }

// Kind implements Part.
func (*Snapshot) Kind() PartType { return TypeSnapshot }

// Kind implements Part.
func (*Patch) Kind() PartType { return TypePatch }

// Kind implements Part.
func (*AgentRef) Kind() PartType { return TypeAgent }

// Kind implements Part.
func (*Subtask) Kind() PartType { return TypeSubtask }

// Kind implements Part.
func (*Retry) Kind() PartType { return TypeRetry }

// Kind implements Part.
func (*Compaction) Kind() PartType { return TypeCompaction }

// EncodePart is the part's JSON with its "type" member first.
func EncodePart(p Part) ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode %s part: %w", p.Kind(), err)
	}
	out := make([]byte, 0, len(b)+24)
	out = append(out, `{"type":"`...)
	out = append(out, p.Kind()...)
	out = append(out, '"', ',')
	return append(out, b[1:]...), nil
}

// DecodePart reads what EncodePart or OpenCode's export wrote.
func DecodePart(b []byte) (Part, error) {
	var t struct {
		Type PartType `json:"type"`
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("decode part: %w", err)
	}
	p := newPart(t.Type)
	if p == nil {
		return nil, fmt.Errorf("decode part: unknown type %q", t.Type)
	}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("decode %s part: %w", t.Type, err)
	}
	return p, nil
}

func newPart(t PartType) Part {
	switch t {
	case TypeText:
		return new(Text)
	case TypeReasoning:
		return new(Reasoning)
	case TypeFile:
		return new(File)
	case TypeTool:
		return new(Tool)
	case TypeStepStart:
		return new(StepStart)
	case TypeStepFinish:
		return new(StepFinish)
	case TypeSnapshot:
		return new(Snapshot)
	case TypePatch:
		return new(Patch)
	case TypeAgent:
		return new(AgentRef)
	case TypeSubtask:
		return new(Subtask)
	case TypeRetry:
		return new(Retry)
	case TypeCompaction:
		return new(Compaction)
	}
	return nil
}

// IsOpen reports whether p is still being written: text or reasoning without
// an end, or a tool call without a result.
func IsOpen(p Part) bool {
	switch p := p.(type) {
	case *Text:
		return p.Time != nil && p.Time.End == 0
	case *Reasoning:
		return p.Time != nil && p.Time.End == 0
	case *Tool:
		return !p.State.Status.Terminal()
	case *File, *StepStart, *StepFinish, *Snapshot, *Patch, *AgentRef, *Subtask, *Retry, *Compaction:
		return false
	}
	return false
}
