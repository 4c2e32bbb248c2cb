package session

import (
	"encoding/json"
	"fmt"
)

// Tool is a tool call and, once it ended, its result. CallID is rally's own
// id, unique in the session; the provider's id, if it gave one, is in
// Metadata and used on the wire only.
type Tool struct {
	Header
	CallID   string    `json:"callID"`
	Tool     string    `json:"tool"`
	State    ToolState `json:"state"`
	Metadata Metadata  `json:"metadata,omitempty"`
}

// Keys of Tool.Metadata.
const (
	// MetaProviderExecuted marks a call the provider ran itself.
	MetaProviderExecuted = "providerExecuted"
	// MetaProviderCallID is the id the provider gave the call.
	MetaProviderCallID = "providerCallID"
	// MetaProviderResult is what the provider said of a call it ran itself.
	MetaProviderResult = "providerResult"
	// MetaExtra holds unknown members of the call, sent back as they came.
	MetaExtra = "extra"
)

// Keys of ToolState.Metadata.
const (
	// MetaInterrupted marks a call that an end of the run cut off.
	MetaInterrupted = "interrupted"
	// MetaDenied holds the Denial of a call that the gate refused.
	MetaDenied = "denied"
	// MetaFiles lists FileStamp values of what the call read or wrote.
	MetaFiles = "files"
	// MetaChild is the id of the child session a task call opened.
	MetaChild = "sessionID"
)

// ToolStatus is where a call is: pending → running → completed | error, or
// pending → error. Completed and error are final (invariant 9).
type ToolStatus string

// The states of a tool call.
const (
	ToolPending   ToolStatus = "pending"
	ToolRunning   ToolStatus = "running"
	ToolCompleted ToolStatus = "completed"
	ToolError     ToolStatus = "error"
)

// Terminal reports whether s never changes again.
func (s ToolStatus) Terminal() bool { return s == ToolCompleted || s == ToolError }

// ToolState is the state of a call. Which members count depends on Status.
type ToolState struct {
	Status      ToolStatus
	Input       json.RawMessage // an object; {} while pending
	Raw         string          // pending: the arguments' text so far
	Output      string          // completed
	Error       string          // error: what the model is told
	Title       string
	Metadata    Metadata
	Time        Span
	Attachments []*File // completed
}

// Start moves a pending call to running. Any other state is left alone and
// reported as false.
func (t *Tool) Start(input json.RawMessage, at int64) bool {
	if t.State.Status != ToolPending {
		return false
	}
	t.State = ToolState{Status: ToolRunning, Input: input, Metadata: t.State.Metadata, Time: Span{Start: at}}
	return true
}

// Complete ends a running call with result, of which Output, Title, Metadata
// and Attachments count. A call in another state is left alone and reported
// as false: late and duplicate results are ignored.
func (t *Tool) Complete(result ToolState, at int64) bool {
	if t.State.Status != ToolRunning {
		return false
	}
	t.State = ToolState{
		Status: ToolCompleted, Input: t.State.Input, Output: result.Output, Title: result.Title,
		Metadata: mergeMetadata(t.State.Metadata, result.Metadata), Attachments: result.Attachments,
		Time: Span{Start: t.State.Time.Start, End: at},
	}
	return true
}

// Fail ends a pending or running call with an error the model will read. A
// call that has ended is left alone and reported as false.
func (t *Tool) Fail(message string, metadata Metadata, at int64) bool {
	if t.State.Status.Terminal() {
		return false
	}
	start := t.State.Time.Start
	if start == 0 {
		start = at
	}
	t.State = ToolState{
		Status: ToolError, Input: t.State.Input, Error: message, Title: t.State.Title,
		Metadata: mergeMetadata(t.State.Metadata, metadata), Time: Span{Start: start, End: at},
	}
	return true
}

// AbortedToolText is the error of a call that the end of a run cut off.
const AbortedToolText = "Tool execution aborted"

// Interrupt ends an open call as cut off by the end of a run.
func (t *Tool) Interrupt(at int64) bool {
	return t.Fail(AbortedToolText, Metadata{MetaInterrupted: json.RawMessage("true")}, at)
}

func mergeMetadata(old, more Metadata) Metadata {
	if len(old) == 0 {
		return more
	}
	out := make(Metadata, len(old)+len(more))
	for k, v := range old {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// toolStateJSON is the union of the four shapes; pointers mark members that a
// state must show even when they are empty.
type toolStateJSON struct {
	Status      ToolStatus      `json:"status"`
	Input       json.RawMessage `json:"input"`
	Raw         *string         `json:"raw,omitempty"`
	Output      *string         `json:"output,omitempty"`
	Error       *string         `json:"error,omitempty"`
	Title       *string         `json:"title,omitempty"`
	Metadata    *Metadata       `json:"metadata,omitempty"`
	Time        *Span           `json:"time,omitempty"`
	Attachments []*File         `json:"attachments,omitempty"`
}

// MarshalJSON writes the members that the state's status has.
func (s ToolState) MarshalJSON() ([]byte, error) {
	out := toolStateJSON{Status: s.Status, Input: s.Input}
	if len(out.Input) == 0 {
		out.Input = json.RawMessage("{}")
	}
	if len(s.Metadata) > 0 {
		out.Metadata = &s.Metadata
	}
	switch s.Status {
	case ToolPending:
		out.Raw = &s.Raw
	case ToolRunning:
		out.Time = &s.Time
		if s.Title != "" {
			out.Title = &s.Title
		}
	case ToolCompleted:
		if s.Metadata == nil {
			out.Metadata = &Metadata{}
		}
		out.Output, out.Title, out.Time, out.Attachments = &s.Output, &s.Title, &s.Time, s.Attachments
	case ToolError:
		out.Error, out.Time = &s.Error, &s.Time
	default:
		return nil, fmt.Errorf("tool state has unknown status %q", s.Status)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads any of the four shapes.
func (s *ToolState) UnmarshalJSON(b []byte) error {
	var in toolStateJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	switch in.Status {
	case ToolPending, ToolRunning, ToolCompleted, ToolError:
	default:
		return fmt.Errorf("tool state has unknown status %q", in.Status)
	}
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	*s = ToolState{
		Status: in.Status, Input: in.Input, Raw: text(in.Raw), Output: text(in.Output), Error: text(in.Error),
		Title: text(in.Title), Attachments: in.Attachments,
	}
	if in.Metadata != nil && len(*in.Metadata) > 0 {
		s.Metadata = *in.Metadata
	}
	if in.Time != nil {
		s.Time = *in.Time
	}
	return nil
}

// FileStamp says in which state a call left or found a file, so that a later
// write can tell whether someone else changed it since.
type FileStamp struct {
	Path string `json:"path"` // absolute, links resolved
	// Hash is the SHA-256 of the whole file in hex; empty when only part of a
	// large file was read.
	Hash  string `json:"hash,omitempty"`
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime"` // nanoseconds since the epoch
}
