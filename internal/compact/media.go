package compact

import (
	"fmt"
	"slices"

	"rally/internal/session"
)

// Dropped is an attachment to leave out of a request, with the note that
// stands in its place.
type Dropped struct {
	File *session.File // of the view that was looked at
	Note string
}

// Oversized says which attachments of view are too large to send: each that
// is longer than perFile, then the oldest ones until the rest is no longer
// than total. Sizes are bytes of base64, as they are sent; 0 is no limit.
func Oversized(view []session.Message, perFile, total int64) []Dropped {
	files := attachments(view)
	sum := int64(0)
	for _, f := range files {
		if size := int64(len(f.URL)); perFile <= 0 || size <= perFile {
			sum += size
		}
	}
	var out []Dropped
	for _, f := range files {
		size := int64(len(f.URL))
		switch {
		case perFile > 0 && size > perFile:
			out = append(out, drop(f, "too large at %s; at most %s are sent", size, perFile))
		case total > 0 && sum > total:
			sum -= size
			out = append(out, drop(f, "left out with its %s; all attachments together may have %s", size, total))
		}
	}
	return out
}

func drop(f *session.File, format string, size, limit int64) Dropped {
	return Dropped{File: f, Note: mediaNote(f, fmt.Sprintf(format, kilobytes(size), kilobytes(limit)))}
}

func kilobytes(n int64) string { return fmt.Sprintf("%d KB", (n+999)/1000) }

// AttachmentBytes is the length of all attachments of view as base64.
func AttachmentBytes(view []session.Message) int64 {
	n := int64(0)
	for _, f := range attachments(view) {
		n += int64(len(f.URL))
	}
	return n
}

// attachments are the media of view in order, those of tool results too.
func attachments(view []session.Message) []*session.File {
	var out []*session.File
	for i := range view {
		for _, p := range view[i].Parts {
			switch p := p.(type) {
			case *session.File:
				if isMedia(p) {
					out = append(out, p)
				}
			case *session.Tool:
				if p.State.Status != session.ToolCompleted || p.State.Time.Compacted != 0 {
					continue
				}
				for _, f := range p.State.Attachments {
					if isMedia(f) {
						out = append(out, f)
					}
				}
			case *session.Text, *session.Reasoning, *session.StepStart, *session.StepFinish, *session.Snapshot, *session.Patch,
				*session.AgentRef, *session.Subtask, *session.Retry, *session.Compaction:
			}
		}
	}
	return out
}

// WithoutMedia is view, the one Oversized looked at, with notes in place of
// the dropped attachments. It copies what it changes.
func WithoutMedia(view []session.Message, dropped []Dropped) []session.Message {
	if len(dropped) == 0 {
		return view
	}
	notes := make(map[*session.File]string, len(dropped)) // attachments of tools have no ids
	for _, d := range dropped {
		notes[d.File] = d.Note
	}
	out := slices.Clone(view)
	for i := range out {
		copied := false
		for j, p := range out[i].Parts {
			if q := withoutMedia(p, notes); q != p {
				if !copied {
					out[i].Parts, copied = slices.Clone(out[i].Parts), true
				}
				out[i].Parts[j] = q
			}
		}
	}
	return out
}

func withoutMedia(p session.Part, notes map[*session.File]string) session.Part {
	switch p := p.(type) {
	case *session.File:
		if note, ok := notes[p]; ok {
			return &session.Text{Header: p.Header, Text: note, Synthetic: true}
		}
	case *session.Tool:
		if !slices.ContainsFunc(p.State.Attachments, func(f *session.File) bool { return notes[f] != "" }) {
			return p
		}
		short := *p
		short.State.Attachments = nil
		for _, f := range p.State.Attachments {
			if note := notes[f]; note != "" {
				short.State.Output += "\n" + note
			} else {
				short.State.Attachments = append(short.State.Attachments, f)
			}
		}
		return &short
	case *session.Text, *session.Reasoning, *session.StepStart, *session.StepFinish, *session.Snapshot, *session.Patch,
		*session.AgentRef, *session.Subtask, *session.Retry, *session.Compaction:
	}
	return p
}
