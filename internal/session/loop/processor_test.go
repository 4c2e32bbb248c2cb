package loop

import (
	"encoding/json"
	"fmt"
	"testing"

	"rally/internal/llm"
	"rally/internal/session"

	"github.com/google/go-cmp/cmp"
)

func counter() func(string) string {
	n := 0
	return func(prefix string) string {
		n++
		return fmt.Sprintf("%s_%d", prefix, n)
	}
}

func TestProcessorMakesPartsOfEvents(t *testing.T) {
	text := func(s string) llm.Event { return llm.TextDelta{Text: s} }
	think := func(block int, s string) llm.Event { return llm.ReasoningDelta{Block: block, Text: s} }
	call := func(i int, name, args string) llm.Event { return llm.CallDelta{Index: &i, Name: name, Args: args} }
	for _, tt := range []struct {
		name    string
		events  []llm.Event
		want    []string // kind:content of each part
		visible bool
	}{
		{"nothing", nil, nil, false},
		{"text", []llm.Event{text("a"), text("b")}, []string{"text:ab"}, true},
		{"blank lines first", []llm.Event{text("\n\n"), text("4")}, []string{"text:4"}, true},
		{"blank text only", []llm.Event{text("  ")}, []string{"text:  "}, false},
		{"thinking alone", []llm.Event{think(0, "hm")}, []string{"reasoning:hm"}, false},
		{"two blocks", []llm.Event{think(0, "a"), think(1, "b"), text("c")}, []string{"reasoning:a", "reasoning:b", "text:c"}, true},
		{"thinking between text", []llm.Event{text("a"), think(0, "b"), text("c")}, []string{"text:a", "reasoning:b", "text:c"}, true},
		{
			"calls between text",
			[]llm.Event{text("a"), call(0, "bash", `{"x":`), call(0, "", `1}`), text("b"), call(1, "read", "{}")},
			[]string{"text:a", `tool:bash {"x":1}`, "text:b", "tool:read {}"},
			true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProcessor("msg_1", "ses_1", counter())
			for i, e := range tt.events {
				p.feed(e, int64(i+1))
			}
			if p.visible() != tt.visible {
				t.Errorf("visible is %v, want %v", p.visible(), tt.visible)
			}
			p.end(99)
			var got []string
			for _, part := range p.parts {
				got = append(got, show(p, part))
				if part.Kind() != session.TypeTool && session.IsOpen(part) {
					t.Errorf("%s part is open after the end", part.Kind())
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func show(p *processor, part session.Part) string {
	if text, ok := part.(*session.Text); ok {
		return "text:" + text.Text
	}
	if thought, ok := part.(*session.Reasoning); ok {
		return "reasoning:" + thought.Text
	}
	for _, c := range p.calls.Done() {
		if p.tools[c.Pos] == part {
			return "tool:" + c.Name + " " + c.Args()
		}
	}
	return "?"
}

func TestRepetition(t *testing.T) {
	for _, tt := range []struct {
		keys string
		want int
	}{
		{"a", 1},
		{"ab", 1},
		{"aa", 2},
		{"aaa", 3},
		{"baaaa", 4},
		{"aab", 1},
		{"ababab", 3},
		{"xababab", 3},
		{"abcabcabc", 3},
		{"abcabcabcabc", 4},
		{"abcdabcdabcd", 1},
		{"aabaab", 2},
	} {
		keys := make([]string, 0, len(tt.keys))
		for _, k := range tt.keys {
			keys = append(keys, string(k))
		}
		if got := repetition(keys); got != tt.want {
			t.Errorf("%s repeats %d times, want %d", tt.keys, got, tt.want)
		}
	}
}

// The third seed's §3.6, in its order: each row is decided by the first fact
// that holds, whatever holds below it.
func TestDecideInTheSeedsOrder(t *testing.T) {
	all := facts{structured: true, stopped: true, schema: true, calls: true, superseded: true, lastStep: true, called: true}
	without := func(change func(*facts)) facts {
		f := all
		change(&f)
		return f
	}
	for _, tt := range []struct {
		name string
		f    facts
		want verdict
	}{
		{"1 structured output was captured", all, complete},
		{"3, 4 the step failed or was stopped", without(func(f *facts) { f.structured = false }), stopNow},
		{"2 structured output is missing", facts{schema: true, superseded: true}, repair},
		{"the answer is there, a follow-up waits", facts{superseded: true}, complete},
		{"6 a follow-up waits", facts{calls: true, superseded: true, lastStep: true, called: true}, yield},
		{"the last step was spent on calls", facts{calls: true, lastStep: true, called: true}, limit},
		{"the last step summed up", facts{lastStep: true, called: true}, limit},
		{"the only step answered", facts{lastStep: true}, complete},
		{"calls", facts{calls: true, called: true}, goOn},
		{"the provider paused", facts{paused: true}, goOn},
	} {
		if got := tt.f.decide(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestDoneBelievesNoFinish(t *testing.T) {
	const turn = "trn_1"
	user := session.Message{ID: "msg_u", Role: session.User, TurnID: turn}
	answer := func(finish session.Finish, parts ...session.Part) session.Message {
		return session.Message{ID: "msg_a", Role: session.Assistant, TurnID: turn, ParentID: "msg_u", Finish: finish, Parts: parts}
	}
	call := func(meta session.Metadata) *session.Tool {
		return &session.Tool{State: session.ToolState{Status: session.ToolCompleted}, Metadata: meta}
	}
	failed := answer(session.FinishStop)
	failed.Error = session.NewError(session.AbortedError, "Aborted")
	other := answer(session.FinishStop)
	other.ParentID = "msg_other"
	for _, tt := range []struct {
		name    string
		history []session.Message
		want    bool
	}{
		{"no answer", []session.Message{user}, false},
		{"stop", []session.Message{user, answer(session.FinishStop)}, true},
		{"unknown", []session.Message{user, answer(session.FinishUnknown)}, true},
		{"tool-calls without calls", []session.Message{user, answer(session.FinishToolCalls)}, true},
		{"stop beside a call", []session.Message{user, answer(session.FinishStop, call(nil))}, false},
		{
			"a call the provider ran", []session.Message{user, answer(session.FinishStop,
				call(session.Metadata{session.MetaProviderExecuted: json.RawMessage("true")}))}, true,
		},
		{"no finish", []session.Message{user, answer("")}, false},
		{"an aborted answer", []session.Message{user, failed}, false},
		{"an answer to another message", []session.Message{user, other}, false},
		{"a newer message of the turn", []session.Message{user, answer(session.FinishStop), {ID: "msg_v", Role: session.User, TurnID: turn}}, false},
	} {
		if got := done(tt.history, turn); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
