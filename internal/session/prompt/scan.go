package prompt

import (
	"strings"
	"unicode/utf8"
)

// How references are found in a text:
//
//  1. Regions of code (between backticks, fenced blocks) and regions the
//     caller names are passed over.
//  2. An @ counts unless a word character or a backtick stands before it, so
//     that mail addresses are text. The name goes up to white space, a comma
//     or a backtick.
//  3. A bracket counts as a list of files if all its items look like paths
//     and it is no link, index or image.
//
// Whether a name stands for anything is for the caller to find out, and so is
// how much of "a.go)." belongs to it: see candidates.

// Range is a region of a text, in bytes, the end not included.
type Range struct{ Start, End int }

// mention is a name found in a text.
type mention struct {
	name    string
	bracket bool // from [a.go, b.go]: a file or nothing
}

const (
	maxName    = 4096 // longer runs are no paths
	maxBracket = 4096
)

// mentions finds the references of text in their order. skip must be in order
// and not overlap.
func mentions(text string, skip []Range) []mention {
	if !strings.ContainsAny(text, "@[") {
		return nil
	}
	var out []mention
	code := codeRanges(text)
	for i := 0; i < len(text); i++ {
		if end, inside := within(&code, i); inside {
			i = end - 1
			continue
		}
		if end, inside := within(&skip, i); inside {
			i = end - 1
			continue
		}
		before := text
		if len(skip) > 0 { // a name does not go on in what is passed over
			before = text[:skip[0].Start]
		}
		switch text[i] {
		case '@':
			if i > 0 && (wordByte(text[i-1]) || text[i-1] == '`') {
				continue
			}
			name := run(before[i+1:])
			if name != "" && len(name) <= maxName {
				out = append(out, mention{name: name})
			}
			i += len(name)
		case '[':
			for _, name := range bracketAt(before, i) {
				out = append(out, mention{name: name, bracket: true})
			}
		}
	}
	return out
}

// within drops the ranges that end before i and reports whether the next one
// holds i.
func within(ranges *[]Range, i int) (end int, inside bool) {
	for len(*ranges) > 0 && (*ranges)[0].End <= i {
		*ranges = (*ranges)[1:]
	}
	if len(*ranges) == 0 || (*ranges)[0].Start > i {
		return 0, false
	}
	return (*ranges)[0].End, true
}

// run is the beginning of s up to white space, a comma or a backtick.
func run(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool {
		switch r {
		case '`', ',', utf8.RuneError:
			return true
		}
		return isSpace(r)
	})
	if end < 0 {
		return s
	}
	return s[:end]
}

// isSpace is white space as JavaScript's \s has it, which includes the BOM.
func isSpace(r rune) bool {
	switch r {
	case ' ', '\t', '\n', '\v', '\f', '\r', 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF:
		return true
	}
	return r >= 0x2000 && r <= 0x200A
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// Marks that may follow a name without belonging to it. Before full-width
// ones and after them Chinese and Japanese texts have no space.
const (
	wideMarks = "\u3001\u3002\uff0c\uff1a\uff1b\uff01\uff1f\uff09\u300d\u300f\u201d\u2019\u300b"
	marks     = ".;:!?)]}>\"'*_" + wideMarks
)

// candidates are the names that a run may stand for, longest first: the run
// itself, then with the marks after it taken off one by one; the same up to
// the first full-width mark, and up to the first letter that is not ASCII.
func candidates(run string) []string {
	out := trimmed(nil, run)
	if i := strings.IndexAny(run, wideMarks); i > 0 {
		out = trimmed(out, run[:i])
	}
	if i := strings.IndexFunc(run, func(r rune) bool { return r >= utf8.RuneSelf }); i > 0 {
		out = trimmed(out, run[:i])
	}
	return out
}

// trimmed adds name and what is left of it without the marks at its end. Dots
// alone are the end of a sentence then, not a folder.
func trimmed(out []string, name string) []string {
	out = append(out, name)
	for range 8 {
		r, size := utf8.DecodeLastRuneInString(name)
		if size == 0 || !strings.ContainsRune(marks, r) {
			break
		}
		name = name[:len(name)-size]
		if strings.Trim(name, ".") != "" {
			out = append(out, name)
		}
	}
	return out
}

// bracketAt are the items of a file list that begins at i: [a.go, lib/b.go].
// None when it is a link, an index, an image, a check box or prose.
func bracketAt(text string, i int) []string {
	if i > 0 && (wordByte(text[i-1]) || strings.IndexByte("`]!)\\", text[i-1]) >= 0) {
		return nil
	}
	body := text[i+1:]
	end := strings.IndexAny(body[:min(len(body), maxBracket)], "[]\n`")
	if end < 0 || body[end] != ']' {
		return nil
	}
	if rest := body[end+1:]; rest != "" && strings.IndexByte("([:", rest[0]) >= 0 {
		return nil
	}
	items := strings.Split(body[:end], ",")
	for n, item := range items {
		item = strings.TrimSpace(item)
		if item == "" || item[0] == '@' || !strings.ContainsAny(item, "./") {
			return nil
		}
		items[n] = item
	}
	return items
}

// codeRanges are the regions of text between backticks, as Markdown has them:
// a run of backticks ends at the next run of the same length in the same
// paragraph; a fence of three or more at the beginning of a line ends at such
// a line with at least as many, or at the end of the text.
func codeRanges(text string) []Range {
	runs := backtickRuns(text)
	next := sameLength(runs)
	var out []Range
	for i := 0; i < len(runs); i++ {
		r := runs[i]
		if r.fence {
			j := i + 1
			for j < len(runs) && (!runs[j].fence || runs[j].length < r.length) {
				j++
			}
			if j == len(runs) {
				return append(out, Range{r.start, len(text)})
			}
			out = append(out, Range{r.start, runs[j].start + runs[j].length})
			i = j
			continue
		}
		if j := next[i]; j > 0 && runs[j].paragraph == r.paragraph {
			out = append(out, Range{r.start, runs[j].start + runs[j].length})
			i = j
		}
	}
	return out
}

// backticks is a run of backticks.
type backticks struct {
	start, length int
	paragraph     int
	fence         bool // may open or close a block
}

func backtickRuns(text string) []backticks {
	var out []backticks
	paragraph, blank := 0, true // blank: nothing but space in the line so far
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\n':
			if blank {
				paragraph++
			}
			blank = true
		case ' ', '\t', '\r':
		case '`':
			n := 1
			for i+n < len(text) && text[i+n] == '`' {
				n++
			}
			out = append(out, backticks{start: i, length: n, paragraph: paragraph, fence: n >= 3 && blank})
			blank = false
			i += n - 1
		default:
			blank = false
		}
	}
	return out
}

// sameLength gives for each run the index of the next one of its length, or 0.
func sameLength(runs []backticks) []int {
	next := make([]int, len(runs))
	seen := map[int]int{}
	for i := len(runs) - 1; i >= 0; i-- {
		next[i] = seen[runs[i].length]
		seen[runs[i].length] = i
	}
	return next
}
