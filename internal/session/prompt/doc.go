// Package prompt makes what a model reads before it answers: the parts of a
// user message, expanded command templates, the system prompt, reminders and
// the fixed texts of the engine.
//
// Everything here is a function of its arguments. Files are looked at and
// commands run only through functions the caller passes in, so that the
// permission gate stands between a prompt and the disk. The same arguments
// give the same bytes: a provider's prompt cache depends on it (invariant 6).
//
// What it promises: the user's own text is stored as it was written; an
// expansion that is refused or fails becomes a text that says so and never
// fails the prompt; an argument of a command is text, never template and
// never shell. What it does not do: decide about permissions, choose models,
// store anything.
package prompt
