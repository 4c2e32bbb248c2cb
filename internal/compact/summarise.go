package compact

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"rally/internal/llm"
	"rally/internal/session"
)

//go:embed summary.md
var instruction string

const (
	maxSummary = 8_192 // tokens of one answer, thinking included
	minSlice   = 1_000 // tokens
	maxAsks    = 12    // requests for one compaction
	// maxPrevious bounds, in bytes, an earlier summary that is carried over
	// without a model.
	maxPrevious = 8_000
)

// sliceShare is the part of what is usable that a slice of the conversation
// may have; the rest is for the summary so far, the instruction and errors of
// the estimate.
const sliceShare = 0.6

// Answer is what a model said to a summary request.
type Answer struct {
	Text   string
	Finish session.Finish
}

// Ask makes one model call, with its retries, and stores nothing. Its errors
// are the provider's (*llm.Error) or ctx's.
type Ask func(ctx context.Context, req *llm.Request) (Answer, error)

// Summariser writes summaries by asking a model.
type Summariser struct {
	Ask Ask
	// Base is what every summary request has: the model, the compaction
	// agent's system prompt, options. Its messages and tools are not used.
	Base   llm.Request
	Usable int64 // tokens of that model; 0 is unknown
	Ratio  Ratio
}

// Summary is a summary that is complete.
type Summary struct {
	Text string
	// Means is Cut where no model could write it.
	Means Means
	// Asked is the number of model calls, failed ones included.
	Asked int
}

// Run carries p out and returns the text to store. The conversation is
// summarised with one request while it fits, else slice by slice, each
// request carrying on the summary so far. Where the model refuses or says
// nothing a note takes the summary's place: a compaction does not fail for
// what the conversation holds. It does fail, and nothing is to be stored, for
// ctx's end and for errors that the run's own requests would meet too
// (authentication, quota, rate limits, the network).
func (s Summariser) Run(ctx context.Context, p Plan) (Summary, error) {
	if p.Means == Cut || !p.Possible() {
		return Summary{Text: cutNote(p.Previous), Means: Cut}, nil
	}
	r := run{Summariser: s, text: p.Previous}
	err := r.whole(ctx, p)
	if tooLong(err) {
		err = r.slices(ctx, p)
	}
	switch {
	case err == nil:
		return Summary{Text: r.text, Means: p.Means, Asked: r.asked}, nil
	case ctx.Err() != nil:
		return Summary{}, context.Cause(ctx)
	case tooLong(err), givenUp(err):
		return Summary{Text: cutNote(r.text), Means: Cut, Asked: r.asked}, nil
	}
	return Summary{}, fmt.Errorf("summarise: %w", err)
}

// The ends of an attempt that lead to other means.
var (
	errTooLong = errors.New("the conversation is too long for one summary")
	errSilent  = errors.New("the model wrote no summary")
	errAsks    = errors.New("too many requests for one summary")
)

func tooLong(err error) bool {
	if errors.Is(err, errTooLong) {
		return true
	}
	class := llm.ClassOf(err)
	return err != nil && (class == llm.Overflow || class == llm.TooLarge)
}

func givenUp(err error) bool {
	if errors.Is(err, errSilent) || errors.Is(err, errAsks) {
		return true
	}
	switch llm.ClassOf(err) {
	case llm.BadRequest, llm.ContentFilter:
		return true
	case llm.Overflow, llm.TooLarge, llm.Auth, llm.Quota, llm.RateLimit, llm.Server, llm.Network, llm.Incomplete, llm.Timeout, llm.Unknown:
	}
	return false
}

// run is one summary in the making.
type run struct {
	Summariser
	text  string // the summary so far
	asked int
}

// whole asks once for everything.
func (r *run) whole(ctx context.Context, p Plan) error {
	req := r.request(strings.Join(transcript(p.Messages, transcriptOutput), ""), "")
	if r.Usable > 0 && r.Ratio.Apply(Estimate(req)) > r.Usable {
		return errTooLong
	}
	return r.ask(ctx, req)
}

// slices asks for one part of the conversation after the other. A part that
// the provider finds too long is halved, so that a wrong idea of the window
// costs a few requests and not the summary.
func (r *run) slices(ctx context.Context, p Plan) error {
	tokens := int64(float64(r.Usable) * sliceShare)
	if whole := p.Before / 2; r.asked > 0 && whole < tokens || tokens <= 0 {
		tokens = whole // what is thought usable has been refused
	}
	tokens = max(tokens, minSlice)
	rest := r.fitting(p.Messages, int(r.Ratio.bytes(tokens)))
	for len(rest) > 0 {
		note := "This is one part of a longer conversation. "
		if r.text != "" {
			note += "The earlier summary stands for what came before it: carry over all of it that still holds. "
		}
		if len(rest) > 1 {
			note += "More parts follow, so the work may go on after it.\n\n"
		}
		err := r.ask(ctx, r.request(rest[0], note))
		if tooLong(err) && len(rest[0]) > int(r.Ratio.bytes(minSlice)) {
			rest = append(pack([]string{rest[0]}, (len(rest[0])+1)/2), rest[1:]...)
			continue
		}
		if err != nil {
			return err
		}
		rest = rest[1:]
	}
	return nil
}

// fitting is the conversation in slices, few enough to be asked for: with
// less and less of each call's output, at last without the middle.
func (r *run) fitting(messages []session.Message, size int) []string {
	limit := maxAsks - r.asked - 3 // some for slices that are refused
	var parts []string
	for _, output := range []int{transcriptOutput, transcriptOutput / 5, transcriptOutput / 20} {
		if parts = pack(transcript(messages, output), size); len(parts) <= limit {
			return parts
		}
	}
	first := parts[0] + "[A part of the conversation is left out here: it was too long.]\n\n"
	return append([]string{first}, parts[len(parts)-limit+1:]...)
}

// request is a summary request: one user message, no tools.
func (r *run) request(conversation, note string) *llm.Request {
	var b strings.Builder
	if r.text != "" {
		earlier := r.text
		if r.Usable > 0 { // a model with a larger window may have written it
			earlier = shortenMiddle(earlier, int(r.Ratio.bytes(max(r.Usable/4, minSlice))))
		}
		b.WriteString("<earlier-summary>\n" + strings.TrimSpace(earlier) + "\n</earlier-summary>\n\n")
	}
	b.WriteString("<conversation>\n" + strings.TrimSpace(conversation) + "\n</conversation>\n\n" + note)
	if r.text != "" {
		b.WriteString("Bring the earlier summary up to date with the conversation. Where they differ, the conversation is right; drop only what is settled or no longer true.\n\n")
	}
	b.WriteString(strings.TrimSpace(instruction))
	req := r.Base
	req.Tools, req.ToolChoice = nil, ""
	req.Messages = []llm.Message{{Role: llm.User, Content: []llm.Content{llm.Text{Text: b.String()}}}}
	req.MaxOutput = r.maxOutput()
	return &req
}

// maxOutput leaves room for the conversation in a small window.
func (r *run) maxOutput() int64 {
	n := int64(maxSummary)
	if r.Usable > 0 {
		n = min(n, max(r.Usable/4, minSlice))
	}
	if out := r.Base.Model.Output; out > 0 {
		n = min(n, out)
	}
	return n
}

// ask makes a request and takes its answer as the summary so far. One that
// the output limit cut is kept with a note: its first sections are the ones
// that matter most.
func (r *run) ask(ctx context.Context, req *llm.Request) error {
	if r.asked >= maxAsks {
		return errAsks
	}
	r.asked++
	answer, err := r.Ask(ctx, req)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(answer.Text)
	switch {
	case text == "", answer.Finish == session.FinishContentFilter, answer.Finish == session.FinishError:
		return errSilent
	case answer.Finish == session.FinishLength:
		text += "\n\n[The summary was cut at the output limit.]"
	}
	r.text = text
	return nil
}

// cutNote stands for a conversation that was not summarised.
func cutNote(previous string) string {
	const note = "[The conversation up to here is left out: it was too long for the model's context window and could not be summarised. " +
		"Look at the present state of the files, and at what version control says has changed, before going on; work may have been done already.]"
	if previous == "" {
		return note
	}
	return shortenMiddle(previous, maxPrevious) + "\n\n" + note
}
