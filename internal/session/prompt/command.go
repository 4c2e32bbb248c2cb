package prompt

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"rally/internal/session"
)

// How a template becomes a prompt:
//
//  1. The template is cut into pieces: text, $1 … $N, $ARGUMENTS, $$ and shell
//     spans, which are cut in the same way. This comes first, so nothing that
//     an argument or a command's output holds is ever read as template.
//  2. $N takes the N-th argument; the highest N of the template takes all that
//     are left, joined by one space; one that is missing is empty.
//  3. In a shell span an argument is quoted for the place it stands in. Where
//     no quoting is safe (a here-document, arithmetic, ${…}) the span does not
//     run.
//  4. Spans run one after another, each with a time limit, and their output
//     without trailing line ends takes their place; a failure is shown there.
//  5. Without any placeholder the arguments follow after a blank line.

// SpanTimeout is the time one shell span has unless the caller says otherwise.
const SpanTimeout = 10 * time.Second

// maxSpanOutput bounds what one span adds to a prompt, in bytes.
const maxSpanOutput = 50 << 10

// Spans runs the shell spans of templates.
type Spans struct {
	// Run runs a script, behind the permission gate, and returns what it
	// printed. It must end when ctx does. Nil means that the command's file
	// is not trusted: a note stands in place of each span.
	Run func(ctx context.Context, script string) (output string, err error)
	// Timeout of each span; 0 is SpanTimeout.
	Timeout time.Duration
}

// Expanded is a template filled in.
type Expanded struct {
	Text   string
	Opaque []Range // what shell spans printed: not searched for references
}

// ExpandCommand fills a template. Arguments arrive byte for byte; the white
// space around the template itself is dropped.
func ExpandCommand(ctx context.Context, template string, args Arguments, spans Spans) Expanded {
	f := newFiller(template, args, spans)
	var out Expanded
	var b strings.Builder
	for _, p := range f.pieces {
		if p.kind != pieceSpan {
			b.WriteString(f.value(p))
			continue
		}
		start := b.Len()
		b.WriteString(f.span(ctx, p))
		if b.Len() > start {
			out.Opaque = append(out.Opaque, Range{start, b.Len()})
		}
	}
	if !f.placeholders && strings.TrimSpace(args.Raw) != "" {
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(args.Raw)
	}
	out.Text = b.String()
	return out
}

// IsSubtask reports whether a command runs in a child session: it says so, or
// its agent is a subagent and it does not say otherwise.
func IsSubtask(c session.Command, agent session.Agent) bool {
	if c.Subtask != nil {
		return *c.Subtask
	}
	return agent.Mode == session.ModeSubagent
}

// SubtaskOf is the part that stands for a command that runs in a child session.
func SubtaskOf(c session.Command, agent string, model session.Model, text string) *session.Subtask {
	part := &session.Subtask{Prompt: text, Description: c.Description, Agent: agent, Command: c.Name}
	if model != (session.Model{}) {
		part.Model = &model
	}
	return part
}

// piece is a part of a template.
type piece struct {
	kind  pieceKind
	text  string  // text: what stands there; span: its source
	n     int     // number
	inner []piece // span
}

type pieceKind int

const (
	pieceText pieceKind = iota
	pieceNumber
	pieceAll
	pieceSpan
)

var (
	spanPattern        = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("!`([^`]+)`") })
	placeholderPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$(?:\$|ARGUMENTS|[1-9][0-9]*)`) })
)

// parseTemplate cuts a template into pieces.
func parseTemplate(template string) []piece {
	var out []piece
	end := 0
	for _, m := range spanPattern().FindAllStringSubmatchIndex(template, -1) {
		out = append(out, parsePlaceholders(template[end:m[0]], false)...)
		source := template[m[2]:m[3]]
		out = append(out, piece{kind: pieceSpan, text: source, inner: parsePlaceholders(source, true)})
		end = m[1]
	}
	return append(out, parsePlaceholders(template[end:], false)...)
}

// parsePlaceholders cuts text at its placeholders. In a shell span a backslash
// keeps a dollar for the shell.
func parsePlaceholders(text string, shell bool) []piece {
	var out []piece
	literal := func(s string) {
		if s != "" {
			out = append(out, piece{kind: pieceText, text: s})
		}
	}
	end := 0
	for _, m := range placeholderPattern().FindAllStringIndex(text, -1) {
		name := text[m[0]+1 : m[1]]
		p := piece{kind: pieceAll}
		switch {
		case shell && escaped(text[:m[0]]):
			continue
		case name == "$":
			p = piece{kind: pieceText, text: "$"}
		case name != "ARGUMENTS":
			n, err := strconv.Atoi(name)
			if err != nil {
				continue // a number beyond all arguments is text
			}
			p = piece{kind: pieceNumber, n: n}
		}
		literal(text[end:m[0]])
		out = append(out, p)
		end = m[1]
	}
	literal(text[end:])
	return out
}

// escaped reports whether an odd number of backslashes ends before.
func escaped(before string) bool {
	return (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1
}

// filler fills in one template.
type filler struct {
	args   Arguments
	spans  Spans
	pieces []piece

	highest      int  // the greatest number of a placeholder, in spans too
	placeholders bool // there are any
}

func newFiller(template string, args Arguments, spans Spans) *filler {
	f := &filler{args: args, spans: spans, pieces: parseTemplate(strings.TrimSpace(template))}
	f.note(f.pieces)
	return f
}

func (f *filler) note(pieces []piece) {
	for _, p := range pieces {
		f.highest = max(f.highest, p.n)
		f.placeholders = f.placeholders || p.kind == pieceNumber || p.kind == pieceAll
		f.note(p.inner)
	}
}

// value is what a piece that is no span stands for.
func (f *filler) value(p piece) string {
	switch p.kind {
	case pieceAll:
		return f.args.Raw
	case pieceNumber:
		switch {
		case p.n > len(f.args.Tokens):
			return ""
		case p.n == f.highest:
			return strings.Join(f.args.Tokens[p.n-1:], " ")
		}
		return f.args.Tokens[p.n-1]
	case pieceText, pieceSpan:
	}
	return p.text
}

// span runs a shell span and returns what takes its place.
func (f *filler) span(ctx context.Context, p piece) string {
	if f.spans.Run == nil {
		return fmt.Sprintf("[`%s` was not run: the file it comes from is not trusted]", p.text)
	}
	script, err := f.script(p)
	if err != nil {
		return fmt.Sprintf("[`%s` was not run: %s]", p.text, err)
	}
	timeout := f.spans.Timeout
	if timeout == 0 {
		timeout = SpanTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	output, err := f.spans.Run(ctx, script)
	output = bounded(strings.TrimRight(output, "\r\n"))
	if err == nil {
		return output
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it did not end within %s", timeout)
	}
	note := fmt.Sprintf("[`%s` failed: %s]", p.text, err)
	if output == "" {
		return note
	}
	return output + "\n" + note
}

func bounded(output string) string {
	if len(output) <= maxSpanOutput {
		return output
	}
	return strings.ToValidUTF8(output[:maxSpanOutput], "") + fmt.Sprintf("\n[%d more bytes were left out]", len(output)-maxSpanOutput)
}

// script is a span's source with its arguments quoted.
func (f *filler) script(p piece) (string, error) {
	q := newQuoter(p.text)
	for _, inner := range p.inner {
		if inner.kind == pieceText {
			q.source(inner.text)
			continue
		}
		if err := q.argument(f.value(inner)); err != nil {
			return "", err
		}
	}
	return q.out.String(), nil
}
