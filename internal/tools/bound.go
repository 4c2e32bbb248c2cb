package tools

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The defaults of Limits, and how long outputs that were cut are kept.
const (
	defaultLines = 2000
	defaultBytes = 50 << 10
	outputsAge   = 7 * 24 * time.Hour
)

func (l Limits) lines() int {
	if l.MaxLines > 0 {
		return l.MaxLines
	}
	return defaultLines
}

func (l Limits) bytes() int {
	if l.MaxBytes > 0 {
		return l.MaxBytes
	}
	return defaultBytes
}

// Bound cuts text to the limits: whole lines from its head, then how much was
// left out and how to read on. The whole text goes into a file of Env.Outputs
// (at most 64 MiB, head and tail), whose path is returned; path is empty when
// nothing was cut or the file could not be written, which the text then says.
func Bound(env *Env, text string) (out, path string, cut bool) {
	lines := 1 + strings.Count(text, "\n")
	if len(text) <= env.Limits.bytes() && lines <= env.Limits.lines() {
		return text, "", false
	}
	head := headLines(text, env.Limits.lines(), env.Limits.bytes())
	left := plural(lines-strings.Count(head, "\n")-1, "line", "lines")
	if len(text) > env.Limits.bytes() {
		left = plural(len(text)-len(head), "byte", "bytes")
	}
	out = head + "\n\n..." + left + " truncated...\n\n"
	s := newSpill(env)
	_, err := s.Write([]byte(text))
	if path, err2 := s.Close(); err == nil && err2 == nil {
		return out + readOn(path), path, true
	}
	return out + "The full output could not be saved. Ask for less: a narrower pattern, an offset and a limit.", "", true
}

// readOn says where the rest of a cut output is.
func readOn(path string) string {
	return "The tool call succeeded but the output was truncated. Full output saved to: " + path +
		"\nSearch that file with grep, or read parts of it with offset and limit, rather than all of it."
}

// headLines is as many whole lines from the head as fit. A first line that is
// too long alone is cut.
func headLines(text string, lines, limit int) string {
	if len(text) > limit {
		end := runeStart(text, limit)
		if nl := strings.LastIndexByte(text[:end], '\n'); nl >= 0 {
			end = nl
		}
		text = text[:end]
	}
	at := 0
	for range lines {
		nl := strings.IndexByte(text[at:], '\n')
		if nl < 0 {
			return text
		}
		at += nl + 1
	}
	return text[:at-1]
}

// tailLines is as many whole lines from the tail as fit; a last line that is
// too long alone is cut at its front.
func tailLines(text string, lines, limit int) string {
	if len(text) > limit {
		start := len(text) - limit
		for start < len(text) && start > 0 && !runeStarts(text[start]) {
			start++
		}
		if nl := strings.IndexByte(text[start:], '\n'); nl >= 0 && start+nl+1 < len(text) {
			start += nl + 1
		}
		text = text[start:]
	}
	at := len(text)
	if strings.HasSuffix(text, "\n") {
		at--
	}
	for range lines {
		nl := strings.LastIndexByte(text[:at], '\n')
		if nl < 0 {
			return text
		}
		at = nl
	}
	return text[at+1:]
}

func runeStarts(b byte) bool { return b&0xC0 != 0x80 }

// outputName is how files of a session in Env.Outputs begin.
func outputName(sessionID string) string { return "tool_" + filepath.Base(sessionID) + "_" }

// CleanOutputs removes files of dir that are older than seven days at now (in
// milliseconds). A folder that is not there is clean.
func CleanOutputs(dir string, now int64) error {
	return removeOutputs(dir, func(e os.DirEntry) bool {
		info, err := e.Info()
		return err == nil && now-info.ModTime().UnixMilli() > outputsAge.Milliseconds()
	})
}

// RemoveOutputs removes the files of dir that belong to a session.
func RemoveOutputs(dir, sessionID string) error {
	return removeOutputs(dir, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), outputName(sessionID)) })
}

func removeOutputs(dir string, old func(os.DirEntry) bool) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var first error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "tool_") && !e.IsDir() && old(e) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !os.IsNotExist(err) && first == nil {
				first = err
			}
		}
	}
	return first
}
