package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rally/internal/session"
	"rally/internal/session/loop"
)

type shellOptions struct {
	app     *app
	id      string
	command string
	timeout time.Duration
	turn    turnOptions
	output  outputOptions
}

func newShellCmd(a *app, runF func(*shellOptions) error) *cobra.Command {
	o := &shellOptions{app: a}
	cmd := &cobra.Command{
		Use:   "shell [ID] -- COMMAND…",
		Short: "Run a command as yourself and let the session know",
		Long: "Shell runs COMMAND in the session's directory (several arguments joined by one\n" +
			"space, given to the shell), prints what it prints and stores it as a call that\n" +
			"the model sees next time. No model is called and no permission asked.\n\n" +
			"Without an ID it takes the newest session of this directory.\n\n" +
			"EXIT STATUS\n  The command's own, 128+n if signal n ended it; 2 for mistakes in the call,\n  5 if the session is in use.",
		Example:     "  rally shell ses_01j8 -- go test ./...",
		Annotations: streaming(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd, args); err != nil {
				return err
			}
			if runF != nil {
				return runF(o)
			}
			return runShell(o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.output.json, "json", false, "print events and the result as JSON lines; see: rally schema events")
	f.DurationVar(&o.timeout, "timeout", 0, "end the command after `D`")
	addTrustFlags(f, &o.turn.trustProject, &o.turn.hermetic)
	return cmd
}

func (o *shellOptions) parse(cmd *cobra.Command, args []string) error {
	const hint = "rally shell [ID] -- COMMAND"
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0:
		return usagef(hint, "the command is what stands after --")
	case dash > 1:
		return usagef(hint, "one session at a time, got %q and %q", args[0], args[1])
	}
	if dash == 1 {
		o.id = args[0]
	}
	o.turn.set = cmd.Flags()
	if o.command = strings.Join(args[dash:], " "); strings.TrimSpace(o.command) == "" {
		return usagef(hint, "there is no command after --")
	}
	return nil
}

func runShell(o *shellOptions) error {
	show := func(out *outbox) renderer { return o.app.newRenderer(o.output, out) }
	if !o.output.json {
		show = func(*outbox) renderer { return &shellRenderer{stderr: o.app.stderr} }
	}
	return o.app.serveWith(show, o.timeout, func(ctx context.Context, s stage) (session.Result, error) {
		w, err := o.app.open(ctx, workshopOptions{turn: &o.turn, session: o.id, last: o.id == "", emit: s.emit})
		if err != nil {
			return session.Result{}, err
		}
		defer w.close()
		out := s.out
		switch {
		case o.output.json:
			out = io.Discard
		case isTerminal(o.app.stdout):
			out = &strippingWriter{w: out}
		}
		return w.engine.Shell(ctx, loop.ShellInput{SessionID: w.session.ID, Command: o.command, Output: out})
	})
}

// shellRenderer leaves stdout to the command and says only what went wrong.
type shellRenderer struct{ stderr io.Writer }

func (r *shellRenderer) event(e session.Event) {
	if n, ok := e.Body.(session.Notice); ok {
		sayNotice(r.stderr, n.Text)
	}
}

func (r *shellRenderer) end(res session.Result) {
	if res.Error != nil {
		sayFailure(r.stderr, res.Error.Data.Message, res.Error.Data.Hint)
	}
}

// strippingWriter keeps a command's control codes from the terminal.
type strippingWriter struct {
	w io.Writer
	s stripper
}

func (w *strippingWriter) Write(b []byte) (int, error) {
	_, err := io.WriteString(w.w, w.s.strip(string(b)))
	return len(b), err
}
