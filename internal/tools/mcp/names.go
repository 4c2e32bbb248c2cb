package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is what providers take of a tool's name.
const maxName = 64

// names gives out names without doubles.
type names map[string]bool

// take is name made of letters, digits, "_" and "-", at most 64 long. A name
// that had to be cut, or is taken, ends with a hash of what it stands for, so
// it is the same in every run.
func (n names) take(server, tool string) string {
	clean := cleanName(server + "_" + tool)
	if len(clean) <= maxName && !n[clean] {
		n[clean] = true
		return clean
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	tail := "_" + hex.EncodeToString(sum[:4])
	clean = clean[:min(len(clean), maxName-len(tail))] + tail
	if n[clean] {
		return ""
	}
	n[clean] = true
	return clean
}

// cleanName replaces each character that providers refuse.
func cleanName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}
