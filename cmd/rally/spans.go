package main

import (
	"context"
	"fmt"
	"strings"

	"rally/internal/session"
	"rally/internal/session/permission"
	"rally/internal/tools"
)

// spans runs the shell spans of a trusted template. They are judged by the
// rules that a call of the bash tool would meet; where those would ask, nobody
// is there to answer.
func (w *workshop) spans(p *promptOptions, agent session.Agent) (func(context.Context, string) (string, error), error) {
	flags, err := p.rules.rules(w.toolNames())
	if err != nil {
		return nil, err
	}
	rules := session.Session{Directory: w.directory, Rules: permission.Replace(w.session.Rules, flags)}
	env := &tools.Env{
		SessionID: "span", CallID: w.engine.NewID("call"), Directory: w.directory, Root: w.engine.Root(w.directory),
		Outputs: w.outputs, Shell: w.engine.Options.Shell, Environ: w.engine.Environ, Limits: w.engine.ToolLimits,
		Now: func() int64 { return w.app.now().UnixMilli() },
	}
	return func(ctx context.Context, script string) (string, error) {
		if err := w.engine.AllowScript(agent, rules, script); err != nil {
			return "", err
		}
		var out head
		_, exit, err := tools.RunUserCommand(ctx, env, script, &out)
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("exit status %d", exit.Code)
		}
		return out.String(), err
	}, nil
}

// maxSpan is more than a prompt takes of a span.
const maxSpan = 256 << 10

// head keeps the beginning of what is written to it.
type head struct{ strings.Builder }

func (h *head) Write(b []byte) (int, error) {
	_, _ = h.Builder.Write(b[:min(len(b), max(0, maxSpan-h.Len()))]) // a Builder takes everything
	return len(b), nil
}
