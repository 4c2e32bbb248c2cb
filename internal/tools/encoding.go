package tools

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// coding is how the bytes of a file are text.
type coding int

// The codings of files. mixedText is anything else: what is valid UTF-8 in
// it stays, and each other byte is the Latin-1 character of its number.
const (
	utf8Text coding = iota
	utf16LE
	utf16BE
	mixedText
)

const utf8BOM = "\xef\xbb\xbf"

// codingOf looks at the beginning of a file, or all of it.
func codingOf(b []byte) coding {
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}) && !bytes.HasPrefix(b, []byte{0xff, 0xfe, 0, 0}):
		return utf16LE
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return utf16BE
	case utf8.Valid(b):
		return utf8Text
	}
	return mixedText
}

func (c coding) order() binary.ByteOrder {
	if c == utf16BE {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// note tells the model about a coding that is not UTF-8.
func (c coding) note() string {
	switch c {
	case utf8Text:
		return ""
	case utf16LE, utf16BE:
		return "(The file is UTF-16; edits keep it so.)"
	case mixedText:
		return "(The file is not UTF-8: its other bytes are shown as Latin-1. Edits leave what they do not replace as it is.)"
	}
	return ""
}

// decode is the text of b, which is whole characters.
func (c coding) decode(b []byte) string {
	switch c {
	case utf8Text:
		return string(b)
	case utf16LE, utf16BE:
		units := make([]uint16, len(b)/2)
		for i := range units {
			units[i] = c.order().Uint16(b[2*i:])
		}
		return string(utf16.Decode(units))
	case mixedText:
		out := make([]byte, 0, len(b)+len(b)/8)
		for len(b) > 0 {
			r, size := utf8.DecodeRune(b)
			if r == utf8.RuneError && size == 1 {
				r = rune(b[0])
			}
			out = utf8.AppendRune(out, r)
			b = b[size:]
		}
		return string(out)
	}
	return string(b)
}

// encode writes text as the file does. A mixed file that holds no UTF-8
// beyond ASCII is Latin-1, which not every text can be.
func (c coding) encode(file []byte, text string) ([]byte, error) {
	switch c {
	case utf8Text:
		return []byte(text), nil
	case utf16LE, utf16BE:
		var out []byte
		for _, u := range utf16.Encode([]rune(text)) {
			out = append(out, 0, 0)
			c.order().PutUint16(out[len(out)-2:], u)
		}
		return out, nil
	case mixedText:
		if holdsUTF8(file) {
			return []byte(text), nil
		}
		out := make([]byte, 0, len(text))
		for _, r := range text {
			if r > 0xff {
				return nil, tell("The file is Latin-1 and cannot hold the character %q (U+%04X). Write it with characters the file can hold, "+
					"or convert the file with iconv first.", r, r)
			}
			out = append(out, byte(r))
		}
		return out, nil
	}
	return []byte(text), nil
}

// holdsUTF8 reports whether b has a character of more than one byte.
func holdsUTF8(b []byte) bool {
	for len(b) > 0 {
		_, size := utf8.DecodeRune(b)
		if size > 1 {
			return true
		}
		b = b[size:]
	}
	return false
}
