package tools

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"rally/internal/session"
)

// readAttachment gives an image or PDF to the model as it is, scaled if need
// be. One that does not fit is left out, and the output says so.
func readAttachment(env *Env, path string, file *os.File, mime string) (Result, error) {
	info, err := file.Stat()
	if err != nil {
		return Result{}, err
	}
	if info.Size() > maxImageFile {
		return Result{}, tell("Cannot attach %s: it has %s, more than any model takes.", path, plural(int(info.Size()), "byte", "bytes"))
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, info.Size()), data); err != nil {
		return Result{}, fmt.Errorf("read %s: %w", path, err)
	}
	meta := session.Metadata{}
	meta.Set("truncated", false)
	saw(env, meta, stampOf(path, info, hashOf(data)))
	kind := "Image"
	if mime == "application/pdf" {
		kind = "PDF"
	}
	part, note, err := attach(data, mime, filepath.Base(path))
	if err != nil {
		return Result{}, tell("Cannot attach %s: %v", path, err)
	}
	out := kind + " read successfully"
	if note != "" {
		out += " (" + note + ")"
	}
	return Result{
		Output: out, Title: relative(env.Root, path), Metadata: meta, Bounded: true, Attachments: []*session.File{part},
	}, nil
}

// attach makes a file part of data.
func attach(data []byte, mime, name string) (*session.File, string, error) {
	var note string
	if strings.HasPrefix(mime, "image/") {
		var err error
		if data, mime, note, err = FitImage(data, mime); err != nil {
			return nil, "", err
		}
	} else if n := base64.StdEncoding.EncodedLen(len(data)); n > maxPDFBase64 {
		return nil, "", tell("it has %s in base64, at most %s are taken. Take out the pages you need first.",
			plural(n, "byte", "bytes"), group(maxPDFBase64))
	}
	url := "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
	return &session.File{Mime: mime, Filename: name, URL: url}, note, nil
}
