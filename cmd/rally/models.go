package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rally/internal/llm"
	"rally/internal/session"
)

// listOptions are those of commands that list what the configuration has.
type listOptions struct {
	app      *app
	json     bool
	trust    bool
	hermetic bool
	set      *pflag.FlagSet
}

func (o *listOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.json, "json", false, "print a JSON array")
	addTrustFlags(cmd.Flags(), &o.trust, &o.hermetic)
	o.set = cmd.Flags()
}

func newModelsCmd(a *app, runF func(*listOptions) error) *cobra.Command {
	o := &listOptions{app: a}
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models that can be named with -m",
		Long: "Models lists what the configuration names, and the built-in scripts. A provider\n" +
			"that lists no models of its own (openai and anthropic without an entry) takes any\n" +
			"other, too.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if runF != nil {
				return runF(o)
			}
			return runModels(o)
		},
	}
	o.addFlags(cmd)
	return cmd
}

// modelRow is one model of the list; prices are USD per million tokens, null
// where they are unknown.
type modelRow struct {
	Model    string         `json:"model"`
	Context  int64          `json:"context"`
	Output   int64          `json:"output"`
	Input    *session.Money `json:"input"`
	Answer   *session.Money `json:"answer"`
	Variants []string       `json:"variants"`
}

func runModels(o *listOptions) error {
	a := o.app
	cfg, err := a.loadConfigHere(o.set)
	if err != nil {
		return err
	}
	p := a.newProviders(cfg, &play{app: a}, func(string) {})
	rows := []modelRow{}
	for _, m := range p.models() {
		rows = append(rows, rowOfModel(m))
	}
	if o.json {
		return a.printJSON(rows)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tCONTEXT\tOUTPUT\tUSD IN\tUSD OUT\tVARIANTS")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", r.Model, r.Context, r.Output, orUnknown(r.Input), orUnknown(r.Answer), strings.Join(r.Variants, " "))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return a.print(b.String())
}

func rowOfModel(m llm.Model) modelRow {
	row := modelRow{Model: m.Ref().String(), Context: m.Context, Output: m.Output, Variants: []string{}}
	if m.Price != nil {
		in, out := m.Price.Input*1_000_000, m.Price.Output*1_000_000
		row.Input, row.Answer = &in, &out
	}
	for _, v := range m.Variants {
		row.Variants = append(row.Variants, v.Name)
	}
	return row
}

func orUnknown(m *session.Money) string {
	if m == nil {
		return "?"
	}
	return m.String()
}
