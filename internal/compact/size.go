package compact

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"rally/internal/llm"
	"rally/internal/session"
)

const (
	// bytesPerToken is the rough size of a token of English and code.
	bytesPerToken = 4
	// mediaTokens stands for an image or document, whose tokens do not follow
	// from its bytes.
	mediaTokens = 1500
	// overhead is what a message or call costs beside its text, in bytes.
	overhead = 16
)

// MaxRequestBytes is the size of a request from which old tool output is left
// out of it, whatever the window: servers and the proxies before them refuse
// bodies not much longer.
const MaxRequestBytes = 1_250_000

// Estimate is about how many tokens a request takes: a quarter of its bytes,
// and a fixed amount for each image or document.
func Estimate(req *llm.Request) int64 {
	n := measure(req)
	return n.text/bytesPerToken + n.media*mediaTokens
}

// RequestBytes is about how many bytes a request's JSON has.
func RequestBytes(req *llm.Request) int64 {
	n := measure(req)
	return n.text + n.mediaBytes
}

// amount is the size of something that is sent.
type amount struct {
	text       int64 // bytes, media not among them
	media      int64 // number
	mediaBytes int64 // as base64
}

func (a *amount) add(b amount) {
	a.text += b.text
	a.media += b.media
	a.mediaBytes += b.mediaBytes
}

func (a amount) tokens() int64 { return a.text/bytesPerToken + a.media*mediaTokens }

func measure(req *llm.Request) amount {
	n := amount{text: int64(len(req.System))}
	for _, t := range req.Tools {
		n.text += int64(len(t.Name) + len(t.Description) + len(t.Schema) + overhead)
	}
	for _, m := range req.Messages {
		n.text += overhead
		for _, c := range m.Content {
			n.add(measureContent(c))
		}
	}
	return n
}

func measureContent(c llm.Content) amount {
	switch c := c.(type) {
	case llm.Text:
		return amount{text: int64(len(c.Text))}
	case llm.Thought:
		return amount{text: int64(len(c.Text))}
	case llm.Media:
		return amount{media: 1, mediaBytes: int64(len(c.Data))}
	case llm.Call:
		return amount{text: int64(len(c.Name) + len(c.Args) + len(c.Result) + overhead)}
	case llm.Result:
		n := amount{text: int64(len(c.Text) + overhead)}
		for _, m := range c.Media {
			n.add(measureContent(m))
		}
		return n
	}
	return amount{}
}

// measureMessage is what a stored message adds to a request to model.
func measureMessage(m *session.Message, model llm.Model) amount {
	n := amount{text: overhead}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case *session.Text:
			if !p.Ignored {
				n.text += int64(len(p.Text))
			}
		case *session.Reasoning:
			if model.Reasoning.Replay && m.Model.Provider == model.Provider && m.Model.ID == model.ID {
				n.text += int64(len(p.Text))
			}
		case *session.Tool:
			n.text += int64(len(p.Tool)+len(p.State.Input)+len(p.State.Error)) + 2*overhead
			n.add(measureOutput(p))
		case *session.File:
			if isMedia(p) {
				n.add(amount{media: 1, mediaBytes: int64(len(p.URL))})
			}
		case *session.StepStart, *session.StepFinish, *session.Snapshot, *session.Patch, *session.AgentRef, *session.Subtask,
			*session.Retry, *session.Compaction:
		}
	}
	return n
}

// measureOutput is what a call's output adds to a request.
func measureOutput(p *session.Tool) amount {
	if p.State.Time.Compacted != 0 {
		return amount{}
	}
	n := amount{text: int64(len(p.State.Output))}
	for _, f := range p.State.Attachments {
		if isMedia(f) {
			n.add(amount{media: 1, mediaBytes: int64(len(f.URL))})
		}
	}
	return n
}

// isMedia reports whether f is sent as it is: text files and folders stand in
// the text beside them.
func isMedia(f *session.File) bool {
	return f.Mime != "text/plain" && f.Mime != "application/x-directory"
}

func mediaNote(f *session.File, why string) string {
	name := f.Filename
	if name == "" {
		name = "file"
	}
	return "[Attached " + f.Mime + ": " + name + " (" + why + ")]"
}

// shorten cuts text to about limit bytes at a whole character and says what
// is missing.
func shorten(text string, limit int, why string) string {
	if len(text) <= limit {
		return text
	}
	n := boundary(text, limit)
	return fmt.Sprintf("%s\n[%d bytes left out: %s]", text[:n], len(text)-n, why)
}

// boundary is the largest index up to limit where a character begins.
func boundary(text string, limit int) int {
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return limit
}

// shortenMiddle keeps the first and the last half of limit bytes.
func shortenMiddle(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head := boundary(text, limit/2)
	tail := len(text) - limit/2
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", strings.TrimRight(text[:head], "\n"), tail-head, text[tail:])
}

// Ratio corrects estimates by what a provider counted. The zero Ratio
// corrects nothing.
type Ratio struct{ estimated, real int64 }

// maxCorrection bounds a ratio in both directions: some servers report
// nonsense.
const maxCorrection = 4

// Observe takes a step's estimate and the provider's count of the same
// prompt. The newest pair counts; one without a count is ignored.
func (r *Ratio) Observe(estimated, counted int64) {
	if estimated > 0 && counted > 0 {
		r.estimated, r.real = estimated, counted
	}
}

// Apply is the corrected estimate.
func (r Ratio) Apply(estimated int64) int64 {
	return int64(float64(estimated) * r.factor())
}

// bytes is about how many bytes of text make tokens of the provider.
func (r Ratio) bytes(tokens int64) int64 {
	return int64(float64(tokens*bytesPerToken) / r.factor())
}

func (r Ratio) factor() float64 {
	if r.estimated == 0 {
		return 1
	}
	return min(max(float64(r.real)/float64(r.estimated), 1.0/maxCorrection), maxCorrection)
}

// PromptTokens is how many of a step's tokens its request had.
func PromptTokens(t session.Tokens) int64 { return t.Input + t.Cache.Read + t.Cache.Write }
