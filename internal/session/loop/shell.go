package loop

import (
	"context"
	"encoding/json"
	"errors"

	"rally/internal/session"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
	"rally/internal/tools"
)

// Shell runs a user's command in a session and records it as a tool call that
// the model sees with the next prompt. Nobody is asked for permission: the
// user is the caller. The result's exit code is the command's.
func (e *Engine) Shell(ctx context.Context, in ShellInput) (session.Result, error) {
	s, _, err := e.target(ctx, Input{SessionID: in.SessionID})
	if err != nil {
		return session.Result{}, err
	}
	lease, err := e.free(ctx, s.ID)
	if err != nil {
		return session.Result{}, err
	}
	r, err := e.shell(ctx, s, in)
	return r, errors.Join(err, lease.Release())
}

func (e *Engine) shell(ctx context.Context, s session.Session, in ShellInput) (session.Result, error) {
	if err := errors.Join(e.recover(ctx, s.ID), e.deleteReverted(ctx, s.ID)); err != nil {
		return session.Result{}, err
	}
	call, answer, err := e.recordShell(ctx, s, in.Command)
	if err != nil {
		return session.Result{}, err
	}
	e.emit(s, session.Opened{Session: s})
	e.emit(s, session.PartStarted{Part: copyTool(call)})
	began := e.nowMS()
	result, exit, runErr := e.runShell(ctx, s, in)
	now := e.nowMS()
	if runErr != nil {
		call.Fail(runErr.Error(), nil, now)
	} else {
		call.Complete(session.ToolState{Output: result.Output, Title: result.Title, Metadata: result.Metadata}, now)
	}
	answer.Completed = now
	if err := e.saveShell(ctx, call, answer); err != nil {
		return session.Result{}, err
	}
	e.emit(s, session.PartEnded{Part: copyTool(call)})
	if runErr != nil {
		return session.Result{}, runErr
	}
	out := emptyResult(session.Turn{SessionID: s.ID, Reason: session.ReasonCompleted, ExitCode: exit.Code})
	out.MessageID, out.ToolCalls, out.DurationMS, out.Text = answer.ID, 1, now-began, result.Output
	if cause := context.Cause(ctx); cause != nil {
		over := causeEnd(cause)
		out.Reason, out.ExitCode, out.Error = over.reason, over.exitCode(), over.err
	}
	return out, nil
}

func copyTool(t *session.Tool) *session.Tool {
	c := *t
	return &c
}

// runShell runs the command: its output goes to the user as it comes, and
// bounded into the result.
func (e *Engine) runShell(ctx context.Context, s session.Session, in ShellInput) (tools.Result, tools.Exit, error) {
	outputs, err := e.Store.Folder("tool-output")
	if err != nil {
		return tools.Result{}, tools.Exit{}, err
	}
	env := &tools.Env{
		SessionID: s.ID, CallID: e.NewID("call"), Directory: s.Directory, Root: e.Root(s.Directory), Outputs: outputs,
		Shell: e.Options.Shell, Environ: e.Environ, Limits: e.ToolLimits, Now: e.nowMS,
	}
	return tools.RunUserCommand(ctx, env, in.Command, in.Output)
}

// recordShell stores the command as a call that runs: a user message that
// says so, and an assistant message with the call.
func (e *Engine) recordShell(ctx context.Context, s session.Session, command string) (*session.Tool, *session.Message, error) {
	now := e.nowMS()
	ask := &session.Message{
		ID: e.NewID("msg"), SessionID: s.ID, Role: session.User, Created: now, Agent: s.Agent, Model: s.Model,
	}
	note := &session.Text{
		Header: session.Header{ID: e.NewID("prt"), SessionID: s.ID, MessageID: ask.ID}, Text: prompt.ExecutedByUser, Synthetic: true,
	}
	answer := &session.Message{
		ID: e.NewID("msg"), SessionID: s.ID, Role: session.Assistant, ParentID: ask.ID, Created: now, Agent: s.Agent,
		Model: s.Model, Path: session.Path{Cwd: s.Directory, Root: e.Root(s.Directory)}, Cost: new(session.Money),
	}
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return nil, nil, err
	}
	call := &session.Tool{
		Header: session.Header{ID: e.NewID("prt"), SessionID: s.ID, MessageID: answer.ID}, CallID: e.NewID("call"), Tool: "bash",
		State: session.ToolState{Status: session.ToolPending},
	}
	call.Start(input, now)
	return call, answer, e.Store.Write(ctx, func(tx *store.Tx) error {
		return errors.Join(tx.SaveMessage(ask), tx.SavePart(note), tx.SaveMessage(answer), tx.SavePart(call),
			tx.SetStatus(s.ID, session.Status{Type: session.StatusBusy, Message: "shell"}))
	})
}

// saveShell stores the end of a user's command, even when ctx has ended.
func (e *Engine) saveShell(ctx context.Context, call *session.Tool, answer *session.Message) error {
	ctx, cancel := ending(ctx)
	defer cancel()
	return e.Store.Write(ctx, func(tx *store.Tx) error {
		return errors.Join(tx.SavePart(call), tx.SaveMessage(answer),
			tx.SetStatus(answer.SessionID, session.Status{Type: session.StatusIdle}))
	})
}
