package prompt

import (
	"regexp"
	"strconv"
	"sync"
)

// Attachment is a file that a flag names.
type Attachment struct {
	Path string // absolute
	Lines
}

// Lines is a range of lines, counted from 1 and inclusive. 0 is an open end:
// from the first line, to the last.
type Lines struct {
	From, To int
}

// offsetLimit is the range as the read tool takes it; zeros are left out.
func (l Lines) offsetLimit() (offset, limit int) {
	if l == (Lines{}) {
		return 0, 0
	}
	offset = max(l.From, 1)
	if l.To > 0 {
		limit = max(l.To-offset+1, 1)
	}
	return offset, limit
}

var hashRange = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+)#L?(\d+)(?:(-)L?(\d*))?$`) })

// cutLines takes a range of lines off a reference: a.go#L10-20, a.go#10-L20,
// a.go#L10 (that line alone), a.go#L10- (from there on).
func cutLines(name string) (path string, lines Lines, ok bool) {
	m := hashRange().FindStringSubmatch(name)
	if m == nil {
		return name, Lines{}, false
	}
	from, err := strconv.Atoi(m[2])
	if err != nil || from < 1 {
		return name, Lines{}, false
	}
	lines = Lines{From: from, To: from}
	if m[3] != "" {
		lines.To = 0
		if m[4] != "" {
			if lines.To, err = strconv.Atoi(m[4]); err != nil || lines.To < from {
				return name, Lines{}, false
			}
		}
	}
	return m[1], lines, true
}
