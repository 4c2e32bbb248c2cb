package tools

import (
	"bytes"
	"slices"
	"strings"
)

// applyChunks is content after the chunks of an update, which are in the order
// of the file. Lines that stay are the file's own, also where they were only
// found by a look-alike; new lines end as those around them.
func applyChunks(path string, content []byte, chunks []chunk) ([]byte, error) {
	set := codingOf(content)
	if set == utf16LE || set == utf16BE {
		return nil, tell("%s is UTF-16, which patches cannot change. Use edit.", path)
	}
	mark := 0
	if bytes.HasPrefix(content, []byte(utf8BOM)) {
		mark = len(utf8BOM)
	}
	p := patcher{path: path, set: set, content: content, lines: splitLines(content[mark:])}
	p.out = append(make([]byte, 0, len(content)+1024), content[:mark]...) // never nil: that is a deletion
	for _, l := range p.lines {
		p.text = append(p.text, set.decode(bytes.TrimSuffix(bytes.TrimSuffix(l, []byte("\n")), []byte("\r"))))
	}
	for _, c := range chunks {
		if err := p.chunk(c); err != nil {
			return nil, err
		}
	}
	for ; p.at < len(p.lines); p.at++ {
		p.keep()
	}
	return p.out, nil
}

// splitLines cuts content after each line end.
func splitLines(content []byte) [][]byte {
	var out [][]byte
	for len(content) > 0 {
		end := bytes.IndexByte(content, '\n') + 1
		if end == 0 {
			end = len(content)
		}
		out = append(out, content[:end])
		content = content[end:]
	}
	return out
}

// patcher writes the new content while it walks over the old lines.
type patcher struct {
	path    string
	set     coding
	content []byte
	lines   [][]byte // with line ends
	text    []string // decoded, without
	at      int      // the next line that was not written yet
	out     []byte
}

// keep writes the next line as it is.
func (p *patcher) keep() {
	p.endLine()
	p.out = append(p.out, p.lines[p.at]...)
}

// endLine ends the line written last: the file's last line may have no end.
func (p *patcher) endLine() {
	if n := len(p.out); n > 0 && p.out[n-1] != '\n' && string(p.out) != utf8BOM {
		p.out = append(p.out, p.lineEnd()...)
	}
}

// lineEnd is how lines end around here.
func (p *patcher) lineEnd() string {
	for _, i := range []int{p.at - 1, p.at} {
		if i >= 0 && i < len(p.lines) && bytes.HasSuffix(p.lines[i], []byte("\n")) {
			if bytes.HasSuffix(p.lines[i], []byte("\r\n")) {
				return "\r\n"
			}
			return "\n"
		}
	}
	return lineEndOf(p.content)
}

func lineEndOf(content []byte) string {
	if bytes.Contains(content, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func (p *patcher) chunk(c chunk) error {
	from := p.at
	for _, after := range c.after {
		i := p.find([]string{after}, from)
		if i < 0 {
			return tell("Failed to find context '%s' in %s", after, p.path)
		}
		from = i + 1
	}
	old := c.old()
	start := p.place(c, old, from)
	if start < 0 && len(old) > 0 && old[len(old)-1] == "" {
		// An empty last line may be no more than the end of the file.
		if c, ok := c.withoutLastEmpty(); ok {
			if start = p.place(c, c.old(), from); start >= 0 {
				return p.write(c, start)
			}
		}
	}
	if start < 0 {
		return tell("Failed to find expected lines in %s:\n%s\n%v", p.path, cutText(strings.Join(old, "\n"), 2000),
			notFound(newLined(strings.Join(p.text, "\n")), newLined(strings.Join(old, "\n"))))
	}
	return p.write(c, start)
}

func (c chunk) withoutLastEmpty() (chunk, bool) {
	for i := len(c.lines) - 1; i >= 0; i-- {
		if c.lines[i].op != '+' {
			c.lines = slices.Delete(slices.Clone(c.lines), i, i+1)
			return c, len(c.lines) > 0
		}
	}
	return c, false
}

// place is where the chunk's old lines begin, or -1. A chunk that expects
// nothing goes to the line its context leads to, or to the end.
func (p *patcher) place(c chunk, old []string, from int) int {
	switch {
	case len(old) == 0 && len(c.after) > 0:
		return from
	case len(old) == 0:
		return len(p.lines)
	case c.atEnd:
		if i := p.find(old, max(from, len(p.lines)-len(old))); i >= 0 {
			return i
		}
	}
	return p.find(old, from)
}

// find looks for the lines from a line on, the strictest comparison first.
func (p *patcher) find(old []string, from int) int {
	for _, norm := range []func(string) string{
		func(s string) string { return s },
		func(s string) string { return strings.TrimRight(s, " \t") },
		strings.TrimSpace,
		func(s string) string { plain, _ := plainText(s); return strings.TrimSpace(plain) },
	} {
		want := make([]string, len(old))
		for i, l := range old {
			want[i] = norm(l)
		}
		for i := from; i+len(old) <= len(p.text); i++ {
			j := 0
			for j < len(want) && norm(p.text[i+j]) == want[j] {
				j++
			}
			if j == len(want) {
				return i
			}
		}
	}
	return -1
}

func (p *patcher) write(c chunk, start int) error {
	for ; p.at < start; p.at++ {
		p.keep()
	}
	open := len(p.lines) > 0 && !bytes.HasSuffix(p.lines[len(p.lines)-1], []byte("\n"))
	for _, l := range c.lines {
		switch l.op {
		case ' ':
			p.keep()
			p.at++
		case '-':
			p.at++
		default:
			text, err := p.set.encode(p.content, l.text)
			if err != nil {
				return err
			}
			p.endLine()
			p.out = append(append(p.out, text...), p.lineEnd()...)
		}
	}
	// A file whose last line had no end gets none.
	if open && p.at >= len(p.lines) && len(p.lines) > 0 {
		p.out = bytes.TrimSuffix(bytes.TrimSuffix(p.out, []byte("\n")), []byte("\r"))
	}
	return nil
}
