package main

import (
	"context"

	"github.com/spf13/cobra"

	"rally/internal/session"
	"rally/internal/session/loop"
)

const exitStatusOfTurns = `EXIT STATUS
  0    the turn ended with an answer
  1    the provider refused for good, or rally failed
  2    bad flag, config, model, agent, command or session; nothing was sent
  3    a permission refusal ended the turn
  4    a limit of steps, cost or tokens ended it; what there is was kept
  5    the session is in use and waiting was not wanted
  6    the context could not be made to fit
  7    the model did not do the work (empty, cut off, no structured output, loop)
  8    a newer message took the session over
  124  --timeout
  130  rally abort or SIGINT; 143: SIGTERM
  141  the reader of stdout went away
  Any other status means failure. result.exit_code says the same.`

// promptOptions are flags that say what is asked, and of which session.
type promptOptions struct {
	sessionID    string
	newSessionID string
	last         bool
	fork         bool
	model        string
	variant      string
	agent        string
	system       string
	appendSystem string
	files        []string
	parts        string
	schema       string
	messageID    string
	title        string
	noReply      bool
	ephemeral    bool
	rules        ruleOptions
}

// runOptions are all of a run's.
type runOptions struct {
	app    *app
	args   []string
	prompt promptOptions
	turn   turnOptions
	input  inputOptions
	output outputOptions
}

func newRunCmd(a *app, runF func(*runOptions) error) *cobra.Command {
	o := &runOptions{app: a}
	cmd := &cobra.Command{
		Use:   "run [message…]",
		Short: "Send a message, run the loop to its end, print the answer",
		Long: "Run stores a message in a new session (or in one that --session or --last names),\n" +
			"lets the model and its tools work until they are done, and prints the answer.\n\n" +
			"The message is the arguments joined by one space. With - or without one it is\n" +
			"read from stdin; what a pipe holds is added to a message.\n\n" + exitStatusOfTurns,
		Example: "  rally run \"fix the failing test\"\n" +
			"  git diff | rally run \"review this\" --deny edit --json\n" +
			"  rally run --last \"now add a test for it\"",
		Annotations: streaming(),
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = args
			if err := o.validate(cmd); err != nil {
				return err
			}
			if runF != nil {
				return runF(o)
			}
			return runRun(o)
		},
	}
	o.prompt.addFlags(cmd)
	o.turn.addFlags(cmd)
	o.turn.addBusyFlag(cmd.Flags())
	o.input.addFlags(cmd.Flags())
	o.output.addFlags(cmd.Flags())
	return cmd
}

func (p *promptOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.sessionID, "session", "", "go on with session `ID`, or a unique beginning of it")
	f.StringVar(&p.newSessionID, "session-id", "", "make the new session with this `ID`")
	f.BoolVar(&p.last, "last", false, "go on with the newest session of this directory")
	f.BoolVar(&p.fork, "fork", false, "copy the session first and go on in the copy")
	f.StringVarP(&p.model, "model", "m", "", "`MODEL` as provider/model; see: rally models")
	f.StringVar(&p.variant, "variant", "", "the model's variant `NAME`")
	f.StringVar(&p.agent, "agent", "", "work as agent `NAME`; see: rally agents")
	f.StringVar(&p.system, "system", "", "use this system prompt: `TEXT` or @FILE")
	f.StringVar(&p.appendSystem, "append-system", "", "add to the system prompt: `TEXT` or @FILE")
	f.StringArrayVarP(&p.files, "file", "f", nil, "attach `PATH`, or PATH:start-end for some of its lines; repeatable")
	f.StringVar(&p.parts, "parts", "", "read message parts from `FILE`, a JSON array in the shape of an export; - is stdin")
	f.StringVar(&p.schema, "schema", "", "the answer must match this JSON Schema: `FILE` or JSON")
	f.StringVar(&p.messageID, "message-id", "", "store the message under `ID`; if it is there already, wait for its answer")
	f.StringVar(&p.title, "title", "", "title of the session; default: the message's first line (`TEXT`)")
	f.BoolVar(&p.noReply, "no-reply", false, "store the message and do not answer it")
	f.BoolVar(&p.ephemeral, "ephemeral", false, "store nothing")
	p.rules.addFlags(f)
}

func (o *runOptions) validate(cmd *cobra.Command) error {
	p := &o.prompt
	resumes := p.sessionID != "" || p.last
	switch {
	case p.sessionID != "" && p.last:
		return usagef("leave one of them out", "--session and --last both name a session")
	case p.newSessionID != "" && resumes && !p.fork:
		return usagef("leave it out, or copy the session with --fork", "--session-id is for a new session")
	case p.fork && !resumes:
		return usagef("name it with --session or --last", "--fork needs a session to copy")
	case p.ephemeral && (resumes || cmd.Flags().Changed("db")):
		return usagef("leave it out", "--ephemeral stores nothing, so it has no session to go on with and no --db")
	}
	if err := o.output.validate(); err != nil {
		return err
	}
	return o.turn.validate(cmd)
}

func runRun(o *runOptions) error {
	a := o.app
	return a.serve(o.output, o.turn.timeout, func(ctx context.Context, s stage) (session.Result, error) {
		text, parts, err := o.read(ctx)
		if err != nil {
			return session.Result{}, err
		}
		return a.prompted(ctx, &o.prompt, &o.turn, s, func(context.Context, *workshop) (loop.Input, error) {
			return loop.Input{Text: text, Parts: parts}, nil
		})
	})
}

// read gets the message and the parts from wherever they are.
func (o *runOptions) read(ctx context.Context) (string, []session.Part, error) {
	var parts []session.Part
	if o.prompt.parts != "" {
		var err error
		if parts, err = o.app.readParts(ctx, o.prompt.parts); err != nil {
			return "", nil, err
		}
		if o.prompt.parts == "-" || len(o.args) == 0 && o.input.promptFile == "" {
			o.input.noStdin = true
		}
	}
	text, err := o.app.message(ctx, o.input, o.args, len(parts) > 0)
	return text, parts, err
}

// prompted runs a prompt to its end: build makes what is particular to the
// command, all else comes from the flags.
func (a *app) prompted(ctx context.Context, p *promptOptions, t *turnOptions, s stage, build func(context.Context, *workshop) (loop.Input, error)) (session.Result, error) {
	last, err := openLastMessage(t.lastMessage)
	if err != nil {
		return session.Result{}, err
	}
	defer last.discard()
	w, err := a.open(ctx, workshopOptions{
		turn: t, session: p.sessionID, last: p.last, model: p.model, ephemeral: p.ephemeral, emit: s.emit,
	})
	if err != nil {
		return session.Result{}, err
	}
	defer w.close()
	ctx, done := within(ctx, w.limit())
	defer done()
	in, err := build(ctx, w)
	if err != nil {
		return session.Result{}, err
	}
	if err := p.fill(w, &in); err != nil {
		return session.Result{}, err
	}
	res, err := w.engine.Prompt(ctx, in)
	if err != nil {
		return res, err
	}
	return finished(last, res)
}

// finished writes the answer where -o wants it. A turn whose answer is not
// where a script will look for it did not succeed.
func finished(last *lastMessage, res session.Result) (session.Result, error) {
	if err := last.write(res); err != nil {
		res.Reason, res.ExitCode = session.ReasonInternal, session.ReasonInternal.ExitCode()
		res.Error = session.NewError(session.UnknownError, err.Error())
	}
	return res, nil
}

// fill adds to in what the flags say.
func (p *promptOptions) fill(w *workshop, in *loop.Input) (err error) {
	in.SessionID, in.NewSessionID, in.Fork = w.session.ID, p.newSessionID, p.fork
	if in.SessionID == "" || w.app.global.dir != "" {
		in.Directory = w.directory
	}
	if err := w.chosenAgent(p.agent); err != nil {
		return err
	}
	in.Title, in.Agent, in.Variant, in.MessageID, in.NoReply = p.title, p.agent, p.variant, p.messageID, p.noReply
	if p.model != "" {
		if in.Model, err = w.model(p.model); err != nil {
			return err
		}
	}
	if in.System, err = textOrFile("--system", p.system); err != nil {
		return err
	}
	if in.AppendSystem, err = textOrFile("--append-system", p.appendSystem); err != nil {
		return err
	}
	if in.Format, err = readSchema(p.schema); err != nil {
		return err
	}
	if in.Files, err = attachments(p.files); err != nil {
		return err
	}
	in.Rules, err = p.rules.rules(w.toolNames())
	return err
}
