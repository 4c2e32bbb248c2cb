package tools

import (
	"strings"
	"sync"
)

// capture keeps head and tail of an output in bounded memory and streams the
// whole of it to a spill file once it is longer than the limits. It is safe
// for concurrent use.
type capture struct {
	mu    sync.Mutex
	env   *Env
	clean cleaner
	head  []byte // the first limit bytes
	tail  []byte // at least the last limit bytes, at most twice as many
	total int64
	lines int
	spill *spill // nil while everything is in head
}

func newCapture(env *Env) *capture {
	c := &capture{env: env}
	c.clean.out = c.add
	return c
}

// Write takes all of p.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.clean.Write(p)
	if c.env.Progress != nil && c.total > 0 {
		c.env.Progress(tailLines(string(c.newest()), c.env.Limits.lines(), previewBytes))
	}
	return n, err
}

// previewBytes is the length of the tail shown while a command runs.
const previewBytes = 4 << 10

func (c *capture) newest() []byte {
	kept := c.tail
	if c.spill == nil {
		kept = c.head
	}
	return kept[max(0, len(kept)-previewBytes-4):]
}

func (c *capture) add(p []byte) {
	limit := c.env.Limits.bytes()
	c.total += int64(len(p))
	for _, b := range p {
		if b == '\n' {
			c.lines++
		}
	}
	if c.spill == nil && c.total > int64(limit) {
		c.spill = newSpill(c.env)
		_, _ = c.spill.Write(c.head)
		c.tail = append(c.tail, c.head...)
	}
	c.head = append(c.head, p[:min(len(p), limit-len(c.head))]...)
	if c.spill == nil {
		return
	}
	_, _ = c.spill.Write(p) // Close gives its error
	if len(p) > limit {
		c.tail, p = c.tail[:0], p[len(p)-limit:]
	}
	if len(c.tail)+len(p) > 2*limit {
		keep := max(0, len(c.tail)-limit)
		c.tail = c.tail[:copy(c.tail, c.tail[keep:])]
	}
	c.tail = append(c.tail, p...)
}

// end closes the capture. text is everything, or head and tail with a line
// between that says what is missing and where it is. A quarter goes to the
// head: what failed is mostly at the end.
func (c *capture) end() (text, path string, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clean.End()
	limit, lines := c.env.Limits.bytes(), c.env.Limits.lines()
	if c.spill == nil && c.lines <= lines {
		return string(c.head), "", false
	}
	if c.spill == nil {
		c.spill = newSpill(c.env)
		_, _ = c.spill.Write(c.head)
		c.tail = c.head
	}
	head := headLines(string(c.head), max(1, lines/4), limit/4)
	tail := tailLines(string(c.tail), lines-lines/4, limit-limit/4)
	path, err := c.spill.Close()
	missing := c.total - int64(len(head)+len(tail))
	where := "Full output saved to: " + path
	switch {
	case err != nil:
		path, where = "", "The full output could not be saved: "+err.Error()
	case c.total > maxSpill:
		where += " (head and tail of it)"
	}
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("\n\n...output truncated: " + plural(int(missing), "byte", "bytes") + " left out...\n\n")
	b.WriteString(where + "\n\n")
	b.WriteString(tail)
	return b.String(), path, true
}
