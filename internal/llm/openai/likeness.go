package openai

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// likeness spares parsing what nearly all chunks of an answer are: the chunk
// before with another text. When the bytes before and after the text are the
// same, the chunk says the same but for the text. 5,000 of them take a tenth of the
// time of 5,000 parses.
type likeness struct {
	before, after []byte
}

var contentKey = []byte(`"content":"`)

// learn remembers a chunk that was parsed and said nothing but text.
func (l *likeness) learn(raw []byte, text string) {
	l.before = l.before[:0]
	start := bytes.Index(raw, contentKey)
	// A quote inside a string is escaped, so this can only be the member.
	if start < 0 || bytes.Count(raw, []byte(`"content"`)) != 1 {
		return
	}
	start += len(contentKey)
	size := literal(raw[start:])
	if size < 0 {
		return
	}
	if got, ok := unquote(raw[start : start+size]); !ok || got != text {
		return
	}
	l.before = append(l.before, raw[:start]...)
	l.after = append(l.after[:0], raw[start+size:]...)
}

// match is the text of a chunk that is like the one remembered.
func (l *likeness) match(raw []byte) (string, bool) {
	size := len(raw) - len(l.before) - len(l.after)
	if len(l.before) == 0 || size < 0 || !bytes.HasPrefix(raw, l.before) || !bytes.HasSuffix(raw, l.after) {
		return "", false
	}
	middle := raw[len(l.before) : len(l.before)+size]
	if literal(raw[len(l.before):]) != size {
		return "", false
	}
	return unquote(middle)
}

// literal is the length of a JSON string up to its closing quote, -1 if there
// is none.
func literal(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// unquote is the text of the inside of a JSON string.
func unquote(b []byte) (string, bool) {
	plain := utf8.Valid(b)
	for _, c := range b {
		if c < ' ' {
			return "", false // no JSON: let the parser say so
		}
		plain = plain && c != '\\'
	}
	if plain {
		return string(b), true
	}
	var text string
	err := json.Unmarshal(append(append([]byte{'"'}, b...), '"'), &text)
	return text, err == nil
}
