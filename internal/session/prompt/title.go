package prompt

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"rally/internal/session"
)

// DefaultTitle is the title of a session whose prompt has no text.
const DefaultTitle = "New session"

// maxTitle is the length of a title in characters.
const maxTitle = 100

// maxTitleInput bounds what the title model reads, in bytes.
const maxTitleInput = 8 << 10

// Title is a session's title from its first prompt: the first line that is not
// empty, at most 100 characters.
func Title(text string) string {
	if line := firstLine(text); line != "" {
		return line
	}
	return DefaultTitle
}

// thought is a closed block of thinking with the white space after it.
var thought = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)<think>.*?</think>\s*`) })

// CleanTitle is the title in a model's answer: without thinking, the first
// line that is not empty, at most 100 characters. Empty means that the answer
// holds none and the old title stays.
func CleanTitle(answer string) string {
	answer = thought().ReplaceAllString(answer, "")
	// Servers cut the opening mark off, and limits the closing one.
	if i := strings.LastIndex(answer, "</think>"); i >= 0 {
		answer = answer[i+len("</think>"):]
	}
	answer, _, _ = strings.Cut(answer, "<think>")
	return firstLine(answer)
}

// firstLine is the first line of text that holds something, on one line
// without control characters, cut to the length of a title.
func firstLine(text string) string {
	for len(text) > 0 {
		line := text
		if i := strings.IndexAny(text, "\r\n"); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = ""
		}
		if line = oneLine(line); line != "" {
			return line
		}
	}
	return ""
}

// oneLine joins the words of line by one space, up to the length of a title.
// It stops there: a line may be megabytes long.
func oneLine(line string) string {
	out := make([]rune, 0, maxTitle+1)
	gap := false
	for _, r := range line {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			gap = len(out) > 0
			continue
		}
		if gap {
			out, gap = append(out, ' '), false
		}
		if out = append(out, r); len(out) > maxTitle {
			return strings.TrimRight(string(out[:maxTitle-3]), " ") + "..."
		}
	}
	return string(out)
}

// TitleDue reports whether a model should be asked for a title: a root session
// that still has the title Title gave it, and exactly one user message that is
// not all synthetic.
func TitleDue(s session.Session, history []session.Message) bool {
	m := onlyUser(history)
	if s.ParentID != "" || m == nil {
		return false
	}
	return s.Title == DefaultTitle || s.Title == Title(m.Text())
}

// TitleInput is what the title model reads of history: the first user
// message's text, or the prompts of its subtasks when it holds nothing else.
// Empty when TitleDue is false for want of a message.
func TitleInput(history []session.Message) string {
	m := onlyUser(history)
	if m == nil {
		return ""
	}
	text := m.Text()
	if text == "" {
		var prompts []string
		for _, p := range m.Parts {
			if s, ok := p.(*session.Subtask); ok {
				prompts = append(prompts, s.Prompt)
			}
		}
		text = strings.Join(prompts, "\n")
	}
	if len(text) > maxTitleInput {
		text = strings.ToValidUTF8(text[:maxTitleInput], "")
	}
	return TitleRequest + text
}

// onlyUser is the one real user message of history; nil if there is none or
// more than one.
func onlyUser(history []session.Message) *session.Message {
	var only *session.Message
	for i := range history {
		if m := &history[i]; m.Role == session.User && !synthetic(m) {
			if only != nil {
				return nil
			}
			only = m
		}
	}
	return only
}

// synthetic reports whether rally wrote all of a message.
func synthetic(m *session.Message) bool {
	for _, p := range m.Parts {
		if t, ok := p.(*session.Text); !ok || !t.Synthetic {
			return false
		}
	}
	return true
}
