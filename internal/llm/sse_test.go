package llm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// pieces reads like a network: a few bytes at a time.
type pieces struct {
	data []byte
	cuts []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	size := 1
	if len(p.cuts) > 0 {
		size += int(p.cuts[p.n%len(p.cuts)])
	}
	p.n++
	n := copy(b, p.data[:min(size, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

func events(r io.Reader) string {
	var out strings.Builder
	s := NewSSE(r)
	for {
		ev, err := s.Next()
		if err != nil {
			fmt.Fprintf(&out, "%v", err)
			return out.String()
		}
		fmt.Fprintf(&out, "%q %q\n", ev.Name, ev.Data)
	}
}

func TestSSE(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "EOF",
		"data: a\n\n":                        "\"\" \"a\"\nEOF",
		"data:a\r\n\r\ndata: b\r\r":          "\"\" \"a\"\n\"\" \"b\"\nEOF",
		"data: a\ndata: b\n\n":               "\"\" \"a\\nb\"\nEOF",
		"event: x\ndata: a\n\ndata: b\n\n":   "\"x\" \"a\"\n\"\" \"b\"\nEOF",
		"event: x\n\ndata: a\n\n":            "\"\" \"a\"\nEOF",
		": c\n\ndata: a":                     "\"\" \"a\"\nEOF",
		"\xef\xbb\xbfdata: a\n\n":            "\"\" \"a\"\nEOF",
		"data\n\n":                           "\"\" \"\"\nEOF",
		"data:  two blanks\n\n":              "\"\" \" two blanks\"\nEOF",
		"id: 1\nretry: 5\nfoo: x\ndata: a\n": "\"\" \"a\"\nEOF",
	} {
		if got := events(strings.NewReader(in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
		if got := events(iotest.OneByteReader(strings.NewReader(in))); got != want {
			t.Errorf("%q byte by byte: got %s, want %s", in, got, want)
		}
	}
}

// The LF of a CRLF is not waited for: the event would come one event late.
func TestSSEDoesNotHoldBack(t *testing.T) {
	r, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, "data: a\r\n\r") }()
	if ev, err := NewSSE(r).Next(); err != nil || string(ev.Data) != "a" {
		t.Errorf("got %q, %v", ev.Data, err)
	}
}

func TestSSELimit(t *testing.T) {
	for _, in := range []string{"data: " + strings.Repeat("x", 200), strings.Repeat("data: xxxxxxxxxxxxxx\n", 20)} {
		s := NewSSE(strings.NewReader(in))
		s.limit = 100
		if _, err := s.Next(); !errors.Is(err, ErrEventSize) {
			t.Errorf("got %v", err)
		}
	}
	big := strings.Repeat("y", 16<<20)
	ev, err := NewSSE(strings.NewReader("data: " + big + "\n\n")).Next()
	if err != nil || len(ev.Data) != len(big) {
		t.Errorf("16 MiB in one line: %d bytes, %v", len(ev.Data), err)
	}
	s := NewSSE(iotest.TimeoutReader(bytes.NewReader([]byte("data: a\ndata: b"))))
	if _, err := s.Next(); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("the reader's error is lost: %v", err)
	}
}

// Any way to cut the bytes gives the same events.
func FuzzSSE(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\n: c\ndata:b\rdata: c\n\nevent: x\ndata: d"), []byte{0, 3, 1})
	f.Add([]byte("\xef\xbb\xbfdata: h\xc3\xa9\n\n"), []byte{5})
	f.Add([]byte("\r\n\n\rdata\n\n{\"error\":1}"), []byte{})
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		whole := events(bytes.NewReader(data))
		if cut := events(&pieces{data: data, cuts: cuts}); cut != whole {
			t.Errorf("whole:\n%s\nin pieces:\n%s", whole, cut)
		}
	})
}
