package compact

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rally/internal/llm"
	"rally/internal/session"
)

// world writes rows as the loop does.
type world struct {
	rows  []session.Message
	seq   int64
	place int64
	turn  string
	head  string
}

func (w *world) add(m session.Message, parts ...session.Part) *session.Message {
	w.seq++
	m.ID, m.Seq, m.Place, m.TurnID = fmt.Sprintf("msg_%03d", w.seq), w.seq, w.place, w.turn
	m.Created = 1_000_000 - w.seq // a clock that runs backwards: time is not order
	for i, p := range parts {
		p.Head().ID, p.Head().MessageID = fmt.Sprintf("prt_%03d_%d", w.seq, i), m.ID
	}
	m.Parts = parts
	w.rows = append(w.rows, m)
	return &w.rows[len(w.rows)-1]
}

func (w *world) begin(text string, more ...session.Part) {
	w.place++
	w.turn = fmt.Sprintf("trn_%d", w.place)
	w.head = w.add(session.Message{Role: session.User}, append([]session.Part{&session.Text{Text: text}}, more...)...).ID
}

// say adds what rally says to the model in the turn.
func (w *world) say(text string) {
	w.add(session.Message{Role: session.User}, &session.Text{Text: text, Synthetic: true})
}

// parent is the turn's newest user message.
func (w *world) parent() string {
	for i := len(w.rows) - 1; i >= 0; i-- {
		if m := &w.rows[i]; m.Role == session.User && m.TurnID == w.turn {
			return m.ID
		}
	}
	return ""
}

func (w *world) step(text string, calls ...*session.Tool) *session.Message {
	parts := []session.Part{&session.StepStart{}}
	if text != "" {
		parts = append(parts, &session.Text{Text: text})
	}
	finish := session.FinishStop
	for _, c := range calls {
		parts, finish = append(parts, c), session.FinishToolCalls
	}
	return w.add(session.Message{Role: session.Assistant, ParentID: w.parent(), Finish: finish, Completed: 1}, parts...)
}

func call(tool, output string) *session.Tool {
	return &session.Tool{CallID: "call", Tool: tool, State: session.ToolState{
		Status: session.ToolCompleted, Input: json.RawMessage(`{"a":1}`), Output: output,
	}}
}

// compactionRows are the states of the store at each write of a compaction.
func (w *world) compactionRows(p Plan, text string) [][]session.Message {
	var states [][]session.Message
	w.write(p, text, func() { states = append(states, copyOf(w.rows)) })
	return states
}

// write makes the writes of a compaction and calls stored before the first
// and after each.
func (w *world) write(p Plan, text string, stored func()) {
	stored()
	marker := w.add(session.Message{Role: session.User}, &session.Compaction{Auto: true, Overflow: p.Overflow}).ID
	stored()
	w.add(session.Message{Role: session.Assistant, ParentID: marker, Summary: true})
	stored()
	w.rows[len(w.rows)-1].Parts = []session.Part{&session.Text{Text: "HALF", Time: &session.Span{Start: 1}}}
	stored()

	summary := &w.rows[len(w.rows)-1]
	summary.Parts = []session.Part{&session.Text{Text: text, Time: &session.Span{Start: 1, End: 2}}}
	summary.Finish, summary.Completed = session.FinishStop, 2
	w.rows[len(w.rows)-2].Parts = []session.Part{&session.Compaction{Auto: true, Overflow: p.Overflow, TailStartID: p.TailStartID}}
	stored()
	w.say("Continue.")
	stored()
}

func (w *world) compact(p Plan, text string) { w.write(p, text, func() {}) }

func copyOf(rows []session.Message) []session.Message {
	out := make([]session.Message, len(rows))
	for i, m := range rows {
		out[i] = m
		out[i].Parts = nil
		for _, p := range m.Parts {
			b, err := session.EncodePart(p)
			if err != nil {
				panic(err)
			}
			q, err := session.DecodePart(b)
			if err != nil {
				panic(err)
			}
			out[i].Parts = append(out[i].Parts, q)
		}
	}
	return out
}

func (w *world) settings(tailTurns int) Settings {
	return Settings{HeadID: w.head, TailTurns: tailTurns, Need: Need{Usable: 20_000}}
}

// draw makes any history: turns of steps, compactions of every kind and with
// every outcome between them, and a turn that is being served at its end.
func draw(t *rapid.T) *world {
	w := &world{}
	for n := rapid.IntRange(1, 5).Draw(t, "turns"); n > 0; n-- {
		w.begin(fmt.Sprintf("TASK-%d %s", w.place+1, strings.Repeat("q", rapid.IntRange(0, 3000).Draw(t, "task"))), extras(t)...)
		for s := rapid.IntRange(0, 6).Draw(t, "steps"); s > 0; s-- {
			drawStep(t, w)
		}
		if n > 1 && rapid.Bool().Draw(t, "answered") {
			w.step("done")
		}
	}
	return w
}

func extras(t *rapid.T) []session.Part {
	switch rapid.IntRange(0, 4).Draw(t, "extras") {
	case 0:
		return []session.Part{&session.File{Mime: "image/png", URL: "data:image/png;base64,AAAA", Filename: "a.png"}}
	case 1:
		return []session.Part{&session.Text{Text: strings.Repeat("file ", 2000), Synthetic: true}}
	case 2:
		return []session.Part{&session.Subtask{Prompt: "p", Agent: "general"}}
	}
	return nil
}

func drawStep(t *rapid.T, w *world) {
	size := rapid.SampledFrom([]int{1, 200, 3000, 15_000}).Draw(t, "size")
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		w.step(strings.Repeat("w", size))
	case 1:
		w.say("note")
	case 2: // a step that failed
		w.step("half").Error = session.NewError(session.APIError, "broken")
	case 3: // a summary that failed, or has no end
		marker := w.add(session.Message{Role: session.User}, &session.Compaction{Auto: true}).ID
		bad := w.add(session.Message{Role: session.Assistant, ParentID: marker, Summary: true}, &session.Text{Text: "BAD"})
		if rapid.Bool().Draw(t, "failed") {
			bad.Error, bad.Finish, bad.Completed = session.NewError(session.APIError, "broken"), session.FinishError, 1
		}
	case 4, 5:
		means := Means(rapid.IntRange(0, 2).Draw(t, "means"))
		s := w.settings(rapid.IntRange(0, 3).Draw(t, "tail"))
		if rapid.Bool().Draw(t, "overflow") {
			s.Need.Why = ByProvider
		}
		if p := NewPlan(w.rows, means, s); p.Possible() {
			if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
				p.TailStartID = "msg_gone"
			}
			w.compact(p, "SUMMARY")
		}
	default:
		w.step("look", call("read", strings.Repeat("r", size)), call("bash", "ok"))
	}
}

func encode(t rapid.TB, messages []session.Message) string {
	var b strings.Builder
	for i := range messages {
		j, err := json.Marshal(&messages[i])
		if err != nil {
			t.Fatal(err)
		}
		b.Write(j)
		for _, p := range messages[i].Parts {
			j, err := session.EncodePart(p)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(j)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func diff(t testing.TB, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
}

func ids(messages []session.Message) []string {
	out := make([]string, len(messages))
	for i := range messages {
		out[i] = messages[i].ID
	}
	return out
}

func tokensOf(messages []session.Message) int64 {
	return Settings{}.tokens(messages)
}

// wire is the shape of a request for view: what any converter has to make of
// it, one letter a message.
func wire(view []session.Message) string {
	out := ""
	for i := range view {
		m := &view[i]
		if m.Role == session.User {
			out += "u"
			continue
		}
		out += "a"
		if len(m.ToolCalls()) > 0 {
			out += "t"
		}
	}
	return out
}

var window = llm.Model{Provider: "p", ID: "m", Context: 40_000, Output: 4_000}
