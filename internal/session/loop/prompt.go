package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"rally/internal/llm"
	"rally/internal/session"
	"rally/internal/session/permission"
	"rally/internal/session/prompt"
	"rally/internal/session/store"
)

// Prompt stores a user message and sees to it that it is answered. It returns
// when its turn is closed, whoever served it.
func (e *Engine) Prompt(ctx context.Context, in Input) (session.Result, error) {
	s, created, err := e.target(ctx, in)
	if err != nil {
		return session.Result{}, err
	}
	if err := e.settleRevert(ctx, s); err != nil {
		return session.Result{}, err
	}
	var held *store.Lease
	if e.WhenBusy == BusyFail && !created && !in.NoReply {
		if held, err = e.free(ctx, s.ID); err != nil {
			return session.Result{}, err
		}
	}
	k, err := e.enqueue(ctx, s, created, in)
	if err != nil {
		if held != nil {
			err = errors.Join(err, held.Release())
		}
		return session.Result{}, err
	}
	if in.NoReply || k.turn.ID == "" {
		return e.stored(k), nil
	}
	k.held = held
	return e.await(ctx, k)
}

// free takes the lease of a session that nobody serves or waits for, else it
// is ErrBusy.
func (e *Engine) free(ctx context.Context, sessionID string) (*store.Lease, error) {
	lease, ok, err := e.Store.TryLease(sessionID)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrBusy
	}
	next, err := e.Store.NextTurn(ctx, sessionID)
	if errors.Is(err, store.ErrNotFound) {
		return lease, nil
	}
	if err == nil && next.State == session.TurnPending && alive(next.OwnerPID, next.OwnerHost) {
		err = ErrBusy
	}
	if err != nil {
		return nil, errors.Join(err, lease.Release())
	}
	return lease, nil
}

// stored is the result of a message that asks for no answer.
func (e *Engine) stored(k ticket) session.Result {
	r := emptyResult(session.Turn{SessionID: k.session.ID, Reason: session.ReasonCompleted})
	r.MessageID = k.turn.MessageID
	return r
}

// target is the session that a prompt goes to, and whether it is to be made.
func (e *Engine) target(ctx context.Context, in Input) (session.Session, bool, error) {
	if in.SessionID == "" {
		id := in.NewSessionID
		if id == "" {
			id = e.NewID("ses")
		}
		s := session.Session{ID: id, Directory: in.Directory, Version: e.Version, Created: e.nowMS()}
		if e.parent != nil {
			s.ParentID, s.Model = e.parent.session.ID, e.parent.model
		}
		return s, true, nil
	}
	s, err := e.find(ctx, in.SessionID)
	if err != nil {
		return s, false, err
	}
	if in.Directory != "" {
		s.Directory = in.Directory
	} else if info, err := os.Stat(s.Directory); err != nil || !info.IsDir() {
		return s, false, usagef("give the directory it has now with -C", "the directory of session %s is gone: %s", s.ID, s.Directory)
	}
	if !in.Fork {
		return s, false, nil
	}
	fork := s
	fork.ID = in.NewSessionID
	if fork.ID == "" {
		fork.ID = e.NewID("ses")
	}
	fork.ParentID, fork.Version, fork.Created = "", e.Version, e.nowMS()
	if err := e.Store.Fork(ctx, s.ID, fork); err != nil {
		return s, false, existsAsUsage(fork.ID, err)
	}
	return fork, false, nil
}

// find resolves an id or prefix; a mistake in it is the caller's.
func (e *Engine) find(ctx context.Context, id string) (session.Session, error) {
	s, err := e.Store.Resolve(ctx, id)
	var ambiguous *store.AmbiguousError
	if errors.Is(err, store.ErrNotFound) || errors.As(err, &ambiguous) {
		return s, &UsageError{Err: err, Hint: "`rally sessions` lists what there is"}
	}
	return s, err
}

func existsAsUsage(id string, err error) error {
	if errors.Is(err, store.ErrExists) {
		return usagef("resume it with --session, or choose another id", "session %s exists already", id)
	}
	return err
}

// choice is the agent and model a prompt is for.
type choice struct {
	agent session.Agent
	model session.Model
}

// choose decides who wins: for the agent flag, command, session, config; for
// the model flag, command, agent, session, config. An agent's variant counts
// only with that agent's own model.
func (e *Engine) choose(in Input, s session.Session) (choice, error) {
	defaultAgent, defaultModel, err := e.Default()
	var c choice
	name := first(in.Agent, in.CommandAgent, s.Agent, defaultAgent)
	var agentErr error
	if c.agent, agentErr = e.Agent(name); agentErr != nil {
		return c, &UsageError{Err: agentErr}
	}
	c.model = first(in.Model, in.CommandModel, c.agent.Model, s.Model, defaultModel)
	if c.model == (session.Model{}) {
		if err == nil {
			err = errors.New("no model is set")
		}
		return c, asUsage(err)
	}
	if in.Variant != "" {
		c.model.Variant = in.Variant
	}
	_, model, err := e.Model(c.model)
	if err != nil {
		return c, asUsage(err)
	}
	return c, checkVariant(model, c.model.Variant)
}

// checkVariant names the variants there are when it is none of them.
func checkVariant(model llm.Model, name string) error {
	var names []string
	for _, v := range model.Variants {
		names = append(names, v.Name)
	}
	if name == "" || slices.Contains(names, name) {
		return nil
	}
	hint := "it has none"
	if len(names) > 0 {
		hint = "it has: " + strings.Join(names, ", ")
	}
	return usagef(hint, "model %s has no variant %q", model.Ref(), name)
}

func asUsage(err error) error {
	var usage *UsageError
	if errors.As(err, &usage) {
		return err
	}
	return &UsageError{Err: err}
}

// first is the first of its arguments that is not zero.
func first[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}

// enqueue stores the prompt in one transaction with all that it changes.
func (e *Engine) enqueue(ctx context.Context, s session.Session, created bool, in Input) (ticket, error) {
	c, err := e.choose(in, s)
	if err != nil {
		return ticket{}, err
	}
	s.Agent, s.Model = c.agent.Name, c.model
	if in.Title != "" {
		s.Title = in.Title
	} else if created {
		s.Title = prompt.Title(in.Text)
	}
	if len(in.Rules) > 0 {
		s.Rules = permission.Replace(s.Rules, in.Rules)
	}
	m, err := e.userMessage(ctx, s, c, in)
	if err != nil {
		return ticket{}, err
	}
	row, attached, err := e.Store.Enqueue(ctx, store.Prompt{
		Session: s, Create: created, Message: m, Turn: !in.NoReply, Supersede: e.WhenBusy == BusyInterrupt,
		OwnerPID: e.PID, OwnerHost: e.host,
	})
	if err != nil {
		return ticket{}, existsAsUsage(s.ID, err)
	}
	e.emit(s, session.Opened{Session: s, Created: created})
	if row.MessageID == "" {
		row.MessageID = m.ID
	}
	return ticket{session: s, turn: row, own: !attached}, nil
}

func (e *Engine) userMessage(ctx context.Context, s session.Session, c choice, in Input) (*session.Message, error) {
	id := in.MessageID
	if id == "" {
		id = e.NewID("msg")
	}
	m := &session.Message{
		ID: id, SessionID: s.ID, Role: session.User, Created: e.nowMS(), Agent: c.agent.Name, Model: c.model,
		System: in.System, AppendSystem: in.AppendSystem, Format: in.Format,
	}
	if in.CompactOnly {
		m.Parts = []session.Part{&session.Compaction{Header: session.Header{ID: e.NewID("prt"), SessionID: s.ID, MessageID: m.ID}}}
		return m, nil
	}
	parts, err := e.expand(ctx, s, c, in)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		h := p.Head()
		h.ID, h.SessionID, h.MessageID = e.NewID("prt"), s.ID, m.ID
	}
	m.Parts = parts
	return m, nil
}

// Continue goes on with a session from what is stored: it attaches to a turn
// that is open or waiting (and takes it over if its owner is gone), gives the
// answer that is there, or opens a turn on the newest user message.
func (e *Engine) Continue(ctx context.Context, id string) (session.Result, error) {
	s, _, err := e.target(ctx, Input{SessionID: id})
	if err != nil {
		return session.Result{}, err
	}
	if err := e.settleRevert(ctx, s); err != nil {
		return session.Result{}, err
	}
	row, state, err := e.Store.ContinueTurn(ctx, s.ID, e.NewID("trn"), e.PID, e.host)
	if err != nil {
		return session.Result{}, err
	}
	if state == store.Nothing {
		return session.Result{}, usagef("write a message with `rally run --session "+s.ID+"`", "session %s has no message to answer", s.ID)
	}
	e.emit(s, session.Opened{Session: s})
	if state == store.Answered && row == nil {
		return e.importedAnswer(ctx, s)
	}
	return e.await(ctx, ticket{session: s, turn: *row, own: state == store.Opened})
}

// importedAnswer is the result of a finished answer that no turn of ours made.
func (e *Engine) importedAnswer(ctx context.Context, s session.Session) (session.Result, error) {
	history, err := e.Store.History(ctx, s.ID)
	if err != nil {
		return session.Result{}, err
	}
	if len(history) == 0 {
		return session.Result{}, fmt.Errorf("session %s has no messages", s.ID)
	}
	place := history[len(history)-1].Place
	for i := range history { // they carry no turn: take those of the last place
		if history[i].Place != place {
			history[i].TurnID = "-"
		}
	}
	return resultOf(session.Turn{SessionID: s.ID, Reason: session.ReasonCompleted}, history), nil
}
