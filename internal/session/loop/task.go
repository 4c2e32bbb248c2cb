package loop

import (
	"context"
	_ "embed" // the tool's description
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rally/internal/session"
	"rally/internal/tools"
)

//go:embed task.md
var taskText string

// taskName is the tool that starts subagents.
const taskName = "task"

const taskSchema = `{"type":"object","properties":{
"description":{"type":"string","description":"The task in three to five words"},
"prompt":{"type":"string","description":"The whole task for the agent","minLength":1},
"subagent_type":{"type":"string","description":"The agent type to use"},
"task_id":{"type":"string","description":"The task_id of an earlier task, to go on with its session"},
"command":{"type":"string","description":"The command that caused this task"}},
"required":["description","prompt","subagent_type"],"additionalProperties":false}`

type taskArgs struct {
	Description string `json:"description"`
	Prompt      string `json:"prompt"`
	Agent       string `json:"subagent_type"`
	TaskID      string `json:"task_id,omitempty"`
	Command     string `json:"command,omitempty"`
}

// taskTool runs a subagent: a child session on which the same loop works. It
// belongs to one turn.
type taskTool struct{ turn *turn }

func (taskTool) Name() string            { return taskName }
func (taskTool) Schema() json.RawMessage { return json.RawMessage(taskSchema) }

func (k taskTool) Description() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(taskText))
	for _, a := range k.turn.subagents() {
		fmt.Fprintf(&b, "\n- %s: %s", a.Name, a.Description)
	}
	return b.String()
}

func (taskTool) Access(_ *tools.Env, raw json.RawMessage) ([]tools.Access, error) {
	var args taskArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	return []tools.Access{{Permission: taskName, Patterns: []string{args.Agent}, Changes: true}}, nil
}

// Run returns when the child's turn has an end. Whatever the end, it is a
// result or an error for the model; the child has the deadline, the limits and
// the end of the parent.
func (k taskTool) Run(ctx context.Context, env *tools.Env, raw json.RawMessage) (tools.Result, error) {
	var args taskArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return tools.Result{}, err
	}
	if k.turn.depth() >= k.turn.SubagentDepth {
		return tools.Result{}, fmt.Errorf("subagents may not start subagents at this depth (%d): do the work yourself", k.turn.SubagentDepth)
	}
	agent, err := k.subagent(args.Agent)
	if err != nil {
		return tools.Result{}, err
	}
	in := Input{
		NewSessionID: childID(env.CallID), Directory: env.Directory, Agent: agent.Name, Text: args.Prompt,
		Title: fmt.Sprintf("%s (@%s subagent)", args.Description, agent.Name), Rules: k.turn.childRules(agent),
	}
	child := &Engine{Options: k.turn.Options, host: k.turn.host, emitting: k.turn.emitting, parent: k.turn}
	child.WhenBusy = BusyWait
	if args.TaskID != "" {
		if in.SessionID, err = k.earlier(ctx, args.TaskID); err != nil {
			return tools.Result{}, err
		}
		in.NewSessionID, in.Directory, in.Title = "", "", ""
	}
	r, err := child.Prompt(ctx, in)
	if err != nil {
		return tools.Result{}, fmt.Errorf("the subagent could not be started: %w", err)
	}
	return taskResult(args, r)
}

// taskResult is what the parent's model reads.
func taskResult(args taskArgs, r session.Result) (tools.Result, error) {
	meta := session.Metadata{}
	meta.Set(session.MetaChild, r.SessionID)
	out := tools.Result{Title: args.Description, Metadata: meta}
	if r.Reason != session.ReasonCompleted {
		text := fmt.Sprintf("Subagent failed (task_id: %s): %s", r.SessionID, r.Reason)
		if r.Error != nil {
			text += ": " + r.Error.Data.Message
		}
		if r.Text != "" {
			text += "\nIts last words were:\n" + r.Text
		}
		return out, errors.New(text)
	}
	out.Output = fmt.Sprintf("<task id=%q state=\"completed\">\n<task_result>\n%s\n</task_result>\n</task>", r.SessionID, r.Text)
	return out, nil
}

// childID is the id of the session that a call opens: it follows from the
// call's, so whoever finds the call cut off knows the child.
func childID(callID string) string {
	_, unique, _ := strings.Cut(callID, "_")
	return "ses_" + unique
}

// earlier checks that a session is a child of this one.
func (k taskTool) earlier(ctx context.Context, id string) (string, error) {
	s, err := k.turn.Store.Session(ctx, id)
	if err != nil || s.ParentID != k.turn.session.ID {
		return "", fmt.Errorf("there is no task %q here: leave task_id out to start a new one", id)
	}
	return id, nil
}

func (k taskTool) subagent(name string) (session.Agent, error) {
	var names []string
	for _, a := range k.turn.subagents() {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return session.Agent{}, fmt.Errorf("unknown agent type: %q is not a valid agent type. The types are: %s", name, strings.Join(names, ", "))
}

// subagents are the agents that a task may use, by name.
func (t *turn) subagents() []session.Agent {
	return slices.DeleteFunc(slices.Clone(t.Agents()), func(a session.Agent) bool {
		return a.Hidden || a.Mode == session.ModePrimary || t.gate.ask(taskName, a.Name).decision.Action == session.Deny
	})
}

// named are the agents that the user's message names.
func (t *turn) named() []string {
	var names []string
	for _, p := range t.head.Parts {
		if a, ok := p.(*session.AgentRef); ok {
			names = append(names, a.Name)
		}
		if s, ok := p.(*session.Subtask); ok {
			names = append(names, s.Agent)
		}
	}
	return names
}

// depth is how many sessions stand above this one.
func (t *turn) depth() int {
	n := 0
	for above := t.parent; above != nil; above = above.parent {
		n++
	}
	return n
}

// childRules are what a child session may do beyond its agent's own rules:
// what the parent's agent is denied, then what the parent session's flags say.
// Lists of tasks and further subagents are for agents whose rules speak of
// them; nobody is asked a question.
func (t *turn) childRules(agent session.Agent) []session.Rule {
	var rules []session.Rule
	for _, r := range t.agent.Rules {
		// A read-only agent's rules guard its children as a whole: its denies
		// alone would close what the rules after them open.
		if r.Action == session.Deny && !t.agent.ReadOnly {
			rules = append(rules, r)
		}
	}
	rules = append(rules, t.session.Rules...)
	for _, name := range []string{"todowrite", taskName} {
		speaks := slices.ContainsFunc(agent.Rules, func(r session.Rule) bool { return r.Permission == name })
		if !speaks {
			rules = append(rules, session.Rule{Permission: name, Pattern: "*", Action: session.Deny})
		}
	}
	return append(rules, session.Rule{Permission: "question", Pattern: "*", Action: session.Deny})
}
