// Command rally runs coding-agent sessions headless: a prompt goes in, the
// model and its tools play it back and forth, the answer comes out.
//
// Everything here is about the edge of the process: arguments, signals, files,
// what is printed and the exit code. What a session does is in
// internal/session/loop; wire.go puts the two together, top to bottom.
package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rally/internal/config"
	"rally/internal/session/loop"
)

// process is what the operating system gives a program. Tests give their own.
type process struct {
	args    []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string
	pid     int
	now     func() time.Time
}

// app is one invocation: the process and what holds for every command.
type app struct {
	process
	global globalOptions
}

// version is set by the linker; see the Makefile.
var version = "dev"

// run is the whole program but for the exit: it returns the exit code.
func run(p process) int {
	a := &app{process: p}
	root := newRoot(a)
	root.SetArgs(p.args)
	cmd, err := root.ExecuteC()
	var done *exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &done):
		return done.code
	case isStreaming(cmd) && wantsJSON(p.args) && errors.As(a.refuseInJSON(err), &done):
		return done.code
	}
	sayError(p.stderr, err)
	_, code := classify(err)
	return code
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "rally",
		Short: "Run coding-agent sessions headless and in batch",
		Long: "rally runs coding-agent sessions headless: a prompt goes in, the model and its\n" +
			"tools work on the files, the answer comes out on stdout.\n\n" +
			"Without a key or a network:  rally run -m scripted/tour \"fix the failing test\"",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE:          group,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.readGlobals(cmd.Flags())
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	addGlobalFlags(root.PersistentFlags())
	root.AddCommand(
		newRunCmd(a, nil),
		newContinueCmd(a, nil),
		newShellCmd(a, nil),
		newCommandCmd(a, nil),
		newBatchCmd(a, nil),
		newAbortCmd(a, nil),
		newExportCmd(a, nil),
		newSessionsCmd(a),
		newRevertCmd(a, nil),
		newUnrevertCmd(a, nil),
		newModelsCmd(a, nil),
		newAgentsCmd(a, nil),
		newConfigCmd(a),
		newMCPCmd(a),
		newSchemaCmd(a),
		newScriptedCmd(a),
		newVersionCmd(a),
	)
	return root
}

// group is what a command does that only holds others: without an argument it
// shows its help; an argument is a command that does not exist.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usagef(didYouMean(config.Near(args[0], names), "see: "+cmd.CommandPath()+" --help"),
		"unknown command %q for %q", args[0], cmd.CommandPath())
}

// flagError names the flags that an unknown one is close to.
func flagError(cmd *cobra.Command, err error) error {
	hint := "see: " + cmd.CommandPath() + " --help"
	var missing *pflag.NotExistError
	if errors.As(err, &missing) && missing.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		near := config.Near(missing.GetSpecifiedName(), names)
		for i := range near {
			near[i] = "--" + near[i]
		}
		hint = didYouMean(near, hint)
	}
	return &loop.UsageError{Err: err, Hint: hint}
}

// streaming marks commands whose --json is a stream of events; isStreaming
// reads the mark.
func streaming() map[string]string { return map[string]string{"stdout": "events"} }

func isStreaming(cmd *cobra.Command) bool { return cmd != nil && cmd.Annotations["stdout"] == "events" }

// wantsJSON looks for --json in arguments that could not be parsed.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.ContainsFunc(args, func(arg string) bool { return arg == "--json" || arg == "--json=true" })
}

func usagef(hint, format string, args ...any) error {
	return &loop.UsageError{Err: fmt.Errorf(format, args...), Hint: hint}
}

// env is the value of a variable of the process's environment; the last
// assignment counts.
func (p *process) env(name string) string {
	for _, kv := range slices.Backward(p.environ) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// didYouMean is a hint with the near misses, or otherwise when there are none.
func didYouMean(near []string, otherwise string) string {
	if len(near) == 0 {
		return otherwise
	}
	return "did you mean " + strings.Join(near, ", ") + "?"
}
