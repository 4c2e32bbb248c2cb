package tools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// matcher searches files for lines that match. It is immutable.
//
// A regular expression is slow on text that does not match, so the literals
// of which every match must hold one are looked for first, and only their
// lines are given to it.
type matcher struct {
	re        *regexp.Regexp
	literals  []anyOf // a match holds one of each; the best set is the first
	context   int
	limit     int  // matches of one file that are kept; 0 none
	countOnly bool // count all, keep none
}

// fileMatches is what one file holds.
type fileMatches struct {
	lines   []foundLine
	count   int
	more    bool // it holds more than are kept
	context bool
}

type foundLine struct {
	number int
	text   string
	match  bool
}

// String is the line as it is shown.
func (l foundLine) String() string {
	if l.match {
		return fmt.Sprintf("  Line %d: %s\n", l.number, l.text)
	}
	return fmt.Sprintf("  Line %d- %s\n", l.number, l.text)
}

// search looks into the files, several at once, and gives out what they hold
// in their order until found wants no more. cut says that the time was over.
func (m *matcher) search(ctx context.Context, root string, hits []hit, found func(string, fileMatches) bool) (cut bool, err error) {
	limited, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	const ahead = 256 // files that may be done before their turn
	results := make([]chan fileMatches, len(hits))
	for i := range results {
		results[i] = make(chan fileMatches, 1)
	}
	var next atomic.Int64
	slots := make(chan struct{}, ahead)
	var group sync.WaitGroup
	for range min(workers(), len(hits)) {
		group.Go(func() {
			buf := make([]byte, chunkSize)
			for {
				select {
				case slots <- struct{}{}:
				case <-limited.Done():
					return
				}
				i := int(next.Add(1)) - 1
				if i >= len(hits) {
					return
				}
				results[i] <- m.file(limited, filepath.Join(root, hits[i].rel), buf)
			}
		})
	}
	defer group.Wait()
	defer cancel()
	for i := range hits {
		select {
		case r := <-results[i]:
			<-slots
			if r.count > 0 && !found(filepath.Join(root, hits[i].rel), r) {
				return false, nil
			}
		case <-limited.Done():
			return true, ctx.Err()
		}
	}
	return false, nil
}

// chunkSize is how much of a file is held at once; a longer line is searched
// in pieces.
const chunkSize = 256 << 10

// file searches one file. What cannot be read, and binary files, hold
// nothing.
func (m *matcher) file(ctx context.Context, path string, buf []byte) fileMatches {
	file, err := openRegular(path)
	if err != nil {
		return fileMatches{}
	}
	defer func() { _ = file.Close() }()
	if m.context == 0 {
		return m.scan(ctx, file, buf)
	}
	// Lines around a match cost much more, and most files hold none.
	quick := *m
	quick.context, quick.limit = 0, 1
	if quick.scan(ctx, file, buf).count == 0 {
		return fileMatches{}
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fileMatches{}
	}
	return m.scan(ctx, file, buf)
}

func (m *matcher) scan(ctx context.Context, file io.Reader, buf []byte) fileMatches {
	s := scan{matcher: m, out: fileMatches{context: m.context > 0}}
	kept := 0
	for first := true; ctx.Err() == nil; first = false {
		n, err := io.ReadFull(file, buf[kept:])
		data := buf[:kept+n]
		if first && isBinary(data[:min(len(data), sniffSize)]) || bytes.IndexByte(data[kept:], 0) >= 0 {
			return fileMatches{}
		}
		if err != nil { // the end, or as good as that
			s.chunk(data)
			return s.out
		}
		end := bytes.LastIndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		if s.chunk(data[:end]); s.done {
			return s.out
		}
		kept = copy(buf, data[end:])
	}
	return s.out
}

// scan is the search of one file.
type scan struct {
	*matcher
	out    fileMatches
	line   int      // lines before the chunk
	before []string // the last lines, for context
	after  int      // lines of context still to show
	last   int      // number of the last line shown
	done   bool
}

// chunk searches whole lines.
func (s *scan) chunk(data []byte) {
	if s.context > 0 {
		s.everyLine(data)
		return
	}
	line, at := s.line, 0 // number of lines before at
	var places []int
	if len(s.literals) > 0 {
		for _, l := range s.literals[0] {
			places = append(places, bytes.Index(data, l))
		}
	}
	for at < len(data) && !s.done {
		start := at
		if len(places) > 0 {
			i := s.nextLiteral(data, at, places)
			if i < 0 {
				break
			}
			start = at + bytes.LastIndexByte(data[at:i], '\n') + 1
		}
		end := len(data)
		if nl := bytes.IndexByte(data[start:], '\n'); nl >= 0 {
			end = start + nl
		}
		line += bytes.Count(data[at:start], []byte("\n"))
		if text := trimCR(data[start:end]); s.mayMatch(text) && s.re.Match(text) {
			s.found(line+1, text)
		}
		at = end + 1
		line++
	}
	s.line += bytes.Count(data, []byte("\n"))
}

// mayMatch reports whether the line holds all that a match needs.
func (m *matcher) mayMatch(line []byte) bool {
	for _, set := range m.literals {
		if !slices.ContainsFunc(set, func(l []byte) bool { return bytes.Contains(line, l) }) {
			return false
		}
	}
	return true
}

func trimCR(line []byte) []byte { return bytes.TrimSuffix(line, []byte("\r")) }

// nextLiteral is where in data, from at on, the next literal begins, or -1.
// places remembers where each was found, so that a rare one is not looked for
// again and again.
func (s *scan) nextLiteral(data []byte, at int, places []int) int {
	best := -1
	for i, l := range s.literals[0] {
		if places[i] >= 0 && places[i] < at {
			places[i] = -1
			if j := bytes.Index(data[at:], l); j >= 0 {
				places[i] = at + j
			}
		}
		if places[i] >= 0 && (best < 0 || places[i] < best) {
			best = places[i]
		}
	}
	return best
}

// everyLine is chunk for when lines around the matches are wanted.
func (s *scan) everyLine(data []byte) {
	for len(data) > 0 && !s.done {
		text, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		s.line++
		text = trimCR(text)
		switch {
		case s.mayMatch(text) && s.re.Match(text):
			for i, b := range s.before {
				if n := s.line - len(s.before) + i; n > s.last {
					s.out.lines = append(s.out.lines, foundLine{number: n, text: b})
				}
			}
			s.found(s.line, text)
			s.after, s.last = s.context, s.line
		case s.after > 0:
			s.after--
			s.last = s.line
			s.out.lines = append(s.out.lines, foundLine{number: s.line, text: shownLine(text)})
		}
		if s.before = append(s.before, shownLine(text)); len(s.before) > s.context {
			s.before = s.before[1:]
		}
	}
}

func (s *scan) found(number int, text []byte) {
	s.out.count++
	if s.countOnly {
		return
	}
	if s.out.count > s.limit {
		s.out.more, s.done = true, true
		s.out.count--
		return
	}
	s.out.lines = append(s.out.lines, foundLine{number: number, text: shownLine(text), match: true})
	if s.limit == 1 {
		s.done = true
	}
}

// shownLine is a line as it is shown: valid text, cut.
func shownLine(text []byte) string {
	const most = maxLine * 4
	line := string(text[:min(len(text), most)])
	cut, long := cutLine(strings.ReplaceAll(mixedText.decode([]byte(line)), "\x00", ""))
	if long {
		return cut[:strings.LastIndex(cut, "... (line")] + "..."
	}
	return cut
}
