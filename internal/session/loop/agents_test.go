package loop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

func TestAPlanNobodyApprovesIsTheAnswer(t *testing.T) {
	w := newWorld(t, `
replies:
  - {text: first read, calls: [{name: bash, args: {command: "ls"}}]}
  - {text: the plan, calls: [{name: plan_exit, args: {}}]}
`)
	r := w.prompt(Input{Text: "go", Agent: "plan"})
	if r.Reason != session.ReasonCompleted || r.Text != "the plan" || len(r.Denials) != 0 {
		t.Errorf("result %+v", r)
	}
	first := w.request(0)[0]
	if !strings.Contains(first, "<system-reminder>") || !strings.Contains(first, "plans") {
		t.Errorf("no reminder in %q", first)
	}
}

func TestAnApprovedPlanIsCarriedOut(t *testing.T) {
	w := newWorld(t, `
replies:
  - {calls: [{name: write, args: {filePath: early, content: x}}]}
  - {calls: [{name: plan_exit, args: {}}]}
  - {calls: [{name: write, args: {filePath: late, content: x}}]}
  - {text: built}
`)
	w.engine.OnAsk = OnAskAllow
	r := w.prompt(Input{Text: "go", Agent: "plan"})
	if r.Text != "built" || r.Reason != session.ReasonCompleted {
		t.Errorf("result %+v", r)
	}
	var names []string
	for _, name := range []string{"early", "late"} {
		if _, err := os.Stat(filepath.Join(w.dir, name)); err == nil {
			names = append(names, name)
		}
	}
	if diff := cmp.Diff([]string{"late"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestAQuestionIsAnsweredAndListed(t *testing.T) {
	w := newWorld(t, `
replies:
  - {calls: [{name: question, args: {questions: [{question: "Which?"}]}}]}
  - {text: decided}
`)
	r := w.prompt(Input{Text: "go"})
	if r.Text != "decided" || len(r.Denials) != 1 || r.Denials[0].Tool != "question" {
		t.Errorf("result %+v", r)
	}
}

// Invariant 10: the gate decides in a child session as in its parent.
func TestASubagentIsAChildSession(t *testing.T) {
	w := newWorld(t, `
replies:
  - {when: {user: parent job}, calls: [{name: task, args: {description: d, prompt: child job, subagent_type: explore}}], usage: {input: 100, output: 10}}
  - {when: {user: child job}, calls: [{name: write, args: {filePath: x, content: x}}], usage: {input: 50, output: 5}}
  - {when: {user: child job}, text: child result, usage: {input: 50, output: 5}}
  - {when: {user: parent job}, text: end, usage: {input: 200, output: 20}}
`)
	r := w.prompt(Input{Text: "parent job"})
	if r.Text != "end" || r.Steps != 2 || r.ToolCalls != 1 || len(r.Children) != 1 || len(r.Denials) != 1 {
		t.Errorf("result %+v", r)
	}
	if want := (session.Tokens{Input: 400, Output: 40, Total: 440}); r.Tokens != want {
		t.Errorf("tokens %+v", r.Tokens)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "x")); err == nil {
		t.Error("a read-only agent wrote a file")
	}
	last := w.request(3)
	if got := last[len(last)-1]; !strings.Contains(got, "child result") || !strings.Contains(got, r.Children[0]) {
		t.Errorf("the parent was told %q", got)
	}
	child, err := w.store.Session(t.Context(), r.Children[0])
	if err != nil || child.ParentID != r.SessionID {
		t.Errorf("child %+v: %v", child, err)
	}
	assertSettled(t, w.store, child.ID)
}

// An agent's own rules say whom it may call by itself; what a user names is
// the user's wish, and only the user's rules stand against it.
func TestANamedAgentPassesTheAgentsOwnRules(t *testing.T) {
	script := `
replies:
  - {when: {user: child job}, text: child result, repeat: true}
  - {when: {user: parent job}, calls: [{name: task, args: {description: d, prompt: child job, subagent_type: general}}]}
  - {when: {user: parent job}, text: end}
`
	for name, tt := range map[string]struct {
		text  string
		rules []session.Rule
		want  int // children
	}{
		"named":          {"parent job @general", nil, 1},
		"not named":      {"parent job", nil, 0},
		"another is":     {"parent job @explore", nil, 0},
		"a flag forbids": {"parent job @general", []session.Rule{{Action: session.Deny, Permission: "task", Pattern: "*"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, script)
			agents := w.engine.Agents
			w.engine.Agents = func() []session.Agent {
				return append(agents(), session.Agent{Name: "lonely", Mode: session.ModePrimary, Rules: []session.Rule{{Action: session.Deny, Permission: "task", Pattern: "*"}}})
			}
			find := w.engine.Agent
			w.engine.Agent = func(name string) (session.Agent, error) {
				if name == "lonely" {
					all := w.engine.Agents()
					return all[len(all)-1], nil
				}
				return find(name)
			}
			r := w.prompt(Input{Text: tt.text, Agent: "lonely", Rules: tt.rules})
			if len(r.Children) != tt.want || r.Text != "end" {
				t.Errorf("%d children, result %+v", len(r.Children), r)
			}
		})
	}
}

// A subtask part runs before the model is asked, in the order of the parts.
func TestSubtasksRunInOrder(t *testing.T) {
	w := newWorld(t, `
replies:
  - {when: {user: job one}, text: one done}
  - {when: {user: job two}, text: two done}
  - {text: both seen}
`)
	r := w.prompt(Input{Text: "", Parts: []session.Part{
		&session.Subtask{Prompt: "job one", Description: "one", Agent: "general"},
		&session.Subtask{Prompt: "job two", Description: "two", Agent: "general", Command: "c"},
	}})
	if r.Text != "both seen" || len(r.Children) != 2 {
		t.Errorf("result %+v", r)
	}
	all := strings.Join(w.request(2), "\n")
	one, two := strings.Index(all, "one done"), strings.Index(all, "two done")
	if one < 0 || two < one || !strings.Contains(all, "Summarize the task tool output") {
		t.Errorf("the model saw %s", all)
	}
	w.validRequests()
}

func TestStructuredAnswers(t *testing.T) {
	format := &session.Format{
		Type:   "json_schema",
		Schema: json.RawMessage(`{"$schema":"x","type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
	}
	for _, tt := range []struct {
		name, script string
		reason       session.Reason
		want         string
		requests     int
	}{
		{"at once", "replies: [{calls: [{name: StructuredOutput, args: {n: 7}}]}]", session.ReasonCompleted, `{"n":7}`, 1},
		{
			"after a wrong one", "replies: [{calls: [{name: StructuredOutput, args: {n: no}}]}, {calls: [{name: StructuredOutput, args: {n: 8}}]}]",
			session.ReasonCompleted, `{"n":8}`, 2,
		},
		{"never", "default: {text: I will not, repeat: true}", session.ReasonNoStructured, "", 3},
		{
			"always wrong", "default: {repeat: true, calls: [{name: StructuredOutput, args: {n: no}}]}", session.ReasonNoStructured, "", 3,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.script)
			r := w.prompt(Input{Text: "count", Format: format})
			if r.Reason != tt.reason || string(r.Structured) != tt.want || len(w.server.Requests()) != tt.requests {
				t.Errorf("ended %s with %s after %d requests: %+v", r.Reason, r.Structured, len(w.server.Requests()), r.Error)
			}
		})
	}
}
