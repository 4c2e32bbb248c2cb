package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine bounds a line of the task file: what no model can read need not be
// read by us.
const maxLine = 64 << 20

// SourceOptions say how a task file is read.
type SourceOptions struct {
	Text     bool // one prompt a line; else one JSON object a line
	Template bool // prompts are made by a template
	Shard    Shard
	// Near gives near misses of a name among names.
	Near func(name string, names []string) []string
}

// Source is a task file that has been looked through once: it keeps where the
// lines are, not what they say. It is safe for concurrent use.
type Source struct {
	// Entries are the tasks of the shard in the order of the file.
	Entries []Entry

	r      io.ReaderAt
	file   *os.File // nil when the content is in memory
	decode decoder
}

// Entry is one task of a Source.
type Entry struct {
	ID   string
	Line int
	// Here says that the task works in the default directory, and Unnamed that
	// moreover neither a model nor an agent, which may have one, is named.
	// Both are false for a line that cannot be run.
	Here    bool
	Unnamed bool

	bad    error
	offset int64
	length int
}

// OpenSource looks through the file at path, or through stdin when path is
// "-". What cannot be read twice is kept in memory. The caller closes it.
func OpenSource(path string, stdin io.Reader, o SourceOptions) (*Source, error) {
	s := &Source{decode: decoder{text: o.Text, template: o.Template, near: o.Near}}
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open the task file: %w", err)
		}
		s.file, s.r, from = f, f, f
	}
	if err := s.load(from); err != nil {
		return nil, errors.Join(fmt.Errorf("read the task file: %w", err), s.Close())
	}
	if err := s.scan(o.Shard); err != nil {
		return nil, errors.Join(fmt.Errorf("read the task file: %w", err), s.Close())
	}
	return s, nil
}

// load makes sure that lines can be read again.
func (s *Source) load(from io.Reader) error {
	if s.file != nil {
		info, err := s.file.Stat()
		if err != nil || info.Mode().IsRegular() {
			return err
		}
	}
	all, err := io.ReadAll(from)
	s.r = bytes.NewReader(all)
	return err
}

// Close gives the file back.
func (s *Source) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

func (s *Source) scan(shard Shard) error {
	seen := map[string]int{}
	return eachLine(io.NewSectionReader(s.r, 0, 1<<62), maxLine, func(l line) error {
		raw := l.text
		if l.number == 1 {
			trimmed := bytes.TrimPrefix(raw, []byte("\ufeff"))
			l.offset += int64(len(raw) - len(trimmed))
			raw = trimmed
		}
		if len(bytes.TrimSpace(raw)) == 0 && !l.long {
			return nil
		}
		e := Entry{ID: lineID(l.number), Line: l.number, offset: l.offset, length: len(raw)}
		t := s.decode.decode(raw, l.number)
		switch first, twice := seen[t.ID]; {
		case l.long:
			e.bad = badf("", "the line has more than %d MiB", maxLine>>20)
		case twice:
			e.bad = badf("give every task its own id", "id: %q is that of line %d", t.ID, first)
		case t.Err != nil:
			e.bad = t.Err
		default:
			seen[t.ID] = l.number
			e.ID = t.ID
			e.Here = t.Dir == "" && t.Session == ""
			e.Unnamed = e.Here && t.Agent == "" && t.Model == ""
		}
		if shard.Owns(e.ID) {
			s.Entries = append(s.Entries, e)
		}
		return nil
	})
}

// Task reads the task of an entry.
func (s *Source) Task(e *Entry) Task {
	if e.bad != nil {
		return Task{ID: e.ID, Line: e.Line, Err: e.bad}
	}
	raw := make([]byte, e.length)
	if _, err := s.r.ReadAt(raw, e.offset); err != nil {
		return Task{ID: e.ID, Line: e.Line, Err: badf("", "read the task file again: %w", err)}
	}
	t := s.decode.decode(raw, e.Line)
	if t.ID != e.ID {
		return Task{ID: e.ID, Line: e.Line, Err: badf("leave it alone until the batch is done", "the task file was changed while the batch ran")}
	}
	return t
}

// line is one line of a file, without its end.
type line struct {
	text   []byte // valid until the next line; cut when long
	number int    // counts from 1
	offset int64  // where it begins
	long   bool   // it has more bytes than allowed
	torn   bool   // it has no line feed: the file ends in it
}

// eachLine calls f for every line of r. It keeps no more than limit bytes.
func eachLine(r io.Reader, limit int, f func(line) error) error {
	b := bufio.NewReaderSize(r, 64<<10)
	var buffer []byte
	var at int64
	for number := 1; ; number++ {
		l := line{number: number, offset: at}
		buffer = buffer[:0]
		var err error
		for more := true; more; more = errors.Is(err, bufio.ErrBufferFull) {
			var piece []byte
			piece, err = b.ReadSlice('\n')
			at += int64(len(piece))
			if l.long = l.long || len(buffer)+len(piece) > limit; !l.long {
				buffer = append(buffer, piece...)
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		l.torn = err != nil
		if l.torn && at == l.offset {
			return nil
		}
		l.text = bytes.TrimSuffix(bytes.TrimSuffix(buffer, []byte("\n")), []byte("\r"))
		if err := f(l); err != nil || l.torn {
			return err
		}
	}
}
