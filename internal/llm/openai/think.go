package openai

import (
	"strings"

	"rally/internal/llm"
)

// thinkFilter takes a leading block in think tags out of streamed text. Tags
// may be split over chunks anywhere; a block that never closes is thinking to
// its end. Only the very beginning of the text can open a block.
type thinkFilter struct {
	enabled bool
	state   thinkState
	held    string // a possible tag, or blanks before one
	closing string // the tag that ends the block
}

type thinkState int

const (
	atStart thinkState = iota
	inBlock
	afterBlock // blanks between block and answer are dropped
	inText
)

// push takes a piece of text and returns what of it is sure.
func (f *thinkFilter) push(piece string) (thought, text string) {
	if !f.enabled || f.state == inText || piece == "" {
		return "", piece
	}
	f.held += piece
	if f.state == atStart && !f.open() {
		if f.state == inText {
			text, f.held = f.held, ""
		}
		return "", text
	}
	if f.state == inBlock {
		thought = f.block()
	}
	if f.state == afterBlock {
		text = strings.TrimLeft(f.held, " \t\r\n")
		f.held = ""
		if text != "" {
			f.state = inText
		}
	}
	return thought, text
}

// flush returns what is held back when the stream ends.
func (f *thinkFilter) flush() (thought, text string) {
	held := f.held
	f.held = ""
	switch f.state {
	case inBlock:
		return held, ""
	case atStart:
		return "", held
	case afterBlock, inText:
	}
	return "", ""
}

// open looks for an opening tag at the start; false means that there is none
// (state inText) or that more must come.
func (f *thinkFilter) open() bool {
	start := strings.TrimLeft(f.held, " \t\r\n")
	possible := start == ""
	for _, tag := range llm.ThinkTags() {
		if rest, ok := strings.CutPrefix(start, tag[0]); ok {
			f.held, f.closing, f.state = rest, tag[1], inBlock
			return true
		}
		possible = possible || strings.HasPrefix(tag[0], start)
	}
	if !possible {
		f.state = inText
	}
	return false
}

// block gives the thinking in held up to the closing tag, or up to what may
// be the beginning of it.
func (f *thinkFilter) block() (thought string) {
	if before, after, ok := strings.Cut(f.held, f.closing); ok {
		f.held, f.state = after, afterBlock
		return before
	}
	keep := 0
	for n := min(len(f.closing)-1, len(f.held)); n > 0; n-- {
		if strings.HasPrefix(f.closing, f.held[len(f.held)-n:]) {
			keep = n
			break
		}
	}
	thought = f.held[:len(f.held)-keep]
	f.held = f.held[len(f.held)-keep:]
	return thought
}
