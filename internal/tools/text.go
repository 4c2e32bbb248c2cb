package tools

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// cutText is text, or its beginning and a mark when it is longer than limit
// bytes. A character is not cut in two.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:runeStart(text, limit)] + "…"
}

// runeStart is the largest index up to at that does not split a character.
func runeStart[T string | []byte](text T, at int) int {
	for i := at; i > 0 && i > at-utf8.UTFMax; i-- {
		if i == len(text) || utf8.RuneStart(text[i]) {
			return i
		}
	}
	return at
}

// plural is "1 line", "2 lines".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return group(n) + " " + many
}

// group writes a number with commas between thousands.
func group(n int) string {
	digits := strconv.Itoa(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && d != '-' && digits[i-1] != '-' && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return out
}

// distance is the Levenshtein distance of two strings, by bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, diag+1, row[j]+1)
		}
	}
	return row[len(b)]
}
