package tools

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rally/internal/session"
)

//go:embed read.md
var readText string

const (
	maxLine   = 2000 // characters of a line that are shown
	sniffSize = 4096
	// maxHashed is the largest file that is read to its end only to know its
	// hash; beyond it size and time must do.
	maxHashed = 16 << 20
)

const readSchema = `{"type":"object","properties":{
"filePath":{"type":"string","description":"The file or folder; absolute, or relative to the session's directory"},
"offset":{"type":"integer","description":"The first line to show, from 1","minimum":0},
"limit":{"type":"integer","description":"How many lines; 2000 if absent","minimum":0}},
"required":["filePath"],"additionalProperties":false}`

type readArgs struct {
	FilePath string `json:"filePath"`
	Offset   int    `json:"offset"`
	Limit    int    `json:"limit"`
}

func newRead() Tool {
	return tool[readArgs]{
		name: "read", text: readText, schema: readSchema,
		access: func(env *Env, args readArgs) ([]Access, error) {
			p, err := Resolve(env, args.FilePath)
			if err != nil {
				return nil, err
			}
			return p.Access("read", p.Pattern), nil
		},
		run: runRead,
	}
}

// first and count are the wanted lines; 0 means what is usual.
func (a readArgs) first() int { return max(1, a.Offset) }

func (a readArgs) count(env *Env) int {
	if a.Limit > 0 {
		return a.Limit
	}
	return env.Limits.lines()
}

func runRead(ctx context.Context, env *Env, args readArgs) (Result, error) {
	p, err := Resolve(env, args.FilePath)
	if err != nil {
		return Result{}, err
	}
	info, err := os.Stat(p.Path)
	switch {
	case err != nil:
		return Result{}, missing(p.Path, err)
	case info.IsDir():
		return readFolder(env, p, args)
	case !info.Mode().IsRegular():
		return Result{}, notRegular(p.Path, info)
	}
	file, err := openRegular(p.Path)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = file.Close() }()
	sniff := make([]byte, sniffSize)
	n, err := io.ReadFull(file, sniff)
	if err != nil && n == 0 && info.Size() > 0 {
		return Result{}, fmt.Errorf("read %s: %w", p.Path, err)
	}
	sniff = sniff[:n]
	if mime := attachmentType(sniff); mime != "" {
		return readAttachment(env, p.Path, file, mime)
	}
	if isBinary(sniff) {
		return Result{}, tell("Cannot read binary file: %s (%s). Look into it with bash: file, strings, xxd or a program for its format.",
			p.Path, plural(int(info.Size()), "byte", "bytes"))
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return Result{}, err
	}
	return readLines(ctx, env, p, file, codingOfStart(sniff), args)
}

// codingOfStart is codingOf for a beginning that may end inside a character.
func codingOfStart(b []byte) coding {
	if len(b) == sniffSize {
		b = b[:runeStart(b, len(b)-4)]
	}
	return codingOf(b)
}

// openRegular opens a regular file; one that became a FIFO since it was looked
// at does not block.
func openRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, missing(path, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(path, info)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func notRegular(path string, info fs.FileInfo) error {
	kind := "special file"
	switch m := info.Mode(); {
	case m.IsDir():
		return tell("Path is a directory, not a file: %s", path)
	case m&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	case m&fs.ModeSocket != 0:
		kind = "socket"
	case m&fs.ModeDevice != 0:
		kind = "device"
	}
	return tell("Cannot read %s: it is a %s, and only regular files and folders can be read.", path, kind)
}

// missing is the error for a file that cannot be reached, with names that are
// near.
func missing(path string, err error) error {
	if !os.IsNotExist(err) {
		return tell("Cannot open %s: %v", path, plainError(err))
	}
	text := "File not found: " + path
	if near := nearNames(path); len(near) > 0 {
		text += "\n\nDid you mean one of these?\n" + strings.Join(near, "\n")
	}
	return told(text)
}

// nearNames lists up to three siblings whose names are like that of path.
func nearNames(path string) []string {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(10_000) // a part of a huge folder will do
	base := strings.ToLower(filepath.Base(path))
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	var out []string
	for pass := range 2 {
		for _, name := range sorted(names) {
			low := strings.ToLower(name)
			var near bool
			if pass == 0 {
				near = strings.Contains(low, base) || strings.Contains(base, low) || strings.TrimSuffix(low, filepath.Ext(low)) == stem
			} else {
				near = distance(low, base) <= max(1, len(base)/4)
			}
			full := filepath.Join(filepath.Dir(path), name)
			if near && len(out) < 3 && !slices.Contains(out, full) {
				out = append(out, full)
			}
		}
	}
	return out
}

// isBinary judges by the beginning of a file: NUL, or too many control codes.
func isBinary(b []byte) bool {
	if c := codingOfStart(b); c == utf16LE || c == utf16BE {
		return false
	}
	odd := 0
	for _, c := range b {
		if c == 0 {
			return true
		}
		if c < 9 || (c > 13 && c < 32 && c != 0x1b) {
			odd++
		}
	}
	return odd*10 > len(b)*3
}

// readFolder lists a folder, a page at a time.
func readFolder(_ *Env, p Place, args readArgs) (Result, error) {
	entries, err := os.ReadDir(p.Path)
	if err != nil {
		return Result{}, missing(p.Path, err)
	}
	first, limit := args.first(), args.Limit
	if limit <= 0 {
		limit = defaultLines
	}
	if first > max(1, len(entries)) {
		return Result{}, tell("Offset %d is out of range for this directory (%d entries)", first, len(entries))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<path>%s</path>\n<type>directory</type>\n<entries>\n", p.Path)
	shown := entries[first-1 : min(len(entries), first-1+limit)]
	used := 0
	for i, e := range shown {
		name := strings.ToValidUTF8(e.Name(), "\ufffd")
		if isFolder(p.Path, e) {
			name += "/"
		}
		if used += len(name) + 1; used > defaultBytes {
			shown = shown[:i]
			break
		}
		b.WriteString(name + "\n")
	}
	last := first - 1 + len(shown)
	cut := last < len(entries)
	if cut {
		fmt.Fprintf(&b, "\n(Showing %d of %d entries. Use 'offset' parameter to read beyond entry %d)\n", len(shown), len(entries), last)
	} else {
		fmt.Fprintf(&b, "\n(%d entries)\n", len(entries))
	}
	b.WriteString("</entries>")
	meta := session.Metadata{}
	meta.Set("truncated", cut)
	return Result{Output: b.String(), Title: p.Pattern, Metadata: meta, Bounded: true}, nil
}

func isFolder(dir string, e os.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	return err == nil && info.IsDir()
}
