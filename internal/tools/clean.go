package tools

import (
	"bytes"
	"unicode/utf8"
)

// cleaner makes text of what a program prints: escape sequences, NUL and
// other control codes are taken out, and a byte that is no UTF-8 becomes one
// U+FFFD. It keeps state between writes, so a character or sequence that is
// cut by a write survives. End must be called for what is left.
//
// The states are those of a terminal's parser, reduced to where a sequence
// ends: ESC begins one; "[" makes it a CSI sequence that ends with a byte from
// @ to ~; "]", P, X, ^ and _ begin a string that BEL or ESC \ end.
type cleaner struct {
	out   func([]byte)
	state escapeState
	held  []byte // the beginning of a character
	buf   []byte
	long  int // length of the string sequence so far
}

type escapeState int

const (
	inText escapeState = iota
	inEscape
	inIntermediate
	inCSI
	inString
	inStringEscape
)

// maxSequence ends a string sequence that nobody ends: an ESC ] in binary
// output must not swallow all that follows.
const maxSequence = 4096

// Write takes all of p.
func (c *cleaner) Write(p []byte) (int, error) {
	n := len(p)
	if len(c.held) > 0 {
		p = append(c.held, p...)
		c.held = nil
	}
	c.buf = c.buf[:0]
	for len(p) > 0 {
		if c.state != inText {
			p = c.escape(p)
			continue
		}
		run := plainRun(p)
		c.buf = append(c.buf, p[:run]...)
		if p = p[run:]; len(p) == 0 {
			break
		}
		if p[0] < utf8.RuneSelf {
			if p[0] == 0x1b {
				c.state = inEscape
			}
			p = p[1:]
			continue
		}
		if !utf8.FullRune(p) {
			c.held = bytes.Clone(p)
			break
		}
		r, size := utf8.DecodeRune(p)
		if r < 0x80 || r > 0x9f { // C1 controls are escape codes too
			c.buf = utf8.AppendRune(c.buf, r)
		}
		p = p[size:]
	}
	if len(c.buf) > 0 {
		c.out(c.buf)
	}
	return n, nil
}

// End gives out a character that was never finished.
func (c *cleaner) End() {
	if len(c.held) > 0 {
		c.held = nil
		c.out([]byte(string(utf8.RuneError)))
	}
}

// plainRun is how many bytes from the start are printable ASCII, tab, newline
// or carriage return.
func plainRun(p []byte) int {
	for i, b := range p {
		if b >= 0x7f || (b < 0x20 && b != '\n' && b != '\t' && b != '\r') {
			return i
		}
	}
	return len(p)
}

// escape takes one byte of a sequence, and more of a string.
func (c *cleaner) escape(p []byte) []byte {
	b := p[0]
	switch c.state {
	case inText:
		return p
	case inEscape:
		c.long = 0
		switch {
		case b == '[':
			c.state = inCSI
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state = inString
		case b >= 0x20 && b <= 0x2f:
			c.state = inIntermediate
		case b == 0x1b:
		case b < 0x20 || b > 0x7e:
			c.state = inText
			return p // not a sequence after all
		default:
			c.state = inText
		}
	case inIntermediate:
		if b < 0x20 || b > 0x2f {
			c.state = inText
		}
	case inCSI:
		switch {
		case b >= 0x40 && b <= 0x7e:
			c.state = inText
		case b < 0x20 || b > 0x7e:
			c.state = inText
			return p
		}
	case inString, inStringEscape:
		c.inString(b)
	}
	return p[1:]
}

func (c *cleaner) inString(b byte) {
	c.long++
	switch {
	case b == 7, b == '\n', c.state == inStringEscape && b == '\\', c.long > maxSequence:
		c.state = inText
	case b == 0x1b:
		c.state = inStringEscape
	default:
		c.state = inString
	}
}
