package prompt

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// Arguments are what follows the name of a slash command.
type Arguments struct {
	Raw    string   // for $ARGUMENTS: as given
	Tokens []string // for $1, $2, …
}

// ParseArguments makes arguments of a command line's items. Two or more are
// one token each, since a shell has split them already; a single one is split
// here.
func ParseArguments(items ...string) Arguments {
	if len(items) == 1 {
		return Arguments{Raw: items[0], Tokens: tokens(items[0])}
	}
	return Arguments{Raw: strings.Join(items, " "), Tokens: items}
}

// imageToken is how a pasted image is named.
var imageToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^\[Image\s+\d+\]`) })

// tokens splits text at white space. Quotes of either kind group and are taken
// off; there is no escape character. A quote that is never closed is an
// ordinary character, so that "it's" stays whole.
func tokens(text string) []string {
	var out []string
	lastOf := map[byte]int{'"': strings.LastIndexByte(text, '"'), '\'': strings.LastIndexByte(text, '\'')}
	for i := 0; i < len(text); {
		rest := text[i:]
		if n := spaceLen(rest); n > 0 {
			i += n
			continue
		}
		if rest[0] == '[' {
			if image := imageToken().FindString(rest); image != "" {
				out = append(out, image)
				i += len(image)
				continue
			}
		}
		if quote := rest[0]; (quote == '"' || quote == '\'') && lastOf[quote] > i {
			end := strings.IndexByte(rest[1:], quote)
			out = append(out, rest[1:1+end])
			i += end + 2
			continue
		}
		n := 0
		for n < len(rest) && spaceLen(rest[n:]) == 0 {
			if quote := rest[n]; (quote == '"' || quote == '\'') && lastOf[quote] > i+n {
				break
			}
			n++
		}
		out = append(out, rest[:n])
		i += n
	}
	return out
}

// spaceLen is the length of the white space character that s begins with, or 0.
func spaceLen(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	if isSpace(r) {
		return size
	}
	return 0
}
