package tools

import (
	"bytes"
	"strings"

	"rally/internal/session"

	"github.com/aymanbagabas/go-udiff"
)

const (
	maxDiff     = 64 << 10 // bytes of a diff that are kept
	maxDiffable = 2 << 20  // bytes of a text that is compared
	diffContext = 3        // lines
)

// fileDiff compares two states of a file. Texts too large or not text get no
// patch; counts are then 0.
func fileDiff(path string, before, after []byte) session.FileDiff {
	d := session.FileDiff{File: path, Status: "modified"}
	// Only what differs is compared: the equal lines around it, less the
	// context, are cut off first, so a small change in a large file is cheap.
	head := commonHead(before, after)
	tail := commonTail(before[head:], after[head:])
	old, now := before[head:len(before)-tail], after[head:len(after)-tail]
	if len(old)+len(now) > maxDiffable || isBinary(old[:min(len(old), sniffSize)]) || isBinary(now[:min(len(now), sniffSize)]) {
		return d
	}
	a, b := mixedText.decode(old), mixedText.decode(now)
	u, err := udiff.ToUnifiedDiff(path, path, a, udiff.Lines(a, b), diffContext)
	if err != nil {
		return d
	}
	above := bytes.Count(before[:head], []byte("\n"))
	for _, h := range u.Hunks {
		h.FromLine += above
		h.ToLine += above
		for _, l := range h.Lines {
			switch l.Kind {
			case udiff.Insert:
				d.Additions++
			case udiff.Delete:
				d.Deletions++
			case udiff.Equal:
			}
		}
	}
	d.Patch = cutText(u.String(), maxDiff)
	return d
}

// commonHead is the length of the equal whole lines at the start, less the
// context.
func commonHead(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for range diffContext + 1 {
		n = bytes.LastIndexByte(a[:n], '\n')
		if n < 0 {
			return 0
		}
	}
	return n + 1
}

// commonTail is the same for the end.
func commonTail(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	tail := a[len(a)-n:]
	at := 0
	for range diffContext + 1 {
		nl := bytes.IndexByte(tail[at:], '\n')
		if nl < 0 {
			return 0
		}
		at += nl + 1
	}
	return len(tail) - at
}

// diffMeta puts what a call changed into its metadata. Both keys are
// OpenCode's.
func diffMeta(meta session.Metadata, d session.FileDiff) {
	meta.Set("diff", d.Patch)
	meta.Set("filediff", d)
}

// joinDiffs is one text of several diffs.
func joinDiffs(diffs []session.FileDiff) string {
	var b strings.Builder
	for _, d := range diffs {
		b.WriteString(d.Patch)
	}
	return cutText(b.String(), maxDiff)
}
