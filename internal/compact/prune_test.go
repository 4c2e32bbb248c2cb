package compact

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rally/internal/session"
)

func marks(p Pruned) []string {
	var out []string
	for _, c := range p.Tools {
		out = append(out, c.State.Title)
	}
	return out
}

func titled(name, tool string, tokens int) *session.Tool {
	c := call(tool, strings.Repeat("o", tokens*bytesPerToken))
	c.State.Title = name
	return c
}

// I32.
func TestPrune(t *testing.T) {
	old := func(w *world, calls ...*session.Tool) {
		w.begin("old")
		w.step("look", calls...)
		for _, s := range []string{"newer", "newest"} {
			w.begin(s)
			w.step("answer", titled("kept", "read", 90_000))
		}
	}
	compacted := titled("gone", "read", 30_000)
	compacted.State.Time.Compacted = 1
	failed := &session.Tool{Tool: "bash", State: session.ToolState{Status: session.ToolError, Error: strings.Repeat("e", 200_000)}}
	tests := map[string]struct {
		build func(w *world)
		want  []string
		saved int64
	}{
		"the oldest go": {func(w *world) {
			old(w, titled("a", "read", 25_000), titled("b", "read", 10_000), titled("c", "read", 35_000))
		}, []string{"a", "b"}, 35_000},
		"too little to win": {func(w *world) { old(w, titled("a", "read", 20_000), titled("b", "read", 40_000)) }, nil, 0},
		"skills stay":       {func(w *world) { old(w, titled("a", "skill", 90_000), titled("b", "read", 40_000)) }, nil, 0},
		"errors stay":       {func(w *world) { old(w, failed, titled("b", "read", 40_000)) }, nil, 0},
		"one that is gone does not hide older ones": {func(w *world) {
			old(w, titled("a", "read", 30_000), compacted, titled("c", "read", 40_000))
		}, []string{"a"}, 30_000},
		"markers and rally's own words are no turns": {func(w *world) {
			w.begin("only")
			w.step("look", titled("a", "read", 90_000), titled("b", "read", 90_000))
			w.say("note")
			w.say("note")
		}, nil, 0},
		"not before a summary": {func(w *world) {
			w.begin("old")
			w.step("look", titled("a", "read", 90_000), titled("b", "read", 90_000))
			w.compact(Plan{}, "SUM")
			w.begin("newer")
			w.begin("newest")
		}, nil, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			test.build(w)
			p := Prune(w.rows)
			diff(t, test.want, marks(p))
			diff(t, test.saved, p.Tokens)
			diff(t, marks(p), marks(Prune(w.rows)))
		})
	}
}

// I32, for any history; and what was marked is not marked again.
func TestPruneKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			w.begin("more")
			w.step("look", titled("x", "read", rapid.IntRange(0, 60_000).Draw(t, "tokens")))
		}
		before := encode(t, w.rows)
		p := Prune(w.rows)
		if encode(t, w.rows) != before {
			t.Fatal("the history was changed")
		}
		if len(p.Tools) > 0 && p.Tokens <= minimumGain {
			t.Fatalf("%d tokens for %d marks", p.Tokens, len(p.Tools))
		}
		size := tokensOf(Project(w.rows, w.head))
		for _, c := range p.Tools {
			c.State.Time.Compacted = 1
		}
		if len(Prune(w.rows).Tools) != 0 && p.Tokens == 0 {
			t.Fatal("a second walk finds more")
		}
		if won := size - tokensOf(Project(w.rows, w.head)); won < p.Tokens-int64(len(p.Tools)) {
			t.Fatalf("won %d of %d", won, p.Tokens)
		}
	})
}

func TestPruneForSize(t *testing.T) {
	w := &world{}
	w.begin("one long turn")
	for i := range 6 {
		tool := "read"
		if i == 1 {
			tool = skillTool
		}
		w.step("look", titled(fmt.Sprint(i), tool, 100_000), titled("small", "read", 10))
	}
	diff(t, []string(nil), marks(PruneForSize(w.rows, 0)))
	diff(t, []string{"0"}, marks(PruneForSize(w.rows, 10)))
	diff(t, []string{"0", "2"}, marks(PruneForSize(w.rows, 400_000)))
	diff(t, []string{"0", "2", "3"}, marks(PruneForSize(w.rows, 1<<30)))
	w.compact(Plan{}, "SUM")
	diff(t, []string(nil), marks(PruneForSize(w.rows, 1<<30)))
}

func TestOversized(t *testing.T) {
	image := func(name string, size int) *session.File {
		return &session.File{Mime: "image/png", Filename: name, URL: strings.Repeat("A", size)}
	}
	w := &world{}
	w.begin("look", image("old.png", 4_000), image("huge.png", 9_000), &session.File{Mime: "text/plain", URL: strings.Repeat("f", 9_000)})
	shot := call("read", "shown")
	shot.State.Attachments = []*session.File{image("", 3_000)}
	w.step("see", shot)
	view := Project(w.rows, w.head)
	diff(t, int64(16_000), AttachmentBytes(view))
	diff(t, 0, len(Oversized(view, 0, 0)))

	dropped := Oversized(view, 5_000, 5_000)
	var notes []string
	for _, d := range dropped {
		notes = append(notes, d.Note)
	}
	diff(t, []string{
		"[Attached image/png: old.png (left out with its 4 KB; all attachments together may have 5 KB)]",
		"[Attached image/png: huge.png (too large at 9 KB; at most 5 KB are sent)]",
	}, notes)
	before := encode(t, view)
	diff(t, int64(3_000), AttachmentBytes(WithoutMedia(view, dropped)))
	diff(t, int64(0), AttachmentBytes(WithoutMedia(view, Oversized(view, 1, 0))))
	if got := WithoutMedia(view, Oversized(view, 1, 0))[1].ToolCalls()[0].State.Output; got != "shown\n[Attached image/png: file (too large at 3 KB; at most 1 KB are sent)]" {
		t.Errorf("output is %q", got)
	}
	diff(t, before, encode(t, view))
}
