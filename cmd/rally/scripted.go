package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"rally/internal/llm/scripted"
)

type scriptedServeOptions struct {
	app    *app
	script string
	port   int
}

func newScriptedCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scripted",
		Short: "The provider that answers from a script",
		Args:  cobra.ArbitraryArgs,
		RunE:  group,
	}
	cmd.AddCommand(newScriptedServeCmd(a, nil))
	return cmd
}

func newScriptedServeCmd(a *app, runF func(*scriptedServeOptions) error) *cobra.Command {
	o := &scriptedServeOptions{app: a}
	cmd := &cobra.Command{
		Use:   "serve FILE",
		Short: "Serve a script to other programs, until interrupted",
		Long: "Serve answers chat-completion requests on a loopback port from a script: a YAML\n" +
			"file, or the name of a built-in one. The base URL is printed on stdout; set it as\n" +
			"base_url of a provider. docs/scripted.md describes the format.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("rally scripted serve FILE", "exactly one script is served, got %d", len(args))
			}
			o.script = args[0]
			if runF != nil {
				return runF(o)
			}
			return runScriptedServe(o)
		},
	}
	cmd.Flags().IntVar(&o.port, "port", 0, "listen on 127.0.0.1:`N`; 0 takes a free port")
	return cmd
}

func runScriptedServe(o *scriptedServeOptions) error {
	script, err := scripted.Load(o.script)
	if err != nil {
		return usagef("docs/scripted.md describes the format", "%w", err)
	}
	ctx, _, stop := untilSignal(context.Background())
	defer stop()
	server, err := script.Serve(ctx, scripted.ServeOptions{Port: o.port})
	if err != nil {
		return err
	}
	if err := o.app.print(fmt.Sprintln(server.URL)); err != nil {
		return err
	}
	<-ctx.Done()
	return server.Close()
}
