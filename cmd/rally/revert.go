package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"rally/internal/config"
	"rally/internal/session"
	"rally/internal/session/loop"
	"rally/internal/session/snapshot"
	"rally/internal/session/store"
)

type revertOptions struct {
	app     *app
	session string
	target  string
	undo    bool
	json    bool
}

func newRevertCmd(a *app, runF func(*revertOptions) error) *cobra.Command {
	o := &revertOptions{app: a}
	cmd := &cobra.Command{
		Use:   "revert ID [MESSAGE|PART]",
		Short: "Take back a turn's file changes and hide its messages",
		Long: "Revert brings the files that the session changed from a message (or part of one)\n" +
			"on back to their state before it, and hides those messages. Without one it takes\n" +
			"the newest prompt. No other file is touched. `rally unrevert` undoes it, until the\n" +
			"next prompt makes it final.\n\n" +
			"EXIT STATUS\n  0  reverted\n  2  no such session, message or part\n  5  the session is in use",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			o.session = args[0]
			if len(args) > 1 {
				o.target = args[1]
			}
			return o.run(runF)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print what was done as a JSON object")
	return cmd
}

func newUnrevertCmd(a *app, runF func(*revertOptions) error) *cobra.Command {
	o := &revertOptions{app: a, undo: true}
	cmd := &cobra.Command{
		Use:   "unrevert ID",
		Short: "Undo a revert that no prompt has made final",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.session = args[0]
			return o.run(runF)
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print what was done as a JSON object")
	return cmd
}

func (o *revertOptions) run(runF func(*revertOptions) error) error {
	if runF != nil {
		return runF(o)
	}
	return runRevert(o)
}

func runRevert(o *revertOptions) error {
	a := o.app
	ctx, _, stop := untilSignal(context.Background())
	defer stop()
	s, err := a.openStore(ctx, "", false)
	if err != nil {
		return err
	}
	defer a.closeStore(s)
	engine := a.quietEngine(s)
	var done loop.Reverted
	if o.undo {
		done, err = engine.Unrevert(ctx, o.session)
	} else {
		done, err = engine.Revert(ctx, o.session, o.target)
	}
	if err != nil {
		return because(ctx, err)
	}
	if o.json {
		return a.printJSON(map[string]any{
			"sessionID": done.SessionID, "messageID": done.MessageID,
			"written": emptyIfNil(done.Written), "deleted": emptyIfNil(done.Deleted),
		})
	}
	for _, f := range done.Written {
		fmt.Fprintln(a.stderr, "M "+printable(f))
	}
	for _, f := range done.Deleted {
		fmt.Fprintln(a.stderr, "D "+printable(f))
	}
	return nil
}

func emptyIfNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// quietEngine is an engine for verbs that ask no model and report nothing.
func (a *app) quietEngine(s *store.Store) *loop.Engine {
	return loop.New(loop.Options{
		Store: s, Version: version, Now: a.now, NewID: a.newIDs(), Emit: func(session.Event) {}, PID: a.pid,
		Root: config.Root, OpenTree: a.openTree(s),
	})
}

// openTree is loop.Options.OpenTree for a session file: snapshots lie beside
// it, and the file itself is never part of one.
//
// A directory has one tree for the life of the process: that it is off is said
// once, and child sessions share what it has learnt.
func (a *app) openTree(s *store.Store) func(dir, root string) *snapshot.Tree {
	var mu sync.Mutex
	trees := map[string]*snapshot.Tree{}
	return func(dir, root string) *snapshot.Tree {
		mu.Lock()
		defer mu.Unlock()
		if trees[dir] == nil {
			trees[dir] = snapshot.Open(snapshot.Options{
				Dir: filepath.Join(s.Dir(), "snapshot"), WorkTree: dir, Root: root, Environ: a.environ, Exclude: []string{s.Path(), s.Dir()},
			})
		}
		return trees[dir]
	}
}
