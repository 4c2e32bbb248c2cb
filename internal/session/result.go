package session

import "encoding/json"

// Result is what became of a turn: the last JSON line. It is derived from
// stored rows, so the owner of a turn and those who wait for it agree.
type Result struct {
	SessionID  string          `json:"sessionID"`
	MessageID  string          `json:"messageID"` // the last assistant message
	Reason     Reason          `json:"reason"`
	ExitCode   int             `json:"exit_code"`
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured"` // null unless a schema was given
	Finish     Finish          `json:"finish"`
	Steps      int             `json:"steps"`      // of this session
	ToolCalls  int             `json:"tool_calls"` // of this session
	Denials    []Denial        `json:"denials"`
	Tokens     Tokens          `json:"tokens"`
	// Cost is nil, never 0, where a price is unknown. CostComplete is false
	// when one request brought no usage.
	Cost         *Money   `json:"cost"`
	CostComplete bool     `json:"cost_complete"`
	DurationMS   int64    `json:"duration_ms"`
	Model        string   `json:"model"` // of the last assistant message: provider/model
	Files        []string `json:"files"` // changed; absolute, sorted
	Error        *Error   `json:"error"`
	Children     []string `json:"children"` // ids of child sessions
}
