package main

import (
	"context"

	"github.com/spf13/cobra"

	"rally/internal/session"
)

type continueOptions struct {
	app    *app
	id     string
	last   bool
	turn   turnOptions
	output outputOptions
}

func newContinueCmd(a *app, runF func(*continueOptions) error) *cobra.Command {
	o := &continueOptions{app: a}
	cmd := &cobra.Command{
		Use:   "continue [ID]",
		Short: "Go on with a session from what is stored",
		Long: "Continue needs no new message: it goes on after a crash, an abort or a limit,\n" +
			"answers a message that was only stored, or waits for the answer another process\n" +
			"works on. A session that has its answer gets it printed and calls no model.\n\n" +
			"Without an ID it takes the newest session of this directory.\n\n" + exitStatusOfTurns,
		Annotations: streaming(),
		Args:        oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.id = firstOf(args); o.id != "" && o.last {
				return usagef("leave one of them out", "an ID and --last both name a session")
			}
			if err := o.output.validate(); err != nil {
				return err
			}
			if err := o.turn.validate(cmd); err != nil {
				return err
			}
			if runF != nil {
				return runF(o)
			}
			return runContinue(o)
		},
	}
	cmd.Flags().BoolVar(&o.last, "last", false, "the newest session of this directory; so is no ID")
	o.turn.addFlags(cmd)
	o.output.addFlags(cmd.Flags())
	return cmd
}

func runContinue(o *continueOptions) error {
	return o.app.serve(o.output, o.turn.timeout, func(ctx context.Context, s stage) (session.Result, error) {
		last, err := openLastMessage(o.turn.lastMessage)
		if err != nil {
			return session.Result{}, err
		}
		defer last.discard()
		w, err := o.app.open(ctx, workshopOptions{turn: &o.turn, session: o.id, last: o.id == "", emit: s.emit})
		if err != nil {
			return session.Result{}, err
		}
		defer w.close()
		ctx, done := within(ctx, w.limit())
		defer done()
		res, err := w.engine.Continue(ctx, w.session.ID)
		if err != nil {
			return res, err
		}
		return finished(last, res)
	})
}

// oneID allows at most one argument.
func oneID(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("see: "+cmd.CommandPath()+" --help", "%s takes one session, got %q and %q", cmd.CommandPath(), args[0], args[1])
	}
	return nil
}

func firstOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
