package tools

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// How a place for an edit is found.
//
// The bytes of the file are searched for oldString as it is. If it is not
// there, the file is decoded, its line ends are folded to "\n", and nine
// strategies look for it, the strictest first. The first one that finds a
// place decides: one place is taken, several are an error (unless all are
// wanted), and no later strategy is asked. A strategy only ever finds where
// the span begins and ends; the span is mapped back to the bytes of the file,
// and nothing outside of it is decoded, encoded or moved.

// span is a range of bytes.
type span struct{ start, end int }

// strategy finds the places of want in have.
type strategy struct {
	name string
	find func(have, want *lined) []span
	// guess says that what it finds is alike, not equal: several places are
	// an error even if all are wanted, and a span much larger than what was
	// looked for is refused.
	guess bool
}

func strategies() []strategy {
	return []strategy{
		{name: "exact", find: exact},
		{name: "typography", find: typography},
		{name: "indentation", find: indentation},
		{name: "trimmed lines", find: trimmedLines},
		{name: "white space", find: whiteSpace},
		{name: "escapes", find: escapes},
		{name: "trimmed ends", find: trimmedEnds},
		{name: "block anchors", find: blockAnchors, guess: true},
		{name: "context", find: contextLines, guess: true},
	}
}

// findSpans returns the places of old in content, in order and apart from
// each other, and the coding that content is in. The error is for the model.
func findSpans(content []byte, old string, all bool) ([]span, coding, error) {
	set := codingOf(content)
	wide := set == utf16LE || set == utf16BE
	folds := bytes.Contains(content, []byte("\r\n")) || wide
	if !wide && (!all || !folds || !strings.Contains(old, "\n")) {
		if found := occurrences(content, []byte(old), bytes.Index); len(found) > 0 {
			if len(found) > 1 && !all {
				return nil, set, tooMany(newLined(set.decode(content)), decodedStarts(content, set, found), false)
			}
			return found, set, nil
		}
	}
	text, base := set.decode(content), 0
	if strings.HasPrefix(text, utf8BOM) {
		text, base = text[len(utf8BOM):], len(utf8BOM)
	}
	have := newLined(strings.ReplaceAll(text, "\r\n", "\n"))
	want := newLined(strings.ReplaceAll(strings.TrimPrefix(old, utf8BOM), "\r\n", "\n"))
	for _, s := range strategies() {
		found := s.find(have, want)
		if len(found) == 0 {
			continue
		}
		if len(found) > 1 && (s.guess || !all) {
			return nil, set, tooMany(have, found, s.guess && all)
		}
		if s.guess && tooLarge(have.text, want, found[0]) {
			return nil, set, tell("Refusing replacement because the matched span is much larger than oldString. " +
				"Re-read the file and provide the full exact oldString for the intended replacement.")
		}
		return mapBack(content, set, base, apart(found)), set, nil
	}
	return nil, set, notFound(have, want)
}

// occurrences finds part in text, apart from each other; index is that of the
// package for the type.
func occurrences[T string | []byte](text, part T, index func(T, T) int) []span {
	var out []span
	for at := 0; len(part) > 0; {
		i := index(text[at:], part)
		if i < 0 {
			break
		}
		out = append(out, span{at + i, at + i + len(part)})
		at += i + len(part)
	}
	return out
}

// apart drops spans that overlap the one before.
func apart(spans []span) []span {
	out := spans[:0:0]
	for _, s := range spans {
		if len(out) == 0 || s.start >= out[len(out)-1].end {
			out = append(out, s)
		}
	}
	return out
}

// mapBack turns spans of the decoded and folded text into spans of the file.
// base is the length of the mark that was taken off the text.
func mapBack(content []byte, set coding, base int, spans []span) []span {
	out := make([]span, len(spans))
	var ends []*int
	for i, s := range spans {
		out[i] = span{s.start + base, s.end + base}
		ends = append(ends, &out[i].start, &out[i].end)
	}
	text, pos := 0, 0
	for _, end := range ends { // ascending
		for text < *end && pos < len(content) {
			r, size := set.next(content[pos:])
			if r == '\r' && pos+size < len(content) {
				if after, _ := set.next(content[pos+size:]); after == '\n' {
					r, size = '\n', 2*size
				}
			}
			text += utf8.RuneLen(r)
			pos += size
		}
		*end = pos
	}
	return out
}

// next decodes the first character of b and gives its length in b.
func (c coding) next(b []byte) (rune, int) {
	if c != utf16LE && c != utf16BE {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			r = rune(b[0])
		}
		return r, size
	}
	if len(b) < 2 {
		return utf8.RuneError, len(b)
	}
	r := rune(c.order().Uint16(b))
	if utf16.IsSurrogate(r) {
		if len(b) >= 4 {
			if pair := utf16.DecodeRune(r, rune(c.order().Uint16(b[2:]))); pair != utf8.RuneError {
				return pair, 4
			}
		}
		return utf8.RuneError, 2
	}
	return r, 2
}

// decodedStarts is where the spans begin in the decoded text.
func decodedStarts(content []byte, set coding, spans []span) []span {
	if set == utf8Text {
		return spans
	}
	var out []span
	text, pos := 0, 0
	for _, s := range spans {
		for pos < s.start {
			r, size := set.next(content[pos:])
			text += utf8.RuneLen(r)
			pos += size
		}
		out = append(out, span{text, text})
	}
	return out
}

// tooLarge guards against a guess that swallows more than was meant.
func tooLarge(text string, want *lined, s span) bool {
	found := text[s.start:s.end]
	lines, wanted := strings.Count(found, "\n")+1, len(want.lines)
	if lines >= max(wanted+3, 2*wanted) {
		return true
	}
	n := len(strings.TrimSpace(want.text))
	return wanted > 1 && len(strings.TrimSpace(found)) > max(n+500, 4*n)
}

// tooMany tells where the places are.
func tooMany(have *lined, found []span, guessed bool) error {
	var at []string
	for _, s := range found[:min(len(found), 10)] {
		n := have.number(s.start)
		at = append(at, fmt.Sprintf("%d: %s", n, cutText(have.line(n-1), 120)))
	}
	if len(found) > len(at) {
		at = append(at, "...")
	}
	text := "Found multiple matches for oldString. Provide more surrounding context to make the match unique, or set replaceAll to change all of them."
	if guessed {
		text = "oldString is not in the file as it is, and several places are like it. Give the exact text of each."
	}
	return tell("%s\nIt begins at %s:\n%s", text, plural(len(found), "place", "places"), strings.Join(at, "\n"))
}

// lined is a text with its lines.
type lined struct {
	text  string
	lines []span // without line ends
}

func newLined(text string) *lined {
	l := &lined{text: text, lines: make([]span, 0, strings.Count(text, "\n")+1)}
	for at := 0; ; {
		nl := strings.IndexByte(text[at:], '\n')
		if nl < 0 {
			l.lines = append(l.lines, span{at, len(text)})
			return l
		}
		l.lines = append(l.lines, span{at, at + nl})
		at += nl + 1
	}
}

// line is line i, from 0, without a carriage return at its end.
func (l *lined) line(i int) string {
	return strings.TrimSuffix(l.text[l.lines[i].start:l.lines[i].end], "\r")
}

// number is the number of the line that holds byte at, from 1.
func (l *lined) number(at int) int {
	i, found := slices.BinarySearchFunc(l.lines, at, func(s span, at int) int { return s.start - at })
	if found {
		return i + 1
	}
	return i
}

// wanted is the lines to look for: an empty one after the last line end is
// none. whole says the text ends with a line end.
func (l *lined) wanted() (lines []string, whole bool) {
	n := len(l.lines)
	if n > 1 && l.lines[n-1].start == len(l.text) {
		n, whole = n-1, true
	}
	for i := range n {
		lines = append(lines, l.line(i))
	}
	return lines, whole
}

// block is the span of count lines from line i; whole takes the last line end
// along.
func (l *lined) block(i, count int, whole bool) span {
	s := span{l.lines[i].start, l.lines[i+count-1].end}
	if whole && s.end < len(l.text) {
		s.end++
	}
	return s
}
