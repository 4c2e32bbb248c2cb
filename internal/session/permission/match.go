package permission

import (
	"strings"
	"unicode/utf8"
)

// Match reports whether value as a whole fits pattern: `*` stands for any run
// of characters, slashes and newlines included, `?` for exactly one, all else
// for itself. A pattern that ends in " *" also fits without that tail, so
// "git *" fits "git" and "git status" but not "gitk".
func Match(pattern, value string) bool {
	if head, ok := strings.CutSuffix(pattern, " *"); ok && wildcard(head, value) {
		return true
	}
	return wildcard(pattern, value)
}

// wildcard walks both strings once and, when it is stuck, goes back only to
// the newest star: at most len(pattern) × len(value) steps.
func wildcard(pattern, value string) bool {
	p, v := 0, 0
	star, mark := -1, 0
	for v < len(value) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, v
			p++
		case p < len(pattern) && pattern[p] == '?':
			_, size := utf8.DecodeRuneInString(value[v:])
			p++
			v += size
		case p < len(pattern) && pattern[p] == value[v]:
			p++
			v++
		case star >= 0:
			mark++
			p, v = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// everything reports whether a pattern fits any value.
func everything(pattern string) bool {
	return pattern != "" && strings.Trim(pattern, "*") == ""
}
