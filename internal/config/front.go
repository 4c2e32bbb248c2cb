package config

import (
	"bytes"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// front splits a Markdown file into its front matter and its body. A file
// without one has a nil node. The node's lines are those of the file.
func front(b []byte, file string) (*yaml.Node, string, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return nil, strings.TrimSpace(text), nil
	}
	head, body, ok := strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if head, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			return nil, "", &Error{File: file, Line: 1, Message: "the front matter has no closing ---"}
		}
	}
	// The newline in front stands for the opening ---, so lines are right.
	node, err := parse([]byte(head), file)
	if err != nil {
		if node, err = parse([]byte(quoteValues(head)), file); err != nil {
			return nil, "", err
		}
	}
	if node != nil && node.Kind != yaml.MappingNode {
		return nil, "", &Error{File: file, Line: node.Line, Message: "the front matter must be a map of keys"}
	}
	return node, strings.TrimSpace(body), nil
}

const plainLine = `^([A-Za-z][\w-]*):[ \t]+([^\s"'\[{|>&*!].*)$`

// quoteValues quotes the plain values of top-level keys: Claude Code takes
// `description: Use this when: …`, which YAML does not.
func quoteValues(head string) string {
	pattern := regexp.MustCompile(plainLine)
	lines := strings.Split(head, "\n")
	for i, l := range lines {
		if m := pattern.FindStringSubmatch(l); m != nil {
			lines[i] = m[1] + ": '" + strings.ReplaceAll(strings.TrimSpace(m[2]), "'", "''") + "'"
		}
	}
	return strings.Join(lines, "\n")
}
