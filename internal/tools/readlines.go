package tools

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"rally/internal/session"
)

// readLines shows a page of a text file. It holds no more than a line's shown
// part and the page, however long the file and its lines are. The whole file
// is hashed in the same pass unless it is large.
func readLines(ctx context.Context, env *Env, p Place, file *os.File, c coding, args readArgs) (Result, error) {
	info, err := file.Stat()
	if err != nil {
		return Result{}, err
	}
	hash := sha256.New()
	hashed := info.Size() <= maxHashed
	var src io.Reader = file
	if hashed {
		src = io.TeeReader(file, hash)
	}
	pg := page{first: args.first(), count: args.count(env), limit: env.Limits.bytes(), coding: c, whole: hashed}
	if err := pg.read(ctx, src); err != nil {
		return Result{}, fmt.Errorf("read %s: %w", p.Path, err)
	}
	if pg.first > max(1, pg.lines) && pg.end {
		return Result{}, tell("Offset %d is out of range for this file (%d lines)", pg.first, pg.lines)
	}
	stamp := stampOf(p.Path, info, "")
	if hashed {
		stamp.Hash = hex.EncodeToString(hash.Sum(nil))
	}
	meta := session.Metadata{}
	meta.Set("truncated", !pg.end || pg.shown < pg.lines || pg.cutLines > 0)
	preview := strings.SplitN(pg.plain.String(), "\n", 21)
	meta.Set("preview", strings.Join(preview[:min(20, len(preview))], "\n"))
	saw(env, meta, stamp)
	out := fmt.Sprintf("<path>%s</path>\n<type>file</type>\n<content>\n%s\n%s\n</content>", p.Path, pg.text.String(), pg.footer())
	return Result{Output: out, Title: p.Pattern, Metadata: meta, Bounded: true}, nil
}

// page is what is shown of a file.
type page struct {
	first, count int // the wanted lines
	limit        int // bytes
	coding       coding
	whole        bool // read to the end in any case

	text     strings.Builder // with line numbers
	plain    strings.Builder // the first lines without
	used     int
	lines    int // seen so far
	shown    int // number of the last line shown; 0 none
	full     bool
	end      bool // the end of the file was seen
	odd      bool // bytes that are not UTF-8 were shown
	cutLines int
}

func (pg *page) read(ctx context.Context, src io.Reader) error {
	r := bufio.NewReaderSize(src, 64<<10)
	if pg.coding == utf16LE || pg.coding == utf16BE {
		r = bufio.NewReaderSize(&utf16Reader{src: r, coding: pg.coding}, 64<<10)
	}
	if head, err := r.Peek(len(utf8BOM)); err == nil && string(head) == utf8BOM {
		_, _ = r.Discard(len(utf8BOM))
	}
	var line []byte
	begun := false
	for n := 0; ; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		piece, err := r.ReadSlice('\n')
		if keep := min(len(piece), maxLine*utf8.UTFMax+2-len(line)); keep > 0 && pg.wants() {
			line = append(line, piece[:keep]...)
		}
		begun = begun || len(piece) > 0
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		pg.end = errors.Is(err, io.EOF)
		if err != nil && !pg.end {
			return err
		}
		if begun && pg.add(line) {
			pg.end = false
			return nil
		}
		line, begun = line[:0], false
		if pg.end {
			return nil
		}
	}
}

// wants reports whether the line that is being read will be shown.
func (pg *page) wants() bool { return !pg.full && pg.lines+1 >= pg.first }

// add takes the next line, of which line is at least the part to show. It
// reports whether the reading may end.
func (pg *page) add(line []byte) bool {
	pg.lines++
	if pg.lines < pg.first || pg.full {
		return false
	}
	if pg.lines >= pg.first+pg.count {
		pg.full = true
		return !pg.whole
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
	if !utf8.ValidString(text) {
		pg.odd = true
		text = mixedText.decode([]byte(text))
	}
	if cut, long := cutLine(text); long {
		text = cut
		pg.cutLines++
	}
	if pg.used+len(text)+1 > pg.limit && pg.shown > 0 {
		pg.full = true
		return !pg.whole
	}
	pg.used += len(text) + 1
	pg.shown = pg.lines
	fmt.Fprintf(&pg.text, "%d: %s\n", pg.lines, text)
	if pg.lines < pg.first+20 {
		pg.plain.WriteString(text + "\n")
	}
	return false
}

// cutLine shortens a line of more than maxLine characters.
func cutLine(text string) (string, bool) {
	if len(text) <= maxLine {
		return text, false
	}
	n := 0
	for i := range text {
		if n++; n > maxLine {
			return text[:i] + fmt.Sprintf("... (line truncated to %d chars)", maxLine), true
		}
	}
	return text, false
}

func (pg *page) footer() string {
	var out string
	switch {
	case pg.end && pg.lines == 0:
		out = "(The file is empty - total 0 lines)"
	case pg.end && pg.shown == pg.lines:
		out = fmt.Sprintf("(End of file - total %d lines)", pg.lines)
	case !pg.end:
		out = fmt.Sprintf("(Showing lines %d-%d of a larger file. Use offset=%d to continue.)", pg.first, pg.shown, pg.shown+1)
	case pg.shown-pg.first+1 < pg.count:
		out = fmt.Sprintf("(Output capped at %d KB. Showing lines %d-%d of %d. Use offset=%d to continue.)", pg.limit>>10, pg.first, pg.shown, pg.lines, pg.shown+1)
	default:
		out = fmt.Sprintf("(Showing lines %d-%d of %d. Use offset=%d to continue.)", pg.first, pg.shown, pg.lines, pg.shown+1)
	}
	c := pg.coding
	if pg.odd && c == utf8Text {
		c = mixedText
	}
	if note := c.note(); note != "" && (pg.odd || c != mixedText) {
		out += "\n" + note
	}
	return out
}

// utf16Reader turns UTF-16 into UTF-8 while it is read.
type utf16Reader struct {
	src    io.Reader
	coding coding
	out    []byte
	rest   []byte // bytes that are no whole character yet
	err    error
}

// Read implements io.Reader.
func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.out) == 0 && u.err == nil {
		buf := make([]byte, 32<<10)
		n := copy(buf, u.rest)
		m, err := u.src.Read(buf[n:])
		u.err = err
		buf = buf[:n+m]
		end := len(buf) &^ 1
		if end >= 2 && err == nil && u.coding.order().Uint16(buf[end-2:])&0xfc00 == 0xd800 {
			end -= 2 // the other half of the pair is still to come
		}
		u.out = []byte(u.coding.decode(buf[:end]))
		u.rest = append(u.rest[:0], buf[end:]...)
	}
	if len(u.out) == 0 {
		return 0, u.err
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}
