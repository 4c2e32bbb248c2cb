package main

import (
	"encoding/json"
	"io"
	"time"

	"rally/internal/session"
)

// eventsVersion counts up only when a field changes its meaning.
const eventsVersion = 1

// jsonRenderer writes one JSON object a line; docs/output.md and
// schema_events.json describe them, and tests hold all three together.
type jsonRenderer struct {
	outputOptions
	out    io.Writer
	stderr io.Writer
	now    func() time.Time

	seq       int64
	sessionID string // of the session that the result is about
	failed    bool   // an error line was written
}

// lineHead begins every line. SessionID is nil before a session exists.
type lineHead struct {
	Type      string  `json:"type"`
	Timestamp int64   `json:"timestamp"`
	SessionID *string `json:"sessionID"`
	ParentID  string  `json:"parentID,omitempty"`
	Seq       int64   `json:"seq"`
}

type sessionLine struct {
	lineHead
	Version   int    `json:"version"`
	Rally     string `json:"rally"`
	Directory string `json:"directory"`
	Agent     string `json:"agent"`
	Model     string `json:"model"`
	Title     string `json:"title"`
	Created   bool   `json:"created"`
}

type turnOpenLine struct {
	lineHead
	TurnID    string `json:"turnID"`
	MessageID string `json:"messageID"`
}

type partLine struct {
	lineHead
	Part json.RawMessage `json:"part"`
}

type deltaLine struct {
	lineHead
	PartID string             `json:"partID"`
	Field  session.DeltaField `json:"field"`
	Delta  string             `json:"delta"`
}

type discardLine struct {
	lineHead
	MessageID string   `json:"messageID"`
	PartIDs   []string `json:"partIDs"`
}

type permissionLine struct {
	lineHead
	CallID     string            `json:"callID"`
	Tool       string            `json:"tool"`
	Permission string            `json:"permission"`
	Patterns   []string          `json:"patterns"`
	Action     session.Action    `json:"action"`
	Rule       string            `json:"rule"`
	By         session.DecidedBy `json:"by"`
}

type statusLine struct {
	lineHead
	Status session.Status `json:"status"`
}

type compactionLine struct {
	lineHead
	Auto     bool  `json:"auto"`
	Overflow bool  `json:"overflow"`
	Before   int64 `json:"before"`
	After    int64 `json:"after"`
}

type errorLine struct {
	lineHead
	Error *session.Error `json:"error"`
}

type turnCloseLine struct {
	lineHead
	TurnID string `json:"turnID"`
	Reason string `json:"reason"`
}

// resultLine has the head's members itself: they stand before those of the
// same name in session.Result.
type resultLine struct {
	Type      string  `json:"type"`
	Timestamp int64   `json:"timestamp"`
	SessionID *string `json:"sessionID"`
	Seq       int64   `json:"seq"`
	MessageID *string `json:"messageID"`
	session.Result
}

func (r *jsonRenderer) event(e session.Event) {
	if e.ParentID != "" && r.noChildren {
		return
	}
	h := lineHead{SessionID: nullable(e.SessionID), ParentID: e.ParentID}
	switch b := e.Body.(type) {
	case session.Opened:
		r.opened(h, b)
	case session.TurnBegan:
		r.write("turn_open", &turnOpenLine{h, b.TurnID, b.MessageID})
	case session.PartStarted:
		r.part(h, b.Part, true)
	case session.PartEnded:
		r.part(h, b.Part, false)
	case session.Delta:
		if r.stream && (b.Field != session.DeltaReasoning || r.thinking) {
			r.write("delta", &deltaLine{h, b.PartID, b.Field, b.Text})
		}
	case session.Discard:
		r.write("discard", &discardLine{h, b.MessageID, orEmpty(b.PartIDs)})
	case session.Permission:
		r.write("permission", &permissionLine{h, b.CallID, b.Tool, b.Permission, orEmpty(b.Patterns), b.Action, b.Rule, b.By})
	case session.StatusChanged:
		r.write("status", &statusLine{h, b.Status})
	case session.Compacted:
		r.write("compaction", &compactionLine{h, b.Auto, b.Overflow, b.Before, b.After})
	case session.Failed:
		r.write("error", &errorLine{h, b.Error})
		if e.ParentID == "" {
			r.failed = true
			sayFailure(r.stderr, b.Error.Data.Message, b.Error.Data.Hint)
		}
	case session.TurnEnded:
		r.write("turn_close", &turnCloseLine{h, b.TurnID, b.Reason.Coarse()})
	case session.Notice:
		if !r.quiet {
			sayNotice(r.stderr, b.Text)
		}
	}
}

func (r *jsonRenderer) opened(h lineHead, o session.Opened) {
	if h.ParentID == "" {
		r.sessionID = o.Session.ID
	}
	h.ParentID = o.Session.ParentID
	r.write("session", &sessionLine{
		lineHead: h, Version: eventsVersion, Rally: version, Directory: o.Session.Directory, Agent: o.Session.Agent,
		Model: o.Session.Model.String(), Title: o.Session.Title, Created: o.Created,
	})
}

// part writes a part under the name its line has; parts that have none are
// read in the export.
func (r *jsonRenderer) part(h lineHead, p session.Part, started bool) {
	var name string
	switch p.(type) {
	case *session.StepStart:
		name = "step_start"
	case *session.StepFinish:
		name = "step_finish"
	case *session.Text:
		name = "text"
	case *session.Reasoning:
		if !r.thinking {
			return
		}
		name = "reasoning"
	case *session.Tool:
		name = "tool_use"
		if started {
			name = "tool_start"
		}
	case *session.File, *session.Snapshot, *session.Patch, *session.AgentRef, *session.Subtask, *session.Retry, *session.Compaction:
		return
	}
	raw, err := session.EncodePart(p)
	if err != nil {
		r.write("error", &errorLine{h, session.NewError(session.UnknownError, err.Error())})
		return
	}
	r.write(name, &partLine{h, raw})
}

func (r *jsonRenderer) end(res session.Result) {
	id := nullable(res.SessionID)
	if id == nil {
		id = nullable(r.sessionID)
	}
	if res.Error != nil && !r.failed {
		r.write("error", &errorLine{lineHead{SessionID: id}, res.Error})
		sayFailure(r.stderr, res.Error.Data.Message, res.Error.Data.Hint)
	}
	res.Denials, res.Files, res.Children = orEmpty(res.Denials), orEmpty(res.Files), orEmpty(res.Children)
	h := r.next("result", lineHead{SessionID: id})
	r.print(h, &resultLine{h.Type, h.Timestamp, h.SessionID, h.Seq, nullable(res.MessageID), res})
}

// next completes the head of the next line.
func (r *jsonRenderer) next(name string, h lineHead) lineHead {
	r.seq++
	h.Type, h.Seq, h.Timestamp = name, r.seq, r.now().UnixMilli()
	return h
}

// write completes a line and sends it.
func (r *jsonRenderer) write(name string, line interface{ head() *lineHead }) {
	h := line.head()
	*h = r.next(name, *h)
	r.print(*h, line)
}

func (h *lineHead) head() *lineHead { return h }

// print sends a line. A failed write is the outbox's business.
func (r *jsonRenderer) print(h lineHead, line any) {
	raw, err := encode(line)
	if err != nil { // a marshaller of ours failed: the count must not have a gap
		h.Type = "error"
		raw, _ = encode(&errorLine{h, session.NewError(session.UnknownError, err.Error())})
	}
	_, _ = r.out.Write(raw)
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// orEmpty makes a missing list an empty one: scripts may count on [].
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
