package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rally/internal/session"
)

func newAgentsCmd(a *app, runF func(*listOptions) error) *cobra.Command {
	o := &listOptions{app: a}
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "List the agents that can be named with --agent",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if runF != nil {
				return runF(o)
			}
			return runAgents(o)
		},
	}
	o.addFlags(cmd)
	return cmd
}

// agentRow is one agent of the list.
type agentRow struct {
	Name        string            `json:"name"`
	Mode        session.AgentMode `json:"mode"`
	Description string            `json:"description"`
	Model       string            `json:"model,omitempty"`
	ReadOnly    bool              `json:"readOnly"`
	Source      string            `json:"source,omitempty"`
}

func runAgents(o *listOptions) error {
	a := o.app
	cfg, err := a.loadConfigHere(o.set)
	if err != nil {
		return err
	}
	there := discover(cfg)
	for _, n := range there.notices {
		sayNotice(a.stderr, n.String())
	}
	rows := []agentRow{}
	for _, g := range there.visible() {
		rows = append(rows, agentRow{g.Name, g.Mode, g.Description, g.Model.String(), g.ReadOnly, g.Source})
	}
	if o.json {
		return a.printJSON(rows)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tMODE\tDESCRIPTION")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.Name, r.Mode, oneLine(r.Description, 100))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return a.print(b.String())
}
