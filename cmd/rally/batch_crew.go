package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"rally/internal/batch"
	"rally/internal/session"
	"rally/internal/session/loop"
	"rally/internal/session/store"
)

// maxKept bounds the directories whose workshops stay open: tasks of one
// directory share its configuration, agents and instructions.
const maxKept = 32

// crew is what the tasks of a batch have in common. Its methods may be called
// from several goroutines.
type crew struct {
	options   *batchOptions
	app       *app
	ctx       context.Context // of the batch: workshops outlive the tasks that open them
	store     *store.Store
	base      string // where tasks work that name no directory
	template  *batch.Template
	trees     *batch.Worktrees // nil without --isolate
	throttles throttles
	say       func(string)

	mu   sync.Mutex
	said map[string]bool
	kept map[string]*keptWorkshop
}

type keptWorkshop struct {
	once     sync.Once
	workshop *workshop
	err      error
}

// prepare opens what all tasks need and finds the mistakes that would be every
// task's, before anything is sent.
func (c *crew) prepare(todo []*batch.Entry) (err error) {
	if len(todo) == 0 {
		return nil
	}
	if err := c.readTemplate(); err != nil {
		return err
	}
	if c.base, err = c.app.directory(); err != nil {
		return err
	}
	if c.store, err = c.app.openStore(c.ctx, "", false); err != nil {
		return err
	}
	if c.options.isolate != "" {
		parent, err := c.store.Folder("worktrees")
		if err != nil {
			return err
		}
		if c.trees, err = batch.OpenWorktrees(c.ctx, parent, c.app.environ); err != nil {
			return err
		}
	}
	here, unnamed := false, false
	for _, e := range todo {
		here, unnamed = here || e.Here, unnamed || e.Unnamed
	}
	if here && c.trees != nil {
		if err := c.trees.Check(c.ctx, c.base); err != nil {
			return asUsage(err)
		}
	}
	w, done, err := c.workshop(c.ctx, c.base, "")
	if err != nil {
		return err
	}
	defer done()
	return c.check(w, unnamed)
}

// check looks at the flags that all tasks share.
func (c *crew) check(w *workshop, unnamed bool) error {
	p := &c.options.prompt
	if err := p.fill(w, &loop.Input{}); err != nil {
		return err
	}
	if !unnamed || p.model != "" {
		return nil
	}
	agent, err := w.found.agent(firstSet(p.agent, w.cfg.Agent))
	if err == nil && agent.Model == (session.Model{}) {
		_, _, err = w.defaults()
	}
	return err
}

func (c *crew) readTemplate() error {
	path := c.options.template
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return usagef("", "--template: %w", err)
	}
	if c.template, err = batch.ParseTemplate(filepath.Base(path), string(text)); err != nil {
		return &loop.UsageError{Err: err, Hint: "{{.name}} stands for a variable; nothing else stands in braces"}
	}
	return nil
}

// close gives everything back; no task may run any more.
func (c *crew) close() {
	for _, k := range c.kept {
		if k.workshop != nil {
			k.workshop.close()
		}
	}
	if c.trees != nil {
		if err := c.trees.Close(); err != nil {
			sayNotice(c.app.stderr, err.Error())
		}
	}
	if c.store != nil {
		c.app.closeStore(c.store)
	}
}

// workshop opens the workshop for a directory, or for a session (then dir may
// be empty); done is called after the turn.
func (c *crew) workshop(ctx context.Context, dir, sessionID string) (w *workshop, done func(), err error) {
	c.mu.Lock()
	k := c.kept[dir]
	if k == nil && sessionID == "" && len(c.kept) < maxKept && !c.isTree(dir) {
		k = &keptWorkshop{}
		c.kept[dir] = k
	}
	c.mu.Unlock()
	if k != nil && sessionID == "" {
		k.once.Do(func() { k.workshop, k.err = c.open(c.ctx, dir, "") })
		return k.workshop, func() {}, k.err
	}
	if w, err = c.open(ctx, dir, sessionID); err != nil {
		return nil, nil, err
	}
	return w, w.close, nil
}

// isTree reports whether dir is a worktree of ours: no other task works there.
func (c *crew) isTree(dir string) bool { return c.trees != nil && c.trees.Has(dir) }

func (c *crew) open(ctx context.Context, dir, sessionID string) (*workshop, error) {
	there := *c.app
	there.global.dir = dir
	w, err := there.open(ctx, workshopOptions{
		turn: &c.options.turn, session: sessionID, model: c.options.prompt.model, store: c.store,
		emit: func(e session.Event) {
			if n, ok := e.Body.(session.Notice); ok {
				c.note(n.Text)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// note says something to people, once however many tasks say it.
func (c *crew) note(text string) {
	c.mu.Lock()
	known := c.said[text]
	if len(c.said) < 1000 { // a batch may have more remarks than anybody reads
		c.said[text] = true
	}
	c.mu.Unlock()
	if !known {
		c.say(text)
	}
}

// asUsage is the error of package batch for a mistake in a task.
func asUsage(err error) error {
	var bad *batch.BadTask
	if errors.As(err, &bad) {
		return &loop.UsageError{Err: err, Hint: bad.Hint}
	}
	return err
}

// directory is where a task wants to work; empty for where its session is.
func (c *crew) directory(t *batch.Task) string {
	switch {
	case t.Dir == "" && t.Session != "":
		return ""
	case filepath.IsAbs(t.Dir):
		return filepath.Clean(t.Dir)
	}
	return filepath.Join(c.base, t.Dir)
}

var errSessionInTree = usagef("leave one of them out", "a session that exists works in its own directory, not in a new worktree")

// place is where a task works: its directory, or a worktree of it.
func (c *crew) place(ctx context.Context, t *batch.Task) (dir string, tree *batch.Worktree, err error) {
	dir = c.directory(t)
	if c.trees == nil {
		return dir, nil, nil
	}
	if t.Session != "" {
		return "", nil, errSessionInTree
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", nil, usagef("", "the work directory: %s is not a directory", dir)
	}
	if tree, err = c.trees.Add(ctx, dir); err != nil {
		return "", nil, asUsage(fmt.Errorf("isolate the task: %w", err))
	}
	return tree.Dir, tree, nil
}
