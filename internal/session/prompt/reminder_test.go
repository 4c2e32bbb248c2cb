package prompt

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

func TestReminder(t *testing.T) {
	t.Parallel()
	build, plan := session.Agent{Name: "build"}, session.Agent{Name: "plan", ReadOnly: true}
	text := &session.Text{Text: "go"}
	planned := []session.Message{user("1", text), answer("plan"), user("2", text)}
	summary := answer("compaction")
	summary.Summary = true
	for _, c := range []struct {
		name    string
		in      Reminding
		holds   []string
		nothing bool
	}{
		{"plan", Reminding{History: planned[:1], MessageID: "1", Agent: plan, PlanFile: "/p/1.md"}, []string{"# Plan mode", "/p/1.md", "only file"}, false},
		{"plan without a file", Reminding{History: planned[:1], MessageID: "1", Agent: plan}, []string{"# Plan mode", "your answer is the plan"}, false},
		{"first build", Reminding{History: planned[:1], MessageID: "1", Agent: build}, nil, true},
		{"build after plan", Reminding{History: planned, MessageID: "2", Agent: build, PlanFile: "/p/1.md"}, []string{"Plan mode has ended"}, false},
		{"build after plan with its file", Reminding{History: planned, MessageID: "2", Agent: build, PlanFile: "/p/1.md", PlanExists: true}, []string{"Plan mode has ended", "written to /p/1.md"}, false},
		{"own agent after plan", Reminding{History: planned, MessageID: "2", Agent: session.Agent{Name: "mine"}}, []string{"Plan mode has ended"}, false},
		{"read-only agent after plan", Reminding{History: planned, MessageID: "2", Agent: session.Agent{Name: "ask", ReadOnly: true}}, nil, true},
		{"a summary between", Reminding{History: []session.Message{planned[1], summary, planned[2]}, MessageID: "2", Agent: build}, []string{"Plan mode has ended"}, false},
		{"plan longer ago", Reminding{History: append(planned[:2:2], user("2", text), answer("build"), user("3", text)), MessageID: "3", Agent: build}, nil, true},
		{"a message that is not there", Reminding{History: planned, MessageID: "9", Agent: build}, nil, true},
	} {
		got := Reminder(c.in)
		if c.nothing != (got == "") {
			t.Errorf("%s: Reminder = %q", c.name, got)
		}
		for _, want := range c.holds {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing in %q", c.name, want, got)
			}
		}
		// Invariant 6: the steps that follow do not change it.
		later := c.in
		later.History = append(later.History[:len(later.History):len(later.History)], answer(c.in.Agent.Name), user("x", text), answer("plan"))
		if diff := cmp.Diff(got, Reminder(later)); diff != "" {
			t.Errorf("%s: a later step sends something else:\n%s", c.name, diff)
		}
	}
}

// The constraints of the second seed's text, one by one.
func TestPlanReminderKeepsEveryConstraint(t *testing.T) {
	t.Parallel()
	got := Reminder(Reminding{MessageID: "1", Agent: session.Agent{Name: "plan"}, PlanFile: "/p/1.md"})
	golden(t, "reminder/plan.txt", got)
	for _, want := range []string{
		"<system-reminder>", "CRITICAL", "read-only phase", "strictly forbidden", "edit", "change the system", "sed, tee, echo, cat",
		"only read and inspect", "absolute", "above every other instruction", "direct request by the user", "observe, analyse and plan",
		"grave violation", "no exceptions", "Think, read, search, and delegate", "complete and concise", "trade-offs", "clarification",
		"Do not assume much", "every loose end", "nothing is to be carried out yet", "plan file excepted", "changing configuration",
		"commits", "supersedes all other instructions", "</system-reminder>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestMaxStepsIsPlainText(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"step limit", "switched off", "is done", "not done yet", "recommend"} {
		if !strings.Contains(MaxSteps, want) {
			t.Errorf("%q is missing", want)
		}
	}
}
