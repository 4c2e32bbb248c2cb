// Package tools holds what a model may call. Each tool is one .go file and one
// .md file, its description for the model.
//
// A tool says with Access what a call would touch; one gate in the loop's
// executor decides before any tool code runs, so no tool asks for permission
// itself. Names, parameters and output shapes are OpenCode's, because models
// are trained on them.
package tools

import (
	"context"
	"encoding/json"

	"rally/internal/session"
)

// Tool is something a model can call. Implementations are stateless: what a
// session needs is in Env.
type Tool interface {
	Name() string
	Description() string
	// Schema is a JSON Schema object without unknown properties; arguments
	// are validated against it before Access and Run see them.
	Schema() json.RawMessage
	// Access says what the call would touch. It touches nothing itself beyond
	// looking up links and file kinds. An error is told to the model.
	Access(env *Env, args json.RawMessage) ([]Access, error)
	// Run does it. An error is told to the model, so its text says what to do
	// next. Run returns within 100 ms of ctx's end (bash: after its grace).
	Run(ctx context.Context, env *Env, args json.RawMessage) (Result, error)
}

// Access is one thing a call would touch. Either Patterns or Script is set.
type Access struct {
	Permission string
	Patterns   []string
	// Script is a shell script: the gate reads the commands and paths in it.
	// Dir is where it would run, absolute.
	Script string
	Dir    string
	// Changes says the call may change files, so a snapshot comes first.
	Changes bool
	// Paths are files written to; calls of one step that share a path run
	// one after another. Absolute, links resolved.
	Paths []string
}

// Result is what a call gives back.
type Result struct {
	Output      string
	Title       string
	Metadata    session.Metadata // nil for none
	Attachments []*session.File
	// Bounded says the tool kept its own bounds; else the executor cuts.
	Bounded bool
}

// Env is what a call may use. One Env serves all calls of a turn; CallID and
// Progress are set per call on a copy.
type Env struct {
	SessionID string
	CallID    string
	// Directory is the session's work directory; Root the repository's top,
	// or Directory outside one. Both real paths.
	Directory string
	Root      string
	// Outputs is the folder for outputs that were cut; created when needed.
	Outputs string
	// Shell is the program that runs commands; Environ its environment,
	// without provider keys and secrets.
	Shell   string
	Environ []string
	Limits  Limits
	Files   *Files // what the session has read
	Todos   *Todos
	Jobs    *Jobs // background commands of the turn
	// Progress replaces the tail of output shown while a call runs; nil when
	// nobody looks.
	Progress func(tail string)
	// Now is the clock, in milliseconds since the epoch.
	Now func() int64
}

// Limits bound what a call may put into the conversation.
type Limits struct {
	MaxLines int // 0 means 2,000
	MaxBytes int // 0 means 51,200
}
