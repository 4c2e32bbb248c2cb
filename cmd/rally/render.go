package main

import (
	"io"
	"time"

	"github.com/spf13/pflag"

	"rally/internal/session"
)

// A renderer shows what happens to whoever reads stdout and stderr: as text,
// or as JSON lines. Its methods are called one at a time.
type renderer interface {
	event(session.Event)
	// end shows the result and is called once, last. A result without a
	// session is that of a command that was refused.
	end(session.Result)
}

// outputOptions say how a turn is shown.
type outputOptions struct {
	json       bool
	stream     bool
	thinking   bool
	quiet      bool
	noChildren bool
	color      string
}

func (o *outputOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print events and the result as JSON lines; see: rally schema events")
	f.BoolVar(&o.stream, "stream", false, "with --json: text as it comes, in delta lines")
	f.BoolVar(&o.thinking, "thinking", false, "show the model's reasoning")
	f.BoolVar(&o.noChildren, "no-children", false, "leave out what child sessions do")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "nothing on stderr but errors")
	f.StringVar(&o.color, "color", "auto", "colour terminals: auto, always or never (`WHEN`)")
}

func (o *outputOptions) validate() error {
	switch o.color {
	case "auto", "always", "never":
		return nil
	}
	return usagef("auto, always or never", "--color: %q is not one of its values", o.color)
}

// newRenderer shows a turn on out, which leads to stdout, and on stderr.
func (a *app) newRenderer(o outputOptions, out *outbox) renderer {
	if o.json {
		return &jsonRenderer{outputOptions: o, out: out, stderr: a.stderr, now: a.now}
	}
	return &textRenderer{
		outputOptions: o, out: out, stderr: a.stderr, now: a.now,
		onTerminal: isTerminal(a.stdout), colors: a.colors(a.stderr, o.color),
	}
}

// secondsSince is for lines that say how long something took.
func secondsSince(startMS, endMS int64) time.Duration {
	return time.Duration(max(0, endMS-startMS)) * time.Millisecond
}

var _ io.Writer = (*outbox)(nil)
