package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rally/internal/config"
	"rally/internal/llm"
	"rally/internal/llm/scripted"
	"rally/internal/session"
	"rally/internal/session/loop"
	"rally/internal/session/permission"
	"rally/internal/session/snapshot"
	"rally/internal/session/store"
	"rally/internal/tools"
)

// workshop is all that a turn needs, built from the process, its flags and the
// configuration. close gives everything back.
type workshop struct {
	app       *app
	engine    *loop.Engine
	store     *store.Store
	cfg       *config.Config
	providers *providers
	registry  tools.Registry
	session   session.Session // the one that is resumed; zero for a new one
	directory string          // where a new session works, or -C moves one
	outputs   string          // the folder for outputs that were cut
	notice    func(string)    // says something to people
	found     found
	closers   []func()
}

// workshopOptions say what for.
type workshopOptions struct {
	turn      *turnOptions
	session   string // an id or the beginning of one; empty for a new session
	last      bool   // the newest session of this directory
	model     string // of the flag
	ephemeral bool
	store     *store.Store // open already, and not to be closed; nil opens the usual one
	emit      func(session.Event)
}

// open builds a workshop, top to bottom: where we are, which session, its
// configuration, models, and the engine on top. Nothing is sent and no project
// file written.
func (a *app) open(ctx context.Context, o workshopOptions) (w *workshop, err error) {
	w = &workshop{app: a, store: o.store}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	log, err := a.openJournal()
	if err != nil {
		return w, err
	}
	w.closers = append(w.closers, log.close)
	emit := func(e session.Event) {
		log.event(ctx, e)
		o.emit(e)
	}
	if w.directory, err = a.directory(); err != nil {
		return w, err
	}
	if o.session != "" || o.last {
		if err := w.resume(ctx, o); err != nil {
			return w, err
		}
	}
	if w.cfg, err = a.loadConfig(w.directory, o.turn.set); err != nil {
		return w, err
	}
	w.notice = func(text string) { emit(session.Event{SessionID: w.session.ID, Body: session.Notice{Text: text}}) }
	for _, held := range w.cfg.Held {
		w.notice(held.String())
	}
	if err := w.addModels(ctx, o); err != nil {
		return w, err
	}
	if w.store == nil {
		if err := w.openStore(ctx, o.ephemeral); err != nil {
			return w, err
		}
	}
	log.masked.hide(w.secrets()...)
	options, err := w.options(o, emit)
	if err != nil {
		return w, err
	}
	w.engine = loop.New(options)
	return w, nil
}

// resume finds the session to go on with: its stored directory is where the
// configuration is read, unless -C moves it.
func (w *workshop) resume(ctx context.Context, o workshopOptions) (err error) {
	if w.store == nil {
		if err := w.openStore(ctx, false); err != nil {
			return err
		}
	}
	if w.session, err = w.app.pick(ctx, w.store, o.session); err != nil {
		return err
	}
	if w.app.global.dir != "" {
		return nil
	}
	if info, err := os.Stat(w.session.Directory); err != nil || !info.IsDir() {
		return usagef("give the directory it has now with -C", "the directory of session %s is gone: %s", w.session.ID, w.session.Directory)
	}
	w.directory = w.session.Directory
	return nil
}

func (w *workshop) openStore(ctx context.Context, ephemeral bool) error {
	path := ""
	if ephemeral {
		dir, err := os.MkdirTemp(w.app.env("TMPDIR"), "rally-")
		if err != nil {
			return fmt.Errorf("make a folder for a session that is not kept: %w", err)
		}
		w.closers = append(w.closers, func() { _ = os.RemoveAll(dir) })
		path = filepath.Join(dir, "rally.db")
	}
	s, err := w.app.openStore(ctx, path, false)
	if err != nil {
		return err
	}
	w.store = s
	w.closers = append(w.closers, func() { w.app.closeStore(s) }) //nolint:contextcheck // it is closed after ctx has ended, too
	return nil
}

// addModels prepares the providers; a script that wants to find files gets a
// new session's directory of its own.
func (w *workshop) addModels(ctx context.Context, o workshopOptions) error {
	script := &play{
		app: w.app, ctx: ctx, strict: o.turn.replayStrict, notice: w.notice,
		timeouts: llm.Timeouts{Connect: w.cfg.Timeouts.Connect, FirstByte: w.cfg.Timeouts.FirstByte, Idle: w.cfg.Timeouts.Idle},
	}
	w.closers = append(w.closers, script.close)
	w.providers = w.app.newProviders(w.cfg, script, w.notice)
	if err := w.recordTo(o.turn.record); err != nil {
		return err
	}
	name := firstSet(o.model, w.cfg.Model)
	if w.session.ID != "" || !strings.HasPrefix(name, scriptedID+"/") {
		return nil
	}
	ref, err := w.model(name)
	if err != nil {
		return err
	}
	dir, err := script.stage(ref)
	if dir != "" {
		w.directory = dir
	}
	return err
}

// recordTo writes what the providers answer to a script.
func (w *workshop) recordTo(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return usagef("choose another file for --record", "the record cannot be written: %w", err)
	}
	record := scripted.NewRecorder(f, w.secrets())
	w.providers.record, w.providers.script.record = record, record
	w.closers = append(w.closers, func() {
		if err := errors.Join(record.Err(), f.Close()); err != nil {
			w.notice("the record is not complete: " + err.Error())
		}
	})
	return nil
}

// options are the engine's.
func (w *workshop) options(o workshopOptions, emit func(session.Event)) (loop.Options, error) {
	a, cfg := w.app, w.cfg
	var err error
	if w.outputs, err = w.store.Folder("tool-output"); err != nil {
		return loop.Options{}, err
	}
	plans, err := w.store.Folder("plans")
	if err != nil {
		return loop.Options{}, err
	}
	w.registry = tools.New(tools.Options{})
	open := []string{w.outputs, plans}
	for _, r := range w.cfg.FindReferences() {
		open = append(open, r.Path)
	}
	w.found = discover(cfg, open...)
	for _, n := range w.found.notices {
		w.notice(n.String())
	}
	shell, err := a.shell(cfg.Shell)
	if err != nil {
		return loop.Options{}, err
	}
	cost, err := session.ParseMoney(fmt.Sprint(cfg.Limits.Cost))
	if err != nil {
		return loop.Options{}, err
	}
	fallback, err := w.models(o.turn.fallback...)
	if err != nil {
		return loop.Options{}, err
	}
	var small session.Model
	if cfg.SmallModel != "" {
		if small, err = w.model(cfg.SmallModel); err != nil {
			return loop.Options{}, err
		}
	}
	var summaries session.Model
	if cfg.Compaction.Model != "" {
		if summaries, err = w.model(cfg.Compaction.Model); err != nil {
			return loop.Options{}, err
		}
	}
	user, project := cfg.Rules()
	return loop.Options{
		Store: w.store, Version: version, Now: a.now, NewID: a.newIDs(), Emit: emit,
		Model: w.providers.find, Agent: w.found.agent, Agents: w.found.visible, Default: w.defaults, Small: small, ModelTitles: cfg.Title == "model", Fallback: fallback,
		Retry: llm.Policy{
			Attempts: cfg.Retry.Attempts, MaxWait: cfg.Retry.MaxWait, OfflineWait: cfg.Retry.OfflineWait, Jitter: rand.Float64,
		},
		Root:       config.Root,
		Context:    w.found.context,
		Nested:     nested(o.turn.hermetic),
		OpenTree:   w.trees(),
		Tools:      w.registry,
		More:       w.servers(),
		ToolLimits: tools.Limits{MaxLines: cfg.ToolOutput.MaxLines, MaxBytes: cfg.ToolOutput.MaxBytes},
		Shell:      shell,
		Environ:    tools.ChildEnviron(a.environ, w.secretVariables()),
		Rules: permission.Layers{
			Defaults: permission.Defaults(open...), User: user, Project: project, TrustProject: cfg.Trusted,
		},
		OnAsk: loop.OnAsk(cfg.OnAsk), ContinueOnDeny: cfg.ContinueOnDeny,
		Limits:        loop.Limits{Steps: cfg.Limits.Steps, Cost: cost, Tokens: cfg.Limits.Tokens},
		SubagentDepth: cfg.SubagentDepth,
		Compaction: loop.Compaction{
			Auto: cfg.Compaction.Auto, Prune: cfg.Compaction.Prune, Reserve: int64(cfg.Compaction.Reserve),
			TailTurns: cfg.Compaction.TailTurns, Model: summaries,
		},
		WhenBusy: loop.WhenBusy(o.turn.whenBusy), PID: a.pid,
	}, nil
}

// trees is loop.Options.OpenTree: nil where snapshots are switched off.
func (w *workshop) trees() func(dir, root string) *snapshot.Tree {
	if !w.cfg.Snapshot {
		return nil
	}
	return w.app.openTree(w.store)
}

// nested is loop.Options.Nested: without discovery, files that are read bring
// no instructions along.
func nested(hermetic bool) func(dir string) []string {
	if hermetic {
		return nil
	}
	return config.InstructionFiles
}

// close gives back what open took, the newest first.
func (w *workshop) close() {
	for _, f := range slices.Backward(w.closers) {
		f()
	}
}

// limit is the time a turn may take by the configuration, flags included.
func (w *workshop) limit() time.Duration { return w.cfg.Limits.Timeout }

// model reads provider/model and finds out early whether there is one.
func (w *workshop) model(name string) (session.Model, error) {
	ref, err := session.ParseModel(name)
	if err != nil {
		return ref, usagef("rally models lists what there is", "%w", err)
	}
	_, _, err = w.providers.find(ref)
	return ref, err
}

func (w *workshop) models(names ...string) ([]session.Model, error) {
	var out []session.Model
	for _, name := range names {
		ref, err := w.model(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		out = append(out, ref)
	}
	return out, nil
}

// defaults is loop.Options.Default: the agent is good even beside an error.
func (w *workshop) defaults() (string, session.Model, error) {
	if w.cfg.Model != "" {
		ref, err := session.ParseModel(w.cfg.Model)
		if err != nil {
			err = usagef("model: in the configuration, or RALLY_MODEL", "%w", err)
		}
		return w.cfg.Agent, ref, err
	}
	if ref, ok := w.providers.first(); ok {
		return w.cfg.Agent, ref, nil
	}
	return w.cfg.Agent, session.Model{}, usagef(
		"set OPENAI_API_KEY or ANTHROPIC_API_KEY, or name one with -m, RALLY_MODEL or model: in the config; without a key or network: -m scripted/tour",
		"no model is set")
}

// chosenAgent checks the flag: a subagent works for others only.
func (w *workshop) chosenAgent(name string) error {
	if name == "" {
		return nil
	}
	found, err := w.found.agent(name)
	if err == nil && (found.Hidden || found.Mode == session.ModeSubagent) {
		err = usagef("rally agents lists those that can", "agent %q cannot be a session's own", name)
	}
	return err
}

func (w *workshop) toolNames() []string {
	var names []string
	for _, t := range w.registry.All() {
		names = append(names, t.Name())
	}
	return names
}

// shell is the program that runs commands: the configured one, or what every
// system has where the default is not there.
func (a *app) shell(path string) (string, error) {
	if _, err := os.Stat(path); err == nil {
		return path, nil
	} else if path != defaultShell {
		return "", usagef("shell: in the configuration", "the shell: %w", err)
	}
	return "/bin/sh", nil
}

const defaultShell = "/bin/bash"

// secrets are the values that must never be written anywhere.
func (w *workshop) secrets() []string {
	var out []string
	for i := range w.providers.list {
		out = append(out, secretsOf(&w.providers.list[i])...)
	}
	for _, name := range w.cfg.Secrets {
		if value := w.app.env(name); value != "" {
			out = append(out, value)
		}
	}
	return out
}

// secretVariables are the variables that tools never see: those the
// configuration names, and those whose value is a provider's key, wherever the
// configuration took it from. Invariant 15.
func (w *workshop) secretVariables() []string {
	out := slices.Clone(w.cfg.Secrets)
	secrets := w.secrets()
	for _, kv := range w.app.environ {
		if name, value, _ := strings.Cut(kv, "="); slices.Contains(secrets, value) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
