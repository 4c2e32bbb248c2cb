package tools

import (
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// exact finds the text as it is, line ends folded.
func exact(have, want *lined) []span { return occurrences(have.text, want.text, strings.Index) }

// typography takes curly quotes, dashes, odd spaces and the ellipsis for
// their plain forms.
func typography(have, want *lined) []span {
	plain, at := plainText(have.text)
	wanted, _ := plainText(want.text)
	if plain == have.text && wanted == want.text {
		return nil
	}
	var found []span
	for _, s := range occurrences(plain, wanted, strings.Index) {
		if start, end := at(s.start), at(s.end); start >= 0 && end >= 0 {
			found = append(found, span{start, end})
		}
	}
	return found
}

// plainText folds typography, and returns how a position in the folded text
// maps to the text: -1 inside of what one character was folded to.
func plainText(text string) (string, func(int) int) {
	var b strings.Builder
	type shift struct {
		folded, text int
		one          bool // up to the next shift is one character
	}
	shifts := []shift{{}} // where the distance between both changes
	for i, r := range text {
		p := plainRune(r)
		if p == "" {
			_, n := utf8.DecodeRuneInString(text[i:])
			b.WriteString(text[i : i+n])
			continue
		}
		shifts = append(shifts, shift{b.Len(), i, true})
		b.WriteString(p)
		shifts = append(shifts, shift{b.Len(), i + utf8.RuneLen(r), false})
	}
	return b.String(), func(at int) int {
		i := sort.Search(len(shifts), func(i int) bool { return shifts[i].folded > at }) - 1
		s := shifts[i]
		if s.one && at > s.folded {
			return -1
		}
		return s.text + at - s.folded
	}
}

// plainRune is the plain form of a typographic character, or "".
func plainRune(r rune) string {
	switch r {
	case '‘', '’', '‚', '‛', '′':
		return "'"
	case '“', '”', '„', '‟', '″', '«', '»':
		return `"`
	case '‐', '‑', '‒', '–', '—', '―', '−':
		return "-"
	case '…':
		return "..."
	case '\u00a0', '\u2002', '\u2003', '\u2004', '\u2005', '\u2006', '\u2007', '\u2008', '\u2009', '\u200a', '\u202f', '\u205f', '\u3000':
		return " "
	}
	return ""
}

// windows finds runs of lines that equal the wanted lines after norm.
func windows(have, want *lined, norm func(string) string) []span {
	lines, whole := want.wanted()
	if blank(lines) {
		return nil
	}
	for i := range lines {
		lines[i] = norm(lines[i])
	}
	normed := make([]string, len(have.lines))
	for i := range normed {
		normed[i] = norm(have.line(i))
	}
	var out []span
	for i := 0; i+len(lines) <= len(normed); i++ {
		if slices.Equal(normed[i:i+len(lines)], lines) {
			out = append(out, have.block(i, len(lines), whole))
		}
	}
	return out
}

func blank(lines []string) bool {
	return !slices.ContainsFunc(lines, func(l string) bool { return strings.TrimSpace(l) != "" })
}

// trimmedLines ignores blanks at both ends of each line.
func trimmedLines(have, want *lined) []span { return windows(have, want, strings.TrimSpace) }

// indentation ignores how far the whole block is indented, and blanks at the
// ends of lines.
func indentation(have, want *lined) []span {
	lines, whole := want.wanted()
	if blank(lines) {
		return nil
	}
	lines = dedent(lines)
	block := make([]string, len(lines))
	var out []span
	for i := 0; i+len(lines) <= len(have.lines); i++ {
		if strings.TrimSpace(have.line(i)) != strings.TrimSpace(lines[0]) {
			continue
		}
		for j := range block {
			block[j] = have.line(i + j)
		}
		if slices.Equal(dedent(block), lines) {
			out = append(out, have.block(i, len(lines), whole))
		}
	}
	return out
}

// dedent takes off the indentation that all lines with text share.
func dedent(lines []string) []string {
	common, first := "", true
	for _, l := range lines {
		if strings.TrimSpace(l) == "" {
			continue
		}
		indent := l[:len(l)-len(strings.TrimLeft(l, " \t"))]
		if first {
			common, first = indent, false
			continue
		}
		n := 0
		for n < len(common) && n < len(indent) && common[n] == indent[n] {
			n++
		}
		common = common[:n]
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = strings.TrimRightFunc(strings.TrimPrefix(l, common), unicode.IsSpace)
	}
	return out
}

// whiteSpace takes every run of blanks for one: whole lines, or, for a single
// line, words within one.
func whiteSpace(have, want *lined) []span {
	if found := windows(have, want, collapse); len(found) > 0 {
		return found
	}
	words := strings.Fields(want.text)
	if lines, _ := want.wanted(); len(lines) != 1 || len(words) < 2 {
		return nil
	}
	for i := range words {
		words[i] = regexp.QuoteMeta(words[i])
	}
	re, err := regexp.Compile(strings.Join(words, `[ \t]+`))
	if err != nil {
		return nil
	}
	var out []span
	for _, m := range re.FindAllStringIndex(have.text, -1) {
		out = append(out, span{m[0], m[1]})
	}
	return out
}

func collapse(line string) string { return strings.Join(strings.Fields(line), " ") }

// escapes takes \n, \t, \" and the like in the wanted text for what they
// stand for.
func escapes(have, want *lined) []span {
	plain := unescape(want.text)
	if plain == want.text || strings.TrimSpace(plain) == "" {
		return nil
	}
	return occurrences(have.text, plain, strings.Index)
}

func unescape(text string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\'`, "'", `\"`, `"`, "\\`", "`", `\$`, "$", "\\\n", "\n").Replace(text)
}

// trimmedEnds ignores blanks and empty lines around the wanted text.
func trimmedEnds(have, want *lined) []span {
	trimmed := strings.TrimSpace(want.text)
	if trimmed == "" || trimmed == want.text {
		return nil
	}
	return occurrences(have.text, trimmed, strings.Index)
}

// anchored calls found for each block that begins and ends with the first and
// last wanted line and whose length is between least and most lines.
func anchored(have *lined, lines []string, least, most int, found func(i, n int)) {
	first, last := strings.TrimSpace(lines[0]), strings.TrimSpace(lines[len(lines)-1])
	if first == "" || last == "" {
		return
	}
	for i := range have.lines {
		if strings.TrimSpace(have.line(i)) != first {
			continue
		}
		for j := i + 2; j < len(have.lines) && j-i+1 <= most; j++ {
			if strings.TrimSpace(have.line(j)) != last {
				continue
			}
			if j-i+1 >= least {
				found(i, j-i+1)
			}
			break // the block ends at its first end
		}
	}
}

// The bounds of blockAnchors: how alike the middle lines must be, and how
// many blocks are looked at.
const (
	alike     = 0.65
	maxBlocks = 200
)

// blockAnchors wants the first and last line and a middle that is alike.
func blockAnchors(have, want *lined) []span {
	lines, whole := want.wanted()
	if len(lines) < 3 {
		return nil
	}
	slack := max(1, len(lines)/4)
	var out []span
	looked := 0
	anchored(have, lines, len(lines)-slack, len(lines)+slack, func(i, n int) {
		if looked++; looked > maxBlocks {
			return
		}
		sum, count := 0.0, 0
		for j := 1; j < min(n, len(lines))-1; j++ {
			a, b := strings.TrimSpace(have.line(i+j)), strings.TrimSpace(lines[j])
			if a == "" && b == "" {
				continue
			}
			sum += similarity(a, b)
			count++
		}
		if count == 0 || sum/float64(count) >= alike {
			out = append(out, have.block(i, n, whole))
		}
	})
	return out
}

// contextLines wants the first and last line, the number of lines and half of
// those between.
func contextLines(have, want *lined) []span {
	lines, whole := want.wanted()
	if len(lines) < 3 {
		return nil
	}
	var out []span
	anchored(have, lines, len(lines), len(lines), func(i, n int) {
		same, count := 0, 0
		for j := 1; j < n-1; j++ {
			b := strings.TrimSpace(lines[j])
			if b == "" {
				continue
			}
			count++
			if strings.TrimSpace(have.line(i+j)) == b {
				same++
			}
		}
		if 2*same >= count && count > 0 {
			out = append(out, have.block(i, n, whole))
		}
	})
	return out
}

// similarity of two lines is from 0 to 1; long ones are judged by their
// beginning.
func similarity(a, b string) float64 {
	const enough = 300
	a, b = a[:min(len(a), enough)], b[:min(len(b), enough)]
	longer := max(len(a), len(b))
	if longer == 0 {
		return 1
	}
	return 1 - float64(distance(a, b))/float64(longer)
}
