package tools

import "strings"

// The patch format of apply_patch:
//
//	*** Begin Patch
//	*** Add File: path        then lines that begin with +
//	*** Delete File: path
//	*** Update File: path     then, if it moves, *** Move to: path, and chunks:
//	@@ a line the chunk comes after (may be empty)
//	 context
//	-removed
//	+added
//	*** End of File           the chunk is at the end
//	*** End Patch
//
// A first chunk may lack its @@, and an empty line is empty context: models
// write both.

// patchKind is what a section does to its file.
type patchKind int

const (
	patchAdd patchKind = iota
	patchDelete
	patchUpdate
)

// section is what a patch does to one file.
type section struct {
	kind   patchKind
	path   string
	moveTo string
	lines  []string // patchAdd
	chunks []chunk
}

// chunk is one place of an update.
type chunk struct {
	after []string // lines that come before it, each below the one before
	lines []patchLine
	atEnd bool
}

// patchLine is a line of a chunk; op is ' ', '-' or '+'.
type patchLine struct {
	op   byte
	text string
}

// old lists the lines a chunk expects in the file.
func (c chunk) old() []string {
	var out []string
	for _, l := range c.lines {
		if l.op != '+' {
			out = append(out, l.text)
		}
	}
	return out
}

// parsePatch reads a patch. What is before its begin and after its end is
// ignored.
func parsePatch(text string) ([]section, error) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	begin, end := -1, -1
	for i, l := range lines {
		switch strings.TrimSpace(l) {
		case "*** Begin Patch":
			if begin < 0 {
				begin = i
			}
		case "*** End Patch":
			if end < 0 && begin >= 0 {
				end = i
			}
		}
	}
	if begin < 0 || end < 0 {
		return nil, tell("apply_patch verification failed: Error: Invalid patch format: missing Begin/End markers. " +
			"A patch begins with the line *** Begin Patch and ends with *** End Patch.")
	}
	p := patchParser{}
	for i, l := range lines[begin+1 : end] {
		if err := p.line(l); err != nil {
			return nil, tell("apply_patch verification failed: line %d of the patch (%q): %v", begin+2+i, cutText(l, 200), err)
		}
	}
	if end == begin+1 {
		return nil, tell("patch rejected: empty patch")
	}
	if len(p.sections) == 0 {
		return nil, tell("apply_patch verification failed: no hunks found")
	}
	return p.sections, p.complete()
}

type patchParser struct{ sections []section }

func (p *patchParser) line(l string) error {
	for _, head := range []struct {
		prefix string
		kind   patchKind
	}{{"*** Add File:", patchAdd}, {"*** Delete File:", patchDelete}, {"*** Update File:", patchUpdate}} {
		if path, ok := strings.CutPrefix(l, head.prefix); ok {
			if path = strings.TrimSpace(path); path == "" {
				return tell("the path is missing")
			}
			p.sections = append(p.sections, section{kind: head.kind, path: path})
			return nil
		}
	}
	if len(p.sections) == 0 {
		if strings.TrimSpace(l) == "" {
			return nil
		}
		return tell("before the first line there must be *** Add File:, *** Update File: or *** Delete File:")
	}
	s := &p.sections[len(p.sections)-1]
	switch s.kind {
	case patchAdd:
		return s.addLine(l)
	case patchDelete:
		if strings.TrimSpace(l) != "" {
			return tell("a deletion has no lines")
		}
	case patchUpdate:
		return s.updateLine(l)
	}
	return nil
}

func (s *section) addLine(l string) error {
	text, ok := strings.CutPrefix(l, "+")
	switch {
	case ok:
		s.lines = append(s.lines, text)
	case strings.TrimSpace(l) != "":
		return tell("each line of a new file begins with +")
	}
	return nil
}

func (s *section) updateLine(l string) error {
	if to, ok := strings.CutPrefix(l, "*** Move to:"); ok {
		if s.moveTo = strings.TrimSpace(to); s.moveTo == "" || len(s.chunks) > 0 {
			return tell("*** Move to: names a path and stands directly below *** Update File:")
		}
		return nil
	}
	if after, ok := strings.CutPrefix(l, "@@"); ok {
		s.openChunk(strings.TrimSpace(after))
		return nil
	}
	if len(s.chunks) == 0 {
		s.chunks = append(s.chunks, chunk{})
	}
	c := &s.chunks[len(s.chunks)-1]
	switch {
	case strings.TrimSpace(l) == "*** End of File":
		c.atEnd = true
	case l == "":
		c.lines = append(c.lines, patchLine{' ', ""})
	case l[0] == ' ' || l[0] == '-' || l[0] == '+':
		c.lines = append(c.lines, patchLine{l[0], l[1:]})
	default:
		return tell("a line of a chunk begins with a space (it stays), - (it goes) or + (it is new)")
	}
	return nil
}

// openChunk begins a chunk; two @@ lines in a row narrow the place down.
func (s *section) openChunk(after string) {
	if n := len(s.chunks); n == 0 || len(s.chunks[n-1].lines) > 0 {
		s.chunks = append(s.chunks, chunk{})
	}
	if c := &s.chunks[len(s.chunks)-1]; after != "" {
		c.after = append(c.after, after)
	}
}

// complete takes off what only separates sections and refuses updates that
// would do nothing.
func (p *patchParser) complete() error {
	for i := range p.sections {
		s := &p.sections[i]
		if s.kind != patchUpdate {
			continue
		}
		for j := range s.chunks {
			c := &s.chunks[j]
			for n := len(c.lines); n > 0 && c.lines[n-1] == (patchLine{' ', ""}); n-- {
				c.lines = c.lines[:n-1]
			}
			if len(c.lines) == 0 {
				return tell("apply_patch verification failed: a chunk of %s has no lines", s.path)
			}
		}
		if len(s.chunks) == 0 && s.moveTo == "" {
			return tell("apply_patch verification failed: the update of %s has no chunks", s.path)
		}
	}
	return nil
}
