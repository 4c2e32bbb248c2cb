package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rally/internal/tools"
	"rally/internal/tools/mcp"
)

func newMCPCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "mcp", Short: "Look at the MCP servers", Args: cobra.ArbitraryArgs, RunE: group}
	cmd.AddCommand(newMCPListCmd(a, nil))
	return cmd
}

func newMCPListCmd(a *app, runF func(*listOptions) error) *cobra.Command {
	o := &listOptions{app: a}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Start the configured MCP servers and list what they offer",
		Long: "List starts the MCP servers of the configuration as a run would, prints the tools,\n" +
			"prompts and resources of each, or why it is missing, and ends them again. No model\n" +
			"is called. A server that is missing is no error here.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if runF != nil {
				return runF(o)
			}
			return runMCPList(o)
		},
	}
	o.addFlags(cmd)
	return cmd
}

// serverRow is one server of the list. State is connected, missing or disabled.
type serverRow struct {
	Name         string   `json:"name"`
	Target       string   `json:"target"`
	State        string   `json:"state"`
	Error        string   `json:"error,omitempty"`
	StartMS      int64    `json:"startMs"`
	Server       string   `json:"server,omitempty"`
	Tools        []string `json:"tools"`
	Prompts      []string `json:"prompts"`
	Resources    []string `json:"resources"`
	Instructions string   `json:"instructions,omitempty"`
	Required     bool     `json:"required"`
}

func runMCPList(o *listOptions) error {
	a := o.app
	ctx, _, stop := untilSignal(context.Background())
	defer stop()
	cfg, err := a.loadConfigHere(o.set)
	if err != nil {
		return err
	}
	for _, held := range cfg.Held {
		sayNotice(a.stderr, held.String())
	}
	dropped := func(text string) {
		if !strings.HasPrefix(text, "MCP server ") { // the list says that
			sayNotice(a.stderr, text)
		}
	}
	w := &workshop{app: a, cfg: cfg, directory: cfg.Dir, notice: dropped, registry: tools.New(tools.Options{})}
	w.providers = a.newProviders(cfg, &play{app: a}, func(string) {})
	rows, err := w.listServers(ctx)
	if err != nil {
		return because(ctx, err)
	}
	if o.json {
		return a.printJSON(rows)
	}
	if len(rows) == 0 {
		sayNotice(a.stderr, "no MCP server is configured: add one to mcp: in the configuration")
	}
	var b strings.Builder
	for _, r := range rows {
		r.write(&b)
	}
	return a.print(b.String())
}

// listServers starts all servers, looks at them and ends them.
func (w *workshop) listServers(ctx context.Context) ([]serverRow, error) {
	required := map[string]bool{}
	w.cfg.MCP = slices.Clone(w.cfg.MCP)
	for i := range w.cfg.MCP {
		required[w.cfg.MCP[i].Name] = w.cfg.MCP[i].Required
		w.cfg.MCP[i].Required = false // the list is there to say what is missing
	}
	set, err := w.startServers(ctx)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	rows := []serverRow{}
	for _, s := range set.Status(ctx) {
		rows = append(rows, rowOfServer(s, required[s.Server]))
	}
	return rows, ctx.Err()
}

func rowOfServer(s mcp.Status, required bool) serverRow {
	r := serverRow{
		Name: s.Server, Target: s.Target, State: "connected", StartMS: s.Started.Milliseconds(), Server: s.Version,
		Tools: append([]string{}, s.Tools...), Prompts: append([]string{}, s.Prompts...), Resources: append([]string{}, s.Resources...),
		Instructions: s.Instructions, Required: required,
	}
	switch {
	case !s.Enabled:
		r.State = "disabled"
	case s.Err != nil:
		r.State, r.Error = "missing", s.Err.Error()
	}
	return r
}

// write prints the row for people.
func (r serverRow) write(b *strings.Builder) {
	state := r.State
	switch {
	case r.Error != "":
		state += ": " + r.Error
	case r.State == "connected":
		state = fmt.Sprintf("connected in %v", (time.Duration(r.StartMS) * time.Millisecond).Round(10*time.Millisecond))
		if r.Server != "" {
			state += " to " + r.Server
		}
	}
	if r.Required {
		state += " (required)"
	}
	fmt.Fprintf(b, "%s  %s\n  %s\n", oneLine(r.Name, 60), oneLine(state, 800), oneLine(r.Target, 200))
	for _, part := range []struct {
		name string
		list []string
	}{{"tool", r.Tools}, {"prompt", r.Prompts}, {"resource", r.Resources}} {
		for _, line := range part.list {
			fmt.Fprintf(b, "  %-8s  %s\n", part.name, oneLine(line, 200))
		}
	}
}
