// Package session holds the nouns of rally: Session, Message, Part, Turn,
// Event, Result and what they are made of.
//
// It imports the standard library alone and does no I/O, reads no clock and
// makes no ids: whoever creates a value passes them in. Every other room may
// import it; it imports none of them.
//
// # JSON
//
// The JSON of Message and of every Part is the shape OpenCode's `export` and
// `run --format json` use (camelCase keys, times in milliseconds since the
// epoch). The session file, the event stream and the export all share it, so
// there is one encoding to keep right.
//
// # Terms
//
// A turn is one user message until the model stops calling tools. A step is
// one model request and the tools it asked for (other SDKs call that a turn).
package session
