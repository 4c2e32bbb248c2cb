package loop

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"rally/internal/session"
	"rally/internal/session/permission"
	"rally/internal/session/prompt"
	"rally/internal/tools"
)

// expand makes the parts of a user message: what its references stand for is
// read by the read tool, behind the gate like any call of it.
func (e *Engine) expand(ctx context.Context, s session.Session, c choice, in Input) ([]session.Part, error) {
	root := e.Root(s.Directory)
	outputs, err := e.Store.Folder("tool-output")
	if err != nil {
		return nil, err
	}
	x := &expander{Engine: e, named: map[string]bool{}, env: &tools.Env{
		SessionID: s.ID, Directory: s.Directory, Root: root, Outputs: outputs, Shell: e.Options.Shell, Environ: e.Environ,
		Limits: e.ToolLimits, Files: tools.NewFiles(), Now: e.nowMS,
	}}
	x.gate = newGate(e, c.agent, s, x.env)
	for _, f := range in.Files {
		x.named[filepath.Clean(f.Path)] = true
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then ~ stands for nothing
	}
	parts := prompt.Expand(ctx, prompt.Input{Text: in.Text, Opaque: in.Opaque, Parts: in.Parts, Files: in.Files}, prompt.Lookup{
		Root: root, Directory: s.Directory, Home: home, Agents: e.Agents(), References: e.Context(s.Directory, root).References,
		Stat: os.Stat, Read: x.read,
		TaskDenied: func(agent string) bool {
			return newGate(e, c.agent, s, x.env, agent).ask(taskName, agent).decision.Action == session.Deny
		},
	})
	x.stamp(parts)
	return parts, nil
}

// expander reads files for a prompt.
type expander struct {
	*Engine
	env    *tools.Env
	gate   *gate
	named  map[string]bool // files that a flag names
	stamps []session.FileStamp
}

// read is a call of the read tool. Nobody can be asked, so an `ask` is a
// refusal, but for files that a flag names: who named them was asked already.
func (x *expander) read(ctx context.Context, path string, offset, limit int) (string, []*session.File, error) {
	tool, ok := x.Tools.Lookup("read")
	if !ok {
		return "", nil, errors.New("there is no read tool")
	}
	input := map[string]any{"filePath": path}
	if offset > 0 {
		input["offset"] = offset
	}
	if limit > 0 {
		input["limit"] = limit
	}
	args, err := json.Marshal(input)
	if err != nil {
		return "", nil, err
	}
	access, err := tool.Access(x.env, args)
	if err != nil {
		return "", nil, err
	}
	if q := x.gate.worst(access); q != nil {
		asked := q.decision.Action == session.Ask
		if !asked || x.OnAsk != OnAskAllow && !x.named[filepath.Clean(path)] {
			return "", nil, errors.New("the rules do not allow " + q.String())
		}
	}
	result, err := tool.Run(ctx, x.env, args)
	if err != nil {
		return "", nil, err
	}
	var stamps []session.FileStamp
	if json.Unmarshal(result.Metadata[session.MetaFiles], &stamps) == nil {
		x.stamps = append(x.stamps, stamps...)
	}
	return result.Output, result.Attachments, nil
}

// stamp keeps with the message what was read for it, so that the session may
// write these files.
func (x *expander) stamp(parts []session.Part) {
	if len(x.stamps) == 0 {
		return
	}
	for _, p := range parts {
		if text, ok := p.(*session.Text); ok && text.Synthetic {
			if text.Metadata == nil {
				text.Metadata = session.Metadata{}
			}
			text.Metadata.Set(session.MetaFiles, x.stamps)
			return
		}
	}
}

// AllowScript decides about a script that a user's template wants to run in a
// session's directory, as about a call of bash: the error names what the rules
// do not allow. Nobody can be asked.
func (e *Engine) AllowScript(agent session.Agent, s session.Session, script string) error {
	env := &tools.Env{Directory: s.Directory, Root: e.Root(s.Directory), Environ: e.Environ}
	q := newGate(e, agent, s, env).worst([]tools.Access{{Permission: "bash", Script: script, Dir: s.Directory}})
	if q == nil || q.decision.Action == session.Ask && e.OnAsk == OnAskAllow {
		return nil
	}
	return errors.New("the rules do not allow " + q.String())
}

// newGate is the gate of an agent's calls in a session. The user named the
// agents named.
func newGate(e *Engine, agent session.Agent, s session.Session, env *tools.Env, named ...string) *gate {
	layers := e.Rules
	layers.Session = s.Rules
	for above := e.parent; above != nil; above = above.parent {
		if above.agent.ReadOnly {
			layers.Above = append(layers.Above, above.agent.Rules)
		}
	}
	g := &gate{people: permission.Merge(layers), named: named, env: env, onAsk: e.OnAsk, keep: e.ContinueOnDeny}
	layers.Agent, layers.ReadOnly = agent.Rules, agent.ReadOnly
	g.rules = permission.Merge(layers)
	return g
}
