package tools

import (
	"slices"
	"strings"
)

// ChildEnviron is the environment for programs that a tool starts: environ
// without provider keys and the named secrets, and with what keeps programs
// from waiting for a person.
//
// The keys of the built-in providers always go; secrets names those of
// configured providers and of the config's own list. Invariant 15.
func ChildEnviron(environ, secrets []string) []string {
	quiet := []string{
		"GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "EDITOR=true", "VISUAL=true",
		"PAGER=cat", "GIT_PAGER=cat", "TERM=dumb", "DEBIAN_FRONTEND=noninteractive",
	}
	drop := append([]string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}, secrets...)
	for _, q := range quiet {
		name, _, _ := strings.Cut(q, "=")
		drop = append(drop, name)
	}
	out := make([]string, 0, len(environ)+len(quiet))
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if !slices.Contains(drop, name) {
			out = append(out, e)
		}
	}
	return append(out, quiet...)
}
