package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rally/internal/session/store"
)

// abortPatience is how long the owner of a turn may take to write its end;
// after it we write it ourselves.
const abortPatience = 8 * time.Second

type abortOptions struct {
	app *app
	ids []string
	all bool
}

func newAbortCmd(a *app, runF func(*abortOptions) error) *cobra.Command {
	o := &abortOptions{app: a}
	cmd := &cobra.Command{
		Use:   "abort ID… | --all",
		Short: "Stop what runs or waits in sessions, from any process",
		Long: "Abort ends the running turn and the waiting ones of the named sessions and of\n" +
			"their child sessions. It returns when each has its end state in the session file.\n\n" +
			"EXIT STATUS\n  0  aborted, or nothing was running\n  2  no such session",
		RunE: func(_ *cobra.Command, args []string) error {
			o.ids = args
			if len(args) == 0 && !o.all {
				return usagef("rally sessions shows what runs; --all aborts everything", "no session is named")
			}
			if len(args) > 0 && o.all {
				return usagef("leave one of them out", "an ID and --all contradict each other")
			}
			if runF != nil {
				return runF(o)
			}
			return runAbort(o)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "every session of the session file")
	return cmd
}

func runAbort(o *abortOptions) error {
	a := o.app
	ctx, _, stop := untilSignal(context.Background())
	defer stop()
	s, err := a.openStore(ctx, "", false)
	if err != nil {
		return err
	}
	defer a.closeStore(s)
	n, err := a.abort(ctx, s, o.ids)
	if err != nil {
		return because(ctx, err)
	}
	if n == 0 {
		fmt.Fprintln(a.stderr, "rally: nothing was running")
		return nil
	}
	fmt.Fprintf(a.stderr, "rally: aborted %d %s\n", n, plural(n, "turn", "turns"))
	return nil
}

func (a *app) abort(ctx context.Context, s *store.Store, ids []string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, abortPatience)
	defer cancel()
	n, err := a.quietEngine(s).Abort(ctx, ids...)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("its process did not answer within %s: %w", abortPatience, err)
	}
	return n, err
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
