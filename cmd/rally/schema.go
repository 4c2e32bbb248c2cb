package main

import (
	_ "embed" // for the schema

	"github.com/spf13/cobra"
)

// eventsSchema describes every line of --json; a test validates each against
// it.
//
//go:embed schema_events.json
var eventsSchema string

func newSchemaCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "schema", Short: "Print JSON Schemas of what rally writes", Args: cobra.ArbitraryArgs, RunE: group}
	cmd.AddCommand(&cobra.Command{
		Use:   "events",
		Short: "The schema of the lines of --json",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.print(eventsSchema)
		},
	})
	return cmd
}
