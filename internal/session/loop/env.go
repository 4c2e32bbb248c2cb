package loop

import (
	"context"

	"rally/internal/session"
	"rally/internal/session/store"
	"rally/internal/tools"
)

// newEnv is what the turn's calls may use: what the session has read comes
// from the stamps that earlier calls left in the history.
func (t *turn) newEnv(history []session.Message) (*tools.Env, error) {
	outputs, err := t.Store.Folder("tool-output")
	if err != nil {
		return nil, err
	}
	env := &tools.Env{
		SessionID: t.session.ID, Directory: t.session.Directory, Root: t.root, Outputs: outputs,
		Shell: t.Options.Shell, Environ: t.Environ, Limits: t.ToolLimits, Files: tools.NewFiles(),
		Todos: tools.NewTodos(t.session.Todos, t.saveTodos), Jobs: tools.NewJobs(), Now: t.nowMS,
	}
	for i := range history {
		for _, p := range history[i].Parts {
			if call, ok := p.(*session.Tool); ok {
				env.Files.Seed(call.State.Metadata)
			}
			if text, ok := p.(*session.Text); ok {
				env.Files.Seed(text.Metadata)
			}
		}
	}
	return env, nil
}

// saveTodos stores the list with the session.
func (t *turn) saveTodos(list []session.Todo) error {
	ctx, cancel := ending(context.Background())
	defer cancel()
	return t.Store.Write(ctx, func(tx *store.Tx) error {
		s, err := tx.Session(t.session.ID)
		if err != nil {
			return err
		}
		s.Todos = list
		return tx.SaveSession(s)
	})
}

// bounded keeps a result within the limits of what the conversation takes.
func (x *executor) bounded(r tools.Result) session.ToolState {
	out := session.ToolState{Output: r.Output, Title: r.Title, Metadata: r.Metadata, Attachments: r.Attachments}
	if r.Bounded {
		return out
	}
	text, path, cut := tools.Bound(x.env, r.Output)
	if !cut {
		return out
	}
	meta := session.Metadata{}
	for k, v := range r.Metadata {
		meta[k] = v
	}
	meta.Set("truncated", true)
	if path != "" {
		meta.Set("outputPath", path)
	}
	out.Output, out.Metadata = text, meta
	return out
}
