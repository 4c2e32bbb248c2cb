package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"rally/internal/session"
)

var update = flag.Bool("update", false, "rewrite the golden files and scripts")

// everyEvent is a session in which everything happens that has a line.
func everyEvent() []session.Event {
	cost := session.Money(1_200_000_000)
	head := session.Header{ID: "prt_1", SessionID: "ses_1", MessageID: "msg_2"}
	opened := session.Session{
		ID: "ses_1", Directory: "/work", Title: "Fix <it> & more", Agent: "build",
		Model: session.Model{Provider: "mock", ID: "m"},
	}
	child := session.Session{ID: "ses_2", ParentID: "ses_1", Directory: "/work", Title: "child", Agent: "general", Model: opened.Model}
	tool := &session.Tool{Header: head, CallID: "call_1", Tool: "bash", State: session.ToolState{Status: session.ToolPending}}
	tool.Start(json.RawMessage(`{"command":"true"}`), 1000)
	running := *tool
	done := *tool
	done.Complete(session.ToolState{Output: "(no output)", Title: "true", Metadata: session.Metadata{"exit": json.RawMessage("0")}}, 1250)
	failed := *tool
	failed.Fail("no such file", nil, 1250)
	var out []session.Event
	add := func(bodies ...session.EventBody) {
		for _, b := range bodies {
			out = append(out, session.Event{SessionID: "ses_1", Body: b})
		}
	}
	add(
		session.Opened{Session: opened, Created: true},
		session.TurnBegan{TurnID: "trn_1", MessageID: "msg_1"},
		session.StatusChanged{Status: session.Status{Type: session.StatusBusy}},
		session.PartStarted{Part: &session.StepStart{Header: head}},
		session.Delta{PartID: "prt_1", Field: session.DeltaText, Text: "Hel"},
		session.Discard{MessageID: "msg_2", PartIDs: []string{"prt_1"}},
		session.StatusChanged{Status: session.Status{Type: session.StatusRetry, Attempt: 1, Message: "too many", Next: 3000}},
		session.PartEnded{Part: &session.Reasoning{Header: head, Text: "hm", Time: &session.Span{Start: 1, End: 2}}},
		session.PartEnded{Part: &session.Text{Header: head, Text: "Hello", Time: &session.Span{Start: 1, End: 2}}},
		session.PartStarted{Part: &running},
		session.Permission{
			CallID: "call_1", Tool: "bash", Permission: "bash", Patterns: []string{"rm x"}, Action: session.Deny, Rule: "bash:rm *", By: session.ByFlag,
		},
		session.PartEnded{Part: &done},
		session.PartEnded{Part: &failed},
	)
	out = append(out, session.Event{SessionID: "ses_2", ParentID: "ses_1", Body: session.Opened{Session: child, Created: true}})
	add(
		session.PartEnded{Part: &session.StepFinish{
			Header: head, Reason: session.FinishToolCalls, Cost: &cost, Tokens: session.Tokens{Total: 15, Input: 12, Output: 3},
		}},
		session.Compacted{Auto: true, Before: 120000, After: 9000},
		session.Notice{Text: "the model's limits are not known"},
		session.Failed{Error: &session.Error{Name: session.APIError, Data: session.ErrorData{Message: "bad key", StatusCode: 401, Hint: "set a key"}}},
		session.TurnEnded{TurnID: "trn_1", Reason: session.ReasonLimitSteps},
	)
	return out
}

func everyResult() session.Result {
	cost := session.Money(1_200_000_000)
	return session.Result{
		SessionID: "ses_1", MessageID: "msg_2", Reason: session.ReasonLimitSteps, ExitCode: 4, Text: "Hello", Finish: session.FinishStop,
		Steps: 2, ToolCalls: 1, Tokens: session.Tokens{Total: 15, Input: 12, Output: 3}, Cost: &cost, CostComplete: true,
		Denials:    []session.Denial{{SessionID: "ses_1", CallID: "call_1", Tool: "bash", Permission: "bash", Patterns: []string{"rm x"}, Rule: "bash:rm *", By: session.ByFlag}},
		DurationMS: 250, Model: "mock/m", Files: []string{"/work/a"}, Children: []string{"ses_2"},
		Error: session.NewError(session.APIError, "bad key"),
	}
}

// clock stands still.
func clock() time.Time { return time.UnixMilli(1700000000000) }

func renderJSON(t *testing.T, o outputOptions, events []session.Event, res session.Result) string {
	t.Helper()
	o.json = true
	var out, stderr bytes.Buffer
	r := &jsonRenderer{outputOptions: o, out: &out, stderr: &stderr, now: clock}
	for _, e := range events {
		r.event(e)
	}
	r.end(res)
	return out.String()
}

func TestEveryJSONLine(t *testing.T) {
	got := renderJSON(t, outputOptions{stream: true, thinking: true}, everyEvent(), everyResult())
	golden(t, "testdata/events.jsonl", got)
	for line := range strings.Lines(got) {
		validLine(t, line)
	}
}

func TestRefusalIsAStreamToo(t *testing.T) {
	got := renderJSON(t, outputOptions{}, nil, failure(errNoMessage, ""))
	golden(t, "testdata/refusal.jsonl", got)
	for line := range strings.Lines(got) {
		validLine(t, line)
	}
}

func TestWithoutFlagsNoDeltasAndNoReasoning(t *testing.T) {
	got := renderJSON(t, outputOptions{noChildren: true}, everyEvent(), everyResult())
	for _, unwanted := range []string{`"delta"`, `"reasoning"`, `"parentID"`} {
		if strings.Contains(got, `"type":`+unwanted) || unwanted == `"parentID"` && strings.Contains(got, unwanted) {
			t.Errorf("%s is there without its flag:\n%s", unwanted, got)
		}
	}
	n := int64(0)
	for line := range strings.Lines(got) {
		var l struct{ Seq int64 }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if n++; l.Seq != n {
			t.Errorf("seq %d, want %d: it has a gap", l.Seq, n)
		}
	}
}

// The schema, the page about it and what is written must not drift apart.
func TestOutputDocNamesEveryMember(t *testing.T) {
	page, err := os.ReadFile("../../docs/output.md")
	if err != nil {
		t.Fatal(err)
	}
	defs := schemaDefs(t)
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		if !strings.HasSuffix(name, "_line") {
			continue
		}
		for member := range defs[name].Properties {
			if !bytes.Contains(page, []byte("`"+member+"`")) {
				t.Errorf("docs/output.md does not name `%s` of %s", member, name)
			}
		}
		if kind := strings.TrimSuffix(name, "_line"); !bytes.Contains(page, []byte("`"+kind+"`")) {
			t.Errorf("docs/output.md does not name the line `%s`", kind)
		}
	}
}

func schemaDefs(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(eventsSchema), &s); err != nil {
		t.Fatal(err)
	}
	return s.Defs
}

// validLine checks one line against the schema of its type, and that the
// schema knows each of its members.
func validLine(t *testing.T, line string) {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(line), &members); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	kind, _ := members["type"].(string)
	defs := schemaDefs(t)
	def := defs[kind+"_line"]
	if def == nil {
		t.Fatalf("the schema has no line of type %q", kind)
	}
	for name := range members {
		if def.Properties[name] == nil {
			t.Errorf("the schema's %s line has no member %q", kind, name)
		}
	}
	only := &jsonschema.Schema{Ref: "#/$defs/" + kind + "_line", Defs: defs} // its errors name the member
	resolved, err := only.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resolved.Validate(members); err != nil {
		t.Errorf("%s\n%v", line, err)
	}
}

// golden compares got with a file, or writes it with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
