package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rally/internal/config"
	"rally/internal/session"
	"rally/internal/session/loop"
	"rally/internal/session/prompt"
)

type commandOptions struct {
	run   runOptions
	name  string
	items []string
	list  bool
	print bool
}

func newCommandCmd(a *app, runF func(*commandOptions) error) *cobra.Command {
	o := &commandOptions{run: runOptions{app: a}}
	cmd := &cobra.Command{
		Use:   "cmd NAME [args…]",
		Short: "Run a slash command: a template that becomes a prompt",
		Long: "Cmd fills the template NAME with the arguments and runs it like rally run. Two or\n" +
			"more arguments are one token each; a single one, or stdin, is split like a shell\n" +
			"would. $1 … $N, $ARGUMENTS and $$ stand for them; !`command` for what it prints.\n\n" +
			"Templates are files in .rally/commands, .opencode/command and .claude/commands,\n" +
			"and commands: in the configuration.\n\n" + exitStatusOfTurns,
		Annotations: streaming(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd, args); err != nil {
				return err
			}
			switch {
			case runF != nil:
				return runF(o)
			case o.list:
				return runCommandList(o)
			case o.print:
				return runCommandPrint(o)
			}
			return runCommand(o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.list, "list", false, "list the commands")
	f.BoolVar(&o.print, "print", false, "print what the template becomes and send nothing")
	o.run.prompt.addFlags(cmd)
	o.run.turn.addFlags(cmd)
	o.run.turn.addBusyFlag(f)
	o.run.input.addFlags(f)
	o.run.output.addFlags(f)
	return cmd
}

func (o *commandOptions) parse(cmd *cobra.Command, args []string) error {
	switch {
	case o.list && len(args) > 0:
		return usagef("leave it out", "--list takes no command, got %q", args[0])
	case !o.list && len(args) == 0:
		return usagef("rally cmd --list shows them", "no command is named")
	case !o.list:
		o.name, o.items = args[0], args[1:]
	}
	return o.run.validate(cmd)
}

func runCommand(o *commandOptions) error {
	a, p := o.run.app, &o.run.prompt
	return a.serve(o.run.output, o.run.turn.timeout, func(ctx context.Context, s stage) (session.Result, error) {
		return a.prompted(ctx, p, &o.run.turn, s, func(ctx context.Context, w *workshop) (loop.Input, error) {
			return o.expand(ctx, w)
		})
	})
}

// runCommandPrint expands a command in a workshop that stores nothing.
func runCommandPrint(o *commandOptions) error {
	a := o.run.app
	ctx, _, stop := untilSignal(context.Background())
	defer stop()
	w, err := a.open(ctx, workshopOptions{turn: &o.run.turn, ephemeral: true, emit: func(session.Event) {}})
	if err != nil {
		return because(ctx, err)
	}
	defer w.close()
	in, err := o.expand(ctx, w)
	if err != nil {
		return because(ctx, err)
	}
	text := in.Text
	for _, part := range in.Parts {
		if sub, ok := part.(*session.Subtask); ok {
			text = sub.Prompt
		}
	}
	return a.print(text + "\n")
}

// expand fills the template with the arguments and with what stdin holds.
func (o *commandOptions) expand(ctx context.Context, w *workshop) (loop.Input, error) {
	commands, notices := w.cfg.FindCommands()
	for _, n := range notices {
		w.notice(n.String())
	}
	c, err := findCommand(commands, o.name)
	if err != nil {
		return loop.Input{}, err
	}
	agentName := firstSet(o.run.prompt.agent, c.Agent, w.session.Agent, w.cfg.Agent)
	agent, err := w.found.agent(agentName)
	if err != nil {
		return loop.Input{}, err
	}
	items, more, err := o.arguments(ctx, w.app)
	if err != nil {
		return loop.Input{}, err
	}
	var spans prompt.Spans
	if c.Trusted {
		if spans.Run, err = w.spans(&o.run.prompt, agent); err != nil {
			return loop.Input{}, err
		}
	}
	filled := prompt.ExpandCommand(ctx, c.Template, prompt.ParseArguments(items...), spans)
	in := loop.Input{Text: filled.Text, Opaque: filled.Opaque, CommandAgent: c.Agent, CommandModel: c.Model}
	if more != "" {
		in.Text += "\n\n" + more
	}
	if strings.TrimSpace(in.Text) == "" {
		return in, usagef("its template is empty: "+c.Source, "command %q makes an empty message", c.Name)
	}
	if prompt.IsSubtask(c, agent) {
		in.Parts = []session.Part{prompt.SubtaskOf(c, agentName, c.Model, in.Text)}
		in.Text, in.Opaque, in.CommandAgent, in.CommandModel = "", nil, "", session.Model{}
	}
	return in, nil
}

// arguments are the items after the name. What stdin holds is the only item
// when there are none, else it follows the expansion as it follows a message.
func (o *commandOptions) arguments(ctx context.Context, a *app) (items []string, more string, err error) {
	in := o.run.input
	if in.promptFile != "" {
		text, err := a.message(ctx, in, o.items, true)
		return []string{text}, "", err
	}
	if in.noStdin {
		return o.items, "", nil
	}
	speaks, err := a.stdinSpeaks(ctx, in.stdinWait)
	if err != nil || !speaks {
		return o.items, "", err
	}
	text, err := readAll(ctx, a.stdin, "stdin")
	if len(o.items) == 0 && strings.TrimSpace(text) != "" {
		return []string{text}, "", err
	}
	return o.items, text, err
}

func findCommand(commands []session.Command, name string) (session.Command, error) {
	i := slices.IndexFunc(commands, func(c session.Command) bool { return c.Name == name })
	if i >= 0 {
		return commands[i], nil
	}
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return session.Command{}, usagef(didYouMean(config.Near(name, names), "rally cmd --list shows them"), "there is no command %q", name)
}

// commandRow is one command of the list.
type commandRow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Agent       string `json:"agent,omitempty"`
	Source      string `json:"source,omitempty"`
}

func runCommandList(o *commandOptions) error {
	a := o.run.app
	cfg, err := a.loadConfigHere(o.run.turn.set)
	if err != nil {
		return err
	}
	commands, notices := cfg.FindCommands()
	for _, n := range notices {
		sayNotice(a.stderr, n.String())
	}
	rows := []commandRow{}
	for _, c := range commands {
		rows = append(rows, commandRow{c.Name, c.Description, c.Agent, c.Source})
	}
	slices.SortFunc(rows, func(x, y commandRow) int { return strings.Compare(x.Name, y.Name) })
	if o.run.output.json {
		return a.printJSON(rows)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\n", r.Name, oneLine(r.Description, 100))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return a.print(b.String())
}
