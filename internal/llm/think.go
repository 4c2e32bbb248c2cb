package llm

import "strings"

// ThinkTags are the pairs that models without a reasoning field put around
// their thinking.
func ThinkTags() [4][2]string {
	return [...][2]string{
		{"<think>", "</think>"},
		{"<thinking>", "</thinking>"},
		{"<thought>", "</thought>"},
		{"<reasoning>", "</reasoning>"},
	}
}

// CutThought finds thinking that a text begins with and only ends: the server
// put the opening tag into the prompt, so the model did not write it. It is
// false for a text without a closing tag, or with its opening one.
func CutThought(text string) (thought, answer string, ok bool) {
	for _, tag := range ThinkTags() {
		before, after, found := strings.Cut(text, tag[1])
		if found && !strings.Contains(before, tag[0]) {
			return before, strings.TrimLeft(after, " \t\r\n"), true
		}
	}
	return "", text, false
}
