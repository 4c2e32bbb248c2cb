package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"
)

func TestRead(t *testing.T) {
	env := newEnv(t)
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune("größe 😀\r\nb\r\n")) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	many := ""
	for i := range 5000 {
		many += fmt.Sprintf("line-%d\n", i+1)
	}
	for _, c := range []struct {
		name, content string
		args          m
		says          []string
		not           string
	}{
		{"plain", "a\nb\n", nil, []string{"<path>", "<type>file</type>\n<content>\n1: a\n2: b\n", "(End of file - total 2 lines)\n</content>"}, "3:"},
		{"no final newline", "a\nb", nil, []string{"1: a\n2: b\n\n(End of file - total 2 lines)"}, "3:"},
		{"crlf and bom", "\xef\xbb\xbfa\r\nb\r\n", nil, []string{"1: a\n2: b\n"}, "\r"},
		{"empty", "", nil, []string{"(The file is empty - total 0 lines)"}, "1:"},
		{"offset", many, m{"offset": 4000, "limit": 2}, []string{"4000: line-4000\n4001: line-4001\n", "(Showing lines 4000-4001 of 5000. Use offset=4002 to continue.)"}, "line-4002"},
		{"offset 0", many, m{"offset": 0, "limit": 1}, []string{"1: line-1\n"}, "line-2"},
		{"default limit", many, nil, []string{"2000: line-2000\n", "Use offset=2001"}, "line-2001"},
		{"long line", strings.Repeat("y", 2_000_000), nil, []string{"... (line truncated to 2000 chars)", "total 1 lines"}, strings.Repeat("y", 2001)},
		{"capped", strings.Repeat(strings.Repeat("z", 999)+"\n", 200), nil, []string{"(Output capped at 50 KB. Showing lines 1-51 of 200. Use offset=52 to continue.)"}, "52:"},
		{"latin1", "gr\xfc\xdfe\n", nil, []string{"1: grüße", "not UTF-8"}, "\ufffd"},
		{"late latin1", strings.Repeat("x\n", 1999) + "\xfc\n", nil, []string{"2000: ü", "not UTF-8"}, "\ufffd"},
		{"utf16", string(wide), nil, []string{"1: größe 😀\n2: b\n", "UTF-16"}, "\ufffd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := put(t, env, "f", c.content)
			args := m{"filePath": path}
			for k, v := range c.args {
				args[k] = v
			}
			r := does(t, env, "read", args)
			holds(t, r.Output, c.says...)
			if strings.Contains(r.Output, c.not) {
				t.Errorf("%q is in the output", cutText(c.not, 50))
			}
			if len(r.Output) > 60_000 || !r.Bounded {
				t.Errorf("%d bytes", len(r.Output))
			}
			if s := stamps(t, r); s[0].Hash != hashOf([]byte(c.content)) {
				t.Errorf("stamp %v", s)
			}
		})
	}
}

func TestReadRefused(t *testing.T) {
	env := newEnv(t)
	put(t, env, "config.yaml", "x")
	put(t, env, "bin", "a\x00b")
	put(t, env, "short", "a\n")
	if err := syscall.Mkfifo(filepath.Join(env.Directory, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds(t, fails(t, env, "read", m{"filePath": "config.yml"}), "File not found: "+env.Directory, "Did you mean one of these?\n", "config.yaml")
	holds(t, fails(t, env, "read", m{"filePath": "cofnig.yaml"}), "config.yaml")
	holds(t, fails(t, env, "read", m{"filePath": "pipe"}), "named pipe")
	holds(t, fails(t, env, "read", m{"filePath": "/dev/zero"}), "device")
	holds(t, fails(t, env, "read", m{"filePath": "bin"}), "Cannot read binary file")
	holds(t, fails(t, env, "read", m{"filePath": "short", "offset": 9}), "Offset 9 is out of range for this file (1 lines)")
	holds(t, fails(t, env, "read", m{"filePath": "short", "lines": 9}), `"lines" is unknown`)
	if _, err := openRegular(filepath.Join(env.Directory, "pipe")); err == nil {
		t.Error("a FIFO was opened")
	}
}

func TestReadFolder(t *testing.T) {
	env := newEnv(t)
	put(t, env, "d/b.txt", "")
	put(t, env, "d/.hidden/x", "")
	put(t, env, "d/a.txt", "")
	r := does(t, env, "read", m{"filePath": "d"})
	holds(t, r.Output, "<type>directory</type>\n<entries>\n.hidden/\na.txt\nb.txt\n\n(3 entries)\n</entries>")
	r = does(t, env, "read", m{"filePath": "d", "offset": 2, "limit": 1})
	holds(t, r.Output, "<entries>\na.txt\n\n(Showing 1 of 3 entries. Use 'offset' parameter to read beyond entry 2)")
}

func TestReadImages(t *testing.T) {
	env := newEnv(t)
	noise := image.NewRGBA(image.Rect(0, 0, 3000, 1500))
	for i := range noise.Pix {
		noise.Pix[i] = byte(i * i >> 3)
	}
	for i := 3; i < len(noise.Pix); i += 4 {
		noise.Pix[i] = 255
	}
	noise.Set(0, 0, color.Black)
	var b bytes.Buffer
	if err := png.Encode(&b, noise); err != nil {
		t.Fatal(err)
	}
	put(t, env, "big", b.String())
	r := does(t, env, "read", m{"filePath": "big"})
	holds(t, r.Output, "Image read successfully (scaled from 3000 × 1500 to ")
	if len(r.Attachments) != 1 || len(r.Attachments[0].URL) > maxImageBase64+100 {
		t.Fatalf("%d attachments", len(r.Attachments))
	}
	_, data, _ := strings.Cut(r.Attachments[0].URL, ";base64,")
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil || config.Width > maxImageEdge {
		t.Errorf("%v %v", config, err)
	}
	put(t, env, "doc", "%PDF-1.4 tiny")
	r = does(t, env, "read", m{"filePath": "doc"})
	if r.Output != "PDF read successfully" || r.Attachments[0].Mime != "application/pdf" || r.Attachments[0].Filename != "doc" {
		t.Errorf("%v", r)
	}
	put(t, env, "broken", "\x89PNG\r\n\x1a\nnothing")
	holds(t, fails(t, env, "read", m{"filePath": "broken"}), "Cannot attach", "damaged")
}

// Lines far into a large file take memory for those lines only.
func TestReadFarInto1GB(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a gigabyte")
	}
	env := newEnv(t)
	path := filepath.Join(env.Directory, "huge")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("0123456789abcdef\n", 1<<16))
	for range 16 { // 1,048,576 lines, then a gigabyte that takes no room on disk
		if _, err := file.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(file.Truncate(1<<30), file.Close()); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := does(t, env, "read", m{"filePath": path, "offset": 1_000_000, "limit": 11})
	runtime.ReadMemStats(&after)
	holds(t, r.Output, "1000000: 0123456789abcdef\n", "1000010: ", "of a larger file. Use offset=1000011")
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := call(ctx, t, env, "read", m{"filePath": path}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWrite(t *testing.T) {
	env := newEnv(t)
	r := does(t, env, "write", m{"filePath": "new/dir/f", "content": "x"})
	path := filepath.Join(env.Directory, "new/dir/f")
	if content(t, path) != "x" || r.Output != "Wrote file successfully." || string(r.Metadata["exists"]) != "false" {
		t.Errorf("%q %v", content(t, path), r)
	}
	does(t, env, "write", m{"filePath": "new/dir/f", "content": "y"}) // what we wrote we have seen

	old := put(t, env, "old", "precious\n")
	holds(t, fails(t, env, "write", m{"filePath": old, "content": "x"}), "was not read", "Read it first")
	does(t, env, "read", m{"filePath": old})
	put(t, env, "old", "changed!\n")
	holds(t, fails(t, env, "write", m{"filePath": old, "content": "x"}), "changed since")
	if content(t, old) != "changed!\n" {
		t.Error("it was written")
	}
	for _, c := range []struct{ before, content, want string }{
		{"\xef\xbb\xbfa\r\nb\r\n", "c\nd\n", "\xef\xbb\xbfc\r\nd\r\n"},
		{"a\r\nb\n", "c\nd\n", "c\nd\n"},
		{"a\n", "c\r\n", "c\r\n"},
		{"\xff\xfea\x00", "é\n", "\xff\xfe\xe9\x00\n\x00"},
		{"\xe9\n", "é\n", "\xe9\n"},
		{"\xe9\n", "€\n", "€\n"},
	} {
		path := put(t, env, "styled", c.before)
		does(t, env, "read", m{"filePath": path})
		does(t, env, "write", m{"filePath": path, "content": c.content})
		if got := content(t, path); got != c.want {
			t.Errorf("%q over %q: got %q, wanted %q", c.content, c.before, got, c.want)
		}
	}
	holds(t, fails(t, env, "write", m{"filePath": ".", "content": "x"}), "directory")
}
