package session

import (
	"encoding/json"
	"reflect"
	"testing"
)

func open(id string, parts ...Part) Message {
	return Message{ID: id, Role: Assistant, Parts: parts}
}

// Invariants 8 and 9: whatever a dead writer left, Repair settles it, once.
func TestRepair(t *testing.T) {
	const now = 50
	running := &Tool{CallID: "c", State: ToolState{Status: ToolRunning, Input: json.RawMessage(`{"a":1}`), Time: Span{Start: 7}}}
	ended := &Tool{CallID: "d", State: ToolState{Status: ToolCompleted, Output: "x", Time: Span{Start: 1, End: 2}}}
	text := &Text{Text: "half", Time: &Span{Start: 3}}
	history := []Message{
		{ID: "u", Role: User},
		open("calls", &StepStart{}, text, running, ended),
		open("finished", &Text{Text: "t", Time: &Span{Start: 1, End: 2}}, &StepFinish{Reason: FinishStop, Tokens: Tokens{Input: 5}}),
		open("nothing", &StepStart{}),
		open("retried", &StepStart{}, &Retry{Attempt: 1}),
		{ID: "summary", Role: Assistant, Summary: true, Parts: []Part{&Text{Text: "s"}}},
		{ID: "tail", Role: Assistant, Finish: FinishError, Completed: 9, Parts: []Part{&Text{Text: "x"}}},
	}
	r := Repair(history, now)
	if want := []string{"nothing", "summary", "tail"}; !reflect.DeepEqual(r.Removed, want) {
		t.Errorf("removed %v, want %v", r.Removed, want)
	}
	want := ToolState{
		Status: ToolError, Input: json.RawMessage(`{"a":1}`), Error: AbortedToolText, Time: Span{Start: 7, End: now},
		Metadata: Metadata{MetaInterrupted: json.RawMessage("true")},
	}
	if !reflect.DeepEqual(running.State, want) {
		t.Errorf("cut call is %+v, want %+v", running.State, want)
	}
	if ended.State.Output != "x" || text.Time.End != now || text.Text != "half" {
		t.Errorf("ended call %+v, text %+v", ended.State, text)
	}
	if m := history[2]; m.Finish != FinishStop || m.Tokens.Input != 5 || m.Completed != now {
		t.Errorf("the finish was not taken from the step: %+v", m)
	}
	var left []Message
	for _, m := range history {
		if m.ID != "nothing" && m.ID != "summary" && m.ID != "tail" {
			left = append(left, m)
		}
	}
	if again := Repair(left, now+1); !again.Empty() {
		t.Errorf("a second repair found %+v", again)
	}
}

// Invariant 9: states move forward only; late and duplicate results are
// ignored.
func TestToolStatesOnlyMoveForward(t *testing.T) {
	steps := map[string]func(*Tool) bool{
		"start":    func(c *Tool) bool { return c.Start(json.RawMessage("{}"), 1) },
		"complete": func(c *Tool) bool { return c.Complete(ToolState{Output: "out"}, 2) },
		"fail":     func(c *Tool) bool { return c.Fail("no", nil, 2) },
	}
	allowed := map[ToolStatus]map[string]ToolStatus{
		ToolPending:   {"start": ToolRunning, "fail": ToolError},
		ToolRunning:   {"complete": ToolCompleted, "fail": ToolError},
		ToolCompleted: {},
		ToolError:     {},
	}
	for from, to := range allowed {
		for name, step := range steps {
			call := &Tool{State: ToolState{Status: from}}
			before := call.State
			want, ok := to[name]
			if got := step(call); got != ok {
				t.Errorf("%s from %s: %v, want %v", name, from, got, ok)
			}
			if ok && call.State.Status != want {
				t.Errorf("%s from %s leads to %s, want %s", name, from, call.State.Status, want)
			}
			if !ok && !reflect.DeepEqual(call.State, before) {
				t.Errorf("%s from %s changed the state to %+v", name, from, call.State)
			}
		}
	}
}
