package llm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

const (
	maxEvent  = 64 << 20 // bytes of one event
	maxStray  = 4 << 10
	sseBuffer = 32 << 10
)

// ErrEventSize says that a server sent an event larger than 64 MiB.
var ErrEventSize = errors.New("the stream holds an event of more than 64 MiB")

// SSE reads server-sent events as the standard has them (comments, CR, LF and
// CRLF, a byte order mark, `data:` with or without a space, several data
// lines) and, unlike it, also gives the last event when no blank line follows.
// A broken connection is not its business: it cannot tell an end from a cut.
type SSE struct {
	r      *bufio.Reader
	line   []byte
	data   []byte
	name   string
	stray  []byte
	hasEv  bool
	begun  bool
	skipLF bool
	limit  int
}

// SSEEvent is one event. Data is valid until the next call of Next.
type SSEEvent struct {
	Name string
	Data []byte
}

// NewSSE reads events from r.
func NewSSE(r io.Reader) *SSE {
	return &SSE{r: bufio.NewReaderSize(r, sseBuffer), limit: maxEvent}
}

// Stray is the beginning (4 KiB) of lines that were no part of any event: a
// server that answers in another format than it said.
func (s *SSE) Stray() []byte { return s.stray }

// Next gives the next event that has data; io.EOF ends the stream, any other
// error is the reader's or ErrEventSize.
func (s *SSE) Next() (SSEEvent, error) {
	s.data, s.name, s.hasEv = s.data[:0], "", false
	for {
		line, err := s.readLine()
		if err != nil {
			if errors.Is(err, io.EOF) && len(line) > 0 {
				s.field(line)
			}
			if errors.Is(err, io.EOF) && s.hasEv {
				return SSEEvent{Name: s.name, Data: s.data}, nil
			}
			return SSEEvent{}, err
		}
		if len(line) > 0 {
			s.field(line)
			if len(s.data) > s.limit {
				return SSEEvent{}, ErrEventSize
			}
			continue
		}
		if s.hasEv {
			return SSEEvent{Name: s.name, Data: s.data}, nil
		}
		s.name = ""
	}
}

func (s *SSE) field(line []byte) {
	key, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(key) {
	case "data":
		if s.hasEv {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, value...)
		s.hasEv = true
	case "event":
		s.name = string(value)
	case "", "id", "retry": // a comment has the empty key
	default:
		if room := maxStray - len(s.stray); room > 0 {
			s.stray = append(s.stray, line[:min(room, len(line))]...)
			s.stray = append(s.stray, '\n')
		}
	}
}

// readLine gives a line without its end; with an error, what came before it.
// It never waits for the LF of a CRLF: that would hold an event back until
// the next one comes.
func (s *SSE) readLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		if _, err := s.r.Peek(1); err != nil {
			return s.line, err
		}
		buf, err := s.r.Peek(s.r.Buffered())
		if err != nil {
			return s.line, err
		}
		if s.skipLF && buf[0] == '\n' {
			s.skipLF = false
			s.discard(1)
			continue
		}
		s.skipLF = false
		end := lineEnd(buf)
		if end < 0 {
			s.line = append(s.line, buf...)
			s.discard(len(buf))
			if len(s.line) > s.limit {
				return nil, ErrEventSize
			}
			continue
		}
		s.line = append(s.line, buf[:end]...)
		s.skipLF = buf[end] == '\r'
		s.discard(end + 1)
		if !s.begun {
			s.begun = true
			s.line = bytes.TrimPrefix(s.line, []byte("\xef\xbb\xbf"))
		}
		return s.line, nil
	}
}

// discard drops bytes that were peeked; it cannot fail.
func (s *SSE) discard(n int) { _, _ = s.r.Discard(n) }

func lineEnd(buf []byte) int {
	lf := bytes.IndexByte(buf, '\n')
	head := buf
	if lf >= 0 {
		head = buf[:lf]
	}
	if cr := bytes.IndexByte(head, '\r'); cr >= 0 {
		return cr
	}
	return lf
}
