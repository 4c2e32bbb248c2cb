package tools

import (
	"bytes"
	"context"
	_ "embed"
	"strings"

	"rally/internal/session"
)

//go:embed write.md
var writeText string

const writeSchema = `{"type":"object","properties":{
"filePath":{"type":"string","description":"The file; absolute, or relative to the session's directory"},
"content":{"type":"string","description":"The whole content"}},
"required":["content","filePath"],"additionalProperties":false}`

type writeArgs struct {
	FilePath string `json:"filePath"`
	Content  string `json:"content"`
}

func newWrite() Tool {
	return tool[writeArgs]{
		name: "write", text: writeText, schema: writeSchema,
		access: func(env *Env, args writeArgs) ([]Access, error) {
			p, err := Resolve(env, args.FilePath)
			if err != nil {
				return nil, err
			}
			return p.writes(), nil
		},
		run: runWrite,
	}
}

func runWrite(_ context.Context, env *Env, args writeArgs) (Result, error) {
	p, err := Resolve(env, args.FilePath)
	if err != nil {
		return Result{}, err
	}
	old, err := loadFile(p.Path)
	if err != nil {
		return Result{}, err
	}
	if err := mayOverwrite(env, old); err != nil {
		return Result{}, err
	}
	content, err := styled(old, args.Content)
	if err != nil {
		return Result{}, err
	}
	meta := session.Metadata{}
	meta.Set("filepath", p.Path)
	meta.Set("exists", old.exists())
	if err := old.put(env, meta, content); err != nil {
		return Result{}, err
	}
	return Result{Output: "Wrote file successfully.", Title: p.Pattern, Metadata: meta}, nil
}

// put replaces the file, remembers it and puts the difference into meta.
func (f oldFile) put(env *Env, meta session.Metadata, content []byte) error {
	info, err := f.replace(content)
	if err != nil {
		return err
	}
	d := fileDiff(f.path, f.content, content)
	if !f.exists() {
		d.Status = "added"
	}
	diffMeta(meta, d)
	saw(env, meta, stampOf(f.path, info, hashOf(content)))
	return nil
}

// mayOverwrite refuses to replace what the session has not seen.
func mayOverwrite(env *Env, old oldFile) error {
	if !old.exists() {
		return nil
	}
	if _, seen := env.Files.stamp(old.path); !seen {
		return tell("The file %s exists and was not read in this session. Read it first, then write it; or use edit to change a part of it.", old.path)
	}
	return mayChange(env, old)
}

// mayChange refuses to change what somebody else changed meanwhile.
func mayChange(env *Env, old oldFile) error {
	if old.exists() && env.Files.changed(old.path, old.info, old.content) {
		return tell("The file %s was changed since it was last read. Read it again, then repeat the change.", old.path)
	}
	return nil
}

// styled is content with the byte order mark, coding and line ends of the
// file it replaces.
func styled(old oldFile, content string) ([]byte, error) {
	c := codingOf(old.content)
	if len(old.content) == 0 {
		return []byte(content), nil
	}
	text := old.content
	if c == utf16LE || c == utf16BE {
		text = []byte(c.decode(old.content))
	}
	if bytes.HasPrefix(text, []byte(utf8BOM)) && !strings.HasPrefix(content, utf8BOM) {
		content = utf8BOM + content
	}
	crlf, lf := bytes.Count(text, []byte("\r\n")), bytes.Count(text, []byte("\n"))
	if crlf > 0 && crlf == lf {
		content = withLineEnds(content, "\r\n")
	}
	if c == mixedText && !holdsUTF8(old.content) && !fitsLatin1(content) {
		return []byte(content), nil // the whole file is new: UTF-8 loses nothing
	}
	return c.encode(old.content, content)
}

func fitsLatin1(text string) bool {
	for _, r := range text {
		if r > 0xff {
			return false
		}
	}
	return true
}

// withLineEnds is text with every line end as given.
func withLineEnds(text, end string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if end == "\n" {
		return text
	}
	return strings.ReplaceAll(text, "\n", end)
}
