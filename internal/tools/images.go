package tools

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif"
	"image/jpeg"
	"image/png"
	"net/http"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"
)

// What providers take of an image or a document in one request, measured
// after base64.
const (
	maxImageBase64 = 4_500_000
	maxPDFBase64   = 20 << 20
	maxImageEdge   = 2000        // pixels
	maxImagePixels = 100_000_000 // beyond it decoding costs too much memory
	maxImageFile   = 64 << 20
)

// attachmentType is the media type of a file that models take as it is, judged
// by its first bytes; empty for all others.
func attachmentType(head []byte) string {
	switch mime := http.DetectContentType(head); mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf":
		return mime
	}
	return ""
}

// FitImage makes an image small enough for a model: at most 2,000 pixels on
// an edge and 4.5 MB in base64. An image that fits comes back as it is; one
// that cannot be made to fit is an error. note is empty unless it was scaled.
func FitImage(data []byte, mime string) (out []byte, outMime, note string, err error) {
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, "", "", tell("The image is damaged or of a kind that cannot be read: %v", err)
	}
	w, h := config.Width, config.Height
	if base64.StdEncoding.EncodedLen(len(data)) <= maxImageBase64 && max(w, h) <= maxImageEdge {
		return data, mime, "", nil
	}
	if w <= 0 || h <= 0 || w > maxImagePixels/h {
		return nil, "", "", tell("The image is too large to be scaled (%d × %d pixels). Scale it with another program first.", w, h)
	}
	full, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, "", "", tell("The image is damaged: %v", err)
	}
	for edge := min(max(w, h), maxImageEdge); edge >= 64; edge = edge * 3 / 4 {
		small := scale(full, edge)
		for _, e := range encodings(small) {
			var b bytes.Buffer
			if e.write(&b) == nil && base64.StdEncoding.EncodedLen(b.Len()) <= maxImageBase64 {
				s := small.Bounds()
				note = fmt.Sprintf("scaled from %d × %d to %d × %d pixels", w, h, s.Dx(), s.Dy())
				return b.Bytes(), e.mime, note, nil
			}
		}
	}
	return nil, "", "", tell("The image cannot be made small enough.")
}

type encoding struct {
	mime  string
	write func(*bytes.Buffer) error
}

// encodings are tried in order: lossless first, JPEG where nothing would be
// seen through.
func encodings(m *image.RGBA) []encoding {
	out := []encoding{{"image/png", func(b *bytes.Buffer) error { return png.Encode(b, m) }}}
	if m.Opaque() {
		out = append(out, encoding{"image/jpeg", func(b *bytes.Buffer) error { return jpeg.Encode(b, m, &jpeg.Options{Quality: 85}) }})
	}
	return out
}

// scale draws m so that its longer edge has the given length.
func scale(m image.Image, edge int) *image.RGBA {
	b := m.Bounds()
	w, h := b.Dx(), b.Dy()
	long := max(w, h)
	dst := image.NewRGBA(image.Rect(0, 0, max(1, w*edge/long), max(1, h*edge/long)))
	kernel := draw.Interpolator(draw.CatmullRom)
	if long > 2*edge {
		kernel = draw.ApproxBiLinear // CatmullRom costs seconds here
	}
	kernel.Scale(dst, dst.Bounds(), m, b, draw.Src, nil)
	return dst
}
