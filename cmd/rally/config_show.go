package main

import (
	"strings"

	"github.com/spf13/cobra"
)

type configShowOptions struct {
	listOptions
	origin bool
}

func newConfigCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the configuration", Args: cobra.ArbitraryArgs, RunE: group}
	cmd.AddCommand(newConfigShowCmd(a, nil))
	return cmd
}

func newConfigShowCmd(a *app, runF func(*configShowOptions) error) *cobra.Command {
	o := &configShowOptions{listOptions: listOptions{app: a}}
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print every value, keys hidden",
		Long: "Show prints the configuration as it holds in this directory: defaults, the user's\n" +
			"file, the project's files, --config, RALLY_ variables, lowest first. Keys are ***.\n" +
			"With --origin each value names the layer, file and line it comes from, and what\n" +
			"a project that is not trusted said in vain is listed.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if runF != nil {
				return runF(o)
			}
			return runConfigShow(o)
		},
	}
	cmd.Flags().BoolVar(&o.origin, "origin", false, "say where each value comes from")
	o.addFlags(cmd)
	return cmd
}

func runConfigShow(o *configShowOptions) error {
	cfg, err := o.app.loadConfigHere(o.set)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := cfg.Show(&b, o.origin, o.json); err != nil {
		return err
	}
	return o.app.print(b.String())
}
