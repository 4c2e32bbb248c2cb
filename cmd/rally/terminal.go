package main

import (
	"io"
	"os"
	"strings"

	"github.com/fatih/color"
	"github.com/mattn/go-isatty"
)

// isTerminal reports whether a stream is a terminal; only files can be one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// palette colours what goes to one stream, or leaves it as it is.
type palette struct{ dim, bad, strong *color.Color }

// colors is the palette for a stream: mode is auto, always or never.
func (p *process) colors(stream io.Writer, mode string) palette {
	on := mode == "always" || mode == "auto" && isTerminal(stream) && p.env("NO_COLOR") == "" && p.env("TERM") != "dumb"
	c := palette{dim: color.New(color.Faint), bad: color.New(color.FgRed), strong: color.New(color.Bold)}
	for _, each := range []*color.Color{c.dim, c.bad, c.strong} {
		if on {
			each.EnableColor()
		} else {
			each.DisableColor()
		}
	}
	return c
}

// printable is text without control codes, for a terminal.
func printable(text string) string {
	var s stripper
	return s.strip(text)
}

// oneLine is the beginning of text as one printable line of at most limit
// runes.
func oneLine(text string, limit int) string {
	if len(text) > 8*limit { // enough for limit runes with some control codes between
		text = text[:8*limit]
	}
	line := strings.Join(strings.Fields(printable(text)), " ")
	if runes := []rune(line); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return line
}

// stripper removes terminal control codes from text that comes in pieces: a
// model or a tool must not move the cursor, set the title or write the
// clipboard. Line feeds and tabs stay. The zero value is ready.
type stripper struct{ state stripState }

type stripState int

const (
	ground     stripState = iota
	escape                // after ESC
	control               // in a control sequence: ESC [ …
	command               // in a command string: ESC ] … BEL
	commandEnd            // after ESC in a command string
)

func (s *stripper) strip(piece string) string {
	var b strings.Builder
	b.Grow(len(piece))
	for _, r := range piece {
		if s.step(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// step reports whether r is shown. A line feed ends whatever sequence is open,
// so that an unfinished one cannot swallow the text after it.
func (s *stripper) step(r rune) bool {
	if r == '\n' {
		s.state = ground
		return true
	}
	switch s.state {
	case ground:
		return s.plain(r)
	case escape:
		s.state = afterEscape(r)
	case control:
		if r >= 0x40 && r <= 0x7e {
			s.state = ground
		}
	case command:
		switch r {
		case 0x07, 0x9c:
			s.state = ground
		case 0x1b:
			s.state = commandEnd
		}
	case commandEnd:
		s.state = command
		if r == '\\' {
			s.state = ground
		}
	}
	return false
}

func (s *stripper) plain(r rune) bool {
	switch {
	case r == 0x1b:
		s.state = escape
	case r == 0x9b:
		s.state = control
	case r == 0x90 || r == 0x98 || r >= 0x9d && r <= 0x9f:
		s.state = command
	case r == '\t':
		return true
	}
	return s.state == ground && r >= 0x20 && (r < 0x7f || r > 0x9f)
}

func afterEscape(r rune) stripState {
	switch {
	case r == '[':
		return control
	case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
		return command
	case r == 0x1b || r >= 0x20 && r <= 0x2f: // an intermediate byte: one more follows
		return escape
	}
	return ground
}
