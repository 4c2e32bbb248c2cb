package tools

import (
	"fmt"
	"slices"
	"strings"
)

// The bounds of the search for lines that are like what was not found.
const (
	maxNearest  = 3
	maxCompared = 20_000 // lines
	nearEnough  = 0.6
)

// notFound tells that want is nowhere, and which lines come nearest.
func notFound(have, want *lined) error {
	text := "Could not find oldString in the file. It must match exactly, including whitespace, indentation, and line endings."
	near := nearest(have, want)
	if len(near) == 0 {
		return tell("%s\nNo line of the file is like it: read the file again, or look for the text with grep.", text)
	}
	var b strings.Builder
	for k, i := range near {
		if k > 0 {
			b.WriteString("...\n")
		}
		for j := max(0, i-1); j < min(len(have.lines), i+4); j++ {
			fmt.Fprintf(&b, "%d: %s\n", j+1, cutText(have.line(j), 200))
		}
	}
	return tell("%s\nThe nearest lines are (the numbers are not part of the file):\n%s", text, strings.TrimRight(b.String(), "\n"))
}

// nearest lists the numbers, from 0, of lines that are most like the first
// telling line of want.
func nearest(have, want *lined) []int {
	lines, _ := want.wanted()
	key, offset := "", 0
	for i, l := range lines {
		if t := strings.TrimSpace(l); len(t) > len(key) && (key == "" || len(key) < 8) {
			key, offset = t, i
		}
	}
	if key == "" {
		return nil
	}
	type scored struct {
		line  int
		score float64
	}
	var found []scored
	for i := range min(len(have.lines), maxCompared) {
		line := strings.TrimSpace(have.line(i))
		var score float64
		switch {
		case line == "":
			continue
		case line == key:
			score = 1
		case strings.Contains(line, key) || (len(line) > 8 && strings.Contains(key, line)):
			score = 0.9
		case len(line) > 2*len(key) || len(key) > 2*len(line):
			continue
		default:
			score = similarity(line, key)
		}
		if score >= nearEnough {
			found = append(found, scored{max(0, i-offset), score})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	var out []int
	for _, f := range found[:min(len(found), maxNearest)] {
		out = append(out, f.line)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
