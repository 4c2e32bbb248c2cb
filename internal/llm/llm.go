// Package llm is how rally talks to model providers: what a request holds,
// what a stream of events says, how errors are told apart and when a request
// is made again.
//
// A Provider turns one Request into one stream of Events. The adapters below
// this package (openai, anthropic) share these nouns and nothing else. None of
// them retries: there is one retry layer, Policy, and the loop drives it.
//
// Keys and headers never appear in an Error, an Event or a log line.
package llm

import (
	"context"
	"encoding/json"
	"iter"

	"rally/internal/session"
)

// Provider is one way to reach models.
type Provider interface {
	// Stream sends req and yields its events in order. The sequence ends
	// after a Finish event, or with one non-nil error (an *Error, or ctx's)
	// as its last element; a stream that just stops is an error. It may be
	// ranged over once. Breaking off closes the connection. Stream does not
	// retain req.
	Stream(ctx context.Context, req *Request) iter.Seq2[Event, error]
}

// Request is one model call.
type Request struct {
	Model    Model
	System   string // empty for none
	Messages []Message
	Tools    []Tool // sorted by name
	// ToolChoice is "" or "auto", "none" or "required".
	ToolChoice  string
	MaxOutput   int64 // tokens; 0 lets the provider decide
	Temperature *float64
	TopP        *float64
	// Options are the variant's, added to the request body as they are.
	Options session.Metadata
	// CacheKey is stable for a session; providers that can route by it do.
	CacheKey string
}

// Tool is a tool as it is offered to a model. Schema is a JSON Schema object.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Message is one entry of a request. After an assistant message with calls
// the tool message with their results follows directly.
type Message struct {
	Role    Role
	Content []Content
}

// Role is who a request's message is by.
type Role string

// The roles of a request. The system prompt is a field of Request.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Content is one piece of a request's message.
//
//sumtype:decl
type Content interface{ isContent() }

// Text is plain text, never empty.
type Text struct{ Text string }

// Media is an image or PDF; Data is base64.
type Media struct {
	Mime     string
	Filename string
	Data     string
}

// Thought is reasoning that goes back to the provider and model that made it.
type Thought struct {
	Text     string
	Metadata session.Metadata // as ReasoningDelta gave it
}

// Call is a tool call by the model. Args is the text of a JSON object.
type Call struct {
	ID    string
	Name  string
	Args  json.RawMessage
	Extra session.Metadata // unknown members, sent back as they came
	// Executed marks a call the provider ran itself; Result is what it said.
	Executed bool
	Result   json.RawMessage
}

// Result is what a tool said to the call with this ID.
type Result struct {
	CallID string
	Name   string
	Text   string // never empty
	Failed bool
	Media  []Media
}

func (Text) isContent()    {}
func (Media) isContent()   {}
func (Thought) isContent() {}
func (Call) isContent()    {}
func (Result) isContent()  {}

// Event is one thing a stream says.
//
//sumtype:decl
type Event interface{ isEvent() }

// Connected says the provider has answered with headers of success.
type Connected struct{}

// TextDelta adds to the answer.
type TextDelta struct{ Text string }

// ReasoningDelta adds to the model's thinking. Block tells blocks apart where
// the provider numbers them; Metadata, where it is not nil, replaces what
// earlier deltas of the block gave (the field it came in, a signature). A
// delta may bring Metadata alone.
type ReasoningDelta struct {
	Block    int
	Text     string
	Metadata session.Metadata
}

// CallDelta is a fragment of a tool call, as it came; Calls puts them
// together. What the provider said to a call it ran itself comes as a fragment
// with Result.
type CallDelta struct {
	Index *int   // nil when the provider gave none
	ID    string // may be empty
	Name  string // may be empty
	Args  string // a piece of the arguments' text
	Extra session.Metadata
	// Executed and Result are set for a call the provider runs itself.
	Executed bool
	Result   json.RawMessage
}

// Usage is what the call used; the last one of a stream counts. Cost is the
// provider's own figure, nil when it gave none.
type Usage struct {
	Tokens session.Tokens
	Cost   *session.Money
}

// Finish ends the stream's content. Raw is the provider's word for it, empty
// when it gave none. Continue says the provider paused and wants the same
// request again with what it said so far (Anthropic's pause_turn).
type Finish struct {
	Reason   session.Finish
	Raw      string
	Continue bool
}

func (Connected) isEvent()      {}
func (TextDelta) isEvent()      {}
func (ReasoningDelta) isEvent() {}
func (CallDelta) isEvent()      {}
func (Usage) isEvent()          {}
func (Finish) isEvent()         {}
