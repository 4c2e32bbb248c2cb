package prompt

import (
	"errors"
	"strings"
)

// quoter writes a shell script piece by piece and quotes arguments for the
// place they land in: bare, in double or in single quotes. It follows the
// script's own text only as far as that needs. Where an argument could be
// read as code in spite of quotes it refuses, and where it loses its way it
// refuses from there on.
type quoter struct {
	out     strings.Builder
	state   quoteState
	outer   []quoteState // states around the current one, innermost last
	lost    bool         // no argument may follow
	escape  bool         // a backslash takes the next character
	comment bool
	less    int  // how many < stand directly before
	prev    byte // the character before; 0 if an argument or an escaped one
}

type quoteState byte

const (
	bare   quoteState = iota // in a command, also in $( … ) and ( … )
	single                   // '…'
	double                   // "…"
	ansi                     // $'…'
	braces                   // ${ … }
	arith                    // $(( … )), $[ … ], a[ … ]
)

// maxQuoteDepth bounds what is kept of nested constructs.
const maxQuoteDepth = 64

var (
	errUnquotable = errors.New("an argument stands where it cannot be quoted safely: " +
		"use it as a plain word or in quotes, not in a here-document, a comment, arithmetic or ${…}")
	errNUL = errors.New("an argument holds a NUL byte")
)

// newQuoter is a quoter for a script whose own text is source.
func newQuoter(source string) *quoter {
	// The ")" of a case branch closes nothing, so nesting cannot be counted.
	return &quoter{prev: '\n', lost: strings.Contains(source, "esac")}
}

// argument writes value as a word, or as part of one.
func (q *quoter) argument(value string) error {
	switch {
	case strings.IndexByte(value, 0) >= 0:
		return errNUL
	case q.lost, q.escape, q.comment, q.less == 2, q.prev == '$' && q.state != single:
		return errUnquotable
	}
	switch q.state {
	case bare:
		q.out.WriteString("'" + strings.ReplaceAll(value, "'", `'\''`) + "'")
	case single:
		q.out.WriteString(strings.ReplaceAll(value, "'", `'\''`))
	case double:
		q.out.WriteString(doubleEscaper.Replace(value))
	case ansi, braces, arith:
		return errUnquotable
	}
	q.prev, q.less = 0, 0
	return nil
}

var doubleEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`")

// source writes a piece of the script's own text.
func (q *quoter) source(text string) {
	q.out.WriteString(text)
	for i := range len(text) {
		c, next := text[i], byte(0)
		if i+1 < len(text) {
			next = text[i+1]
		}
		switch {
		case q.escape:
			q.escape, c = false, 0
		case q.comment:
			q.comment = c != '\n'
		default:
			q.step(c, next)
		}
		if c == '$' && q.prev == '$' {
			c = 0 // $$ is a word of its own: what follows is not $'…' or $(…)
		}
		q.prev = c
	}
}

// step takes in a character that is neither escaped nor in a comment.
func (q *quoter) step(c, next byte) {
	switch q.state {
	case bare:
		q.bare(c, next)
	case single:
		if c == '\'' {
			q.pop()
		}
	case double:
		switch {
		case c == '\\':
			q.escape = true
		case c == '"':
			q.pop()
		case q.prev == '$':
			q.dollar(c, next)
		}
	case ansi:
		switch c {
		case '\\':
			q.escape = true
		case '\'':
			q.pop()
		}
	case braces:
		switch c {
		case '}':
			q.pop()
		case '\'', '"', '\\', '$', '{', '(':
			q.lost = true // where it ends depends on what is in it
		}
	case arith:
		switch c {
		case '(', '[':
			q.push(arith)
		case ')', ']':
			q.pop()
		case '\'', '"', '\\', '{', '#':
			q.lost = true
		}
	}
}

func (q *quoter) bare(c, next byte) {
	if c == '<' {
		q.less++
		return
	}
	if q.less == 2 {
		q.lost = true // a here-document; three are a here-string
	}
	q.less = 0
	switch c {
	case '\\':
		q.escape = true
	case '\'':
		if q.prev == '$' {
			q.push(ansi)
		} else {
			q.push(single)
		}
	case '"':
		q.push(double)
	case ')':
		q.pop()
	case '(':
		q.dollar(c, next)
	case '{', '[':
		if q.prev == '$' || c == '[' && wordByte(q.prev) {
			q.dollar(c, next)
		}
	case '#':
		q.comment = strings.IndexByte(" \t\n;&|()", q.prev) >= 0
	}
}

// dollar enters what a bracket opens after a dollar.
func (q *quoter) dollar(c, next byte) {
	switch c {
	case '{':
		q.push(braces)
	case '[':
		q.push(arith)
	case '(':
		if next == '(' {
			q.push(arith)
		} else {
			q.push(bare)
		}
	}
}

func (q *quoter) push(s quoteState) {
	if len(q.outer) == maxQuoteDepth {
		q.lost = true
		return
	}
	q.outer = append(q.outer, q.state)
	q.state = s
}

// pop leaves the current state; at the outermost there is nothing to leave.
func (q *quoter) pop() {
	if n := len(q.outer) - 1; n >= 0 {
		q.state, q.outer = q.outer[n], q.outer[:n]
	}
}
