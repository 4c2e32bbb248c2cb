package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rally/internal/config"
	"rally/internal/session"
)

// turnOptions are flags of commands that serve a turn: they hold for this
// process, whatever the session has stored.
type turnOptions struct {
	fallback     []string
	maxSteps     int
	maxCost      string
	maxTokens    int64
	timeout      time.Duration
	yes          bool
	onAsk        string
	whenBusy     string
	trustProject bool
	hermetic     bool
	lastMessage  string
	record       string
	replayStrict bool
	set          *pflag.FlagSet // to know which of them were given
}

func (o *turnOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.fallback, "fallback-model", nil, "`MODELS` to try in this order when the model stays unreachable: a,b")
	f.IntVar(&o.maxSteps, "max-steps", 0, "end the turn after `N` model calls")
	f.StringVar(&o.maxCost, "max-cost", "", "end the turn before it costs more than `USD`")
	f.Int64Var(&o.maxTokens, "max-tokens", 0, "end the turn before it uses more than `N` tokens")
	f.DurationVar(&o.timeout, "timeout", 0, "end the turn after `D`, such as 90s or 10m")
	f.BoolVar(&o.yes, "yes", false, "allow what a rule would ask about; what is denied stays denied")
	f.StringVar(&o.onAsk, "on-ask", "", "what an ask becomes: reject, fail or allow (`WHAT`)")
	f.StringVarP(&o.lastMessage, "output-last-message", "o", "", "write the answer to `FILE` too, as a whole at the end")
	f.StringVar(&o.record, "record", "", "write what the provider answers to `FILE` as a script; play it with -m scripted/FILE")
	f.BoolVar(&o.replayStrict, "replay-strict", false, "with -m scripted/FILE: fail at the first request that is not the recorded one")
	addTrustFlags(f, &o.trustProject, &o.hermetic)
}

// addBusyFlag is for commands that bring a message of their own.
func (o *turnOptions) addBusyFlag(f *pflag.FlagSet) {
	f.StringVar(&o.whenBusy, "when-busy", "interrupt", "if the session is in use: interrupt, wait or fail (`WHAT`)")
}

func addTrustFlags(f *pflag.FlagSet, trust, hermetic *bool) {
	f.BoolVar(trust, "trust-project", false, "let the project's files start processes and loosen rules (RALLY_TRUST_PROJECT)")
	f.BoolVar(hermetic, "hermetic", false, "read no file that no flag names, and no RALLY_ variable but RALLY_DB")
}

// validate checks what can be checked before anything is opened.
func (o *turnOptions) validate(cmd *cobra.Command) error {
	o.set = cmd.Flags()
	switch o.onAsk {
	case "", "reject", "fail", "allow":
	default:
		return usagef("reject, fail or allow", "--on-ask: %q is not one of its values", o.onAsk)
	}
	switch o.whenBusy {
	case "", "interrupt", "wait", "fail":
	default:
		return usagef("interrupt, wait or fail", "--when-busy: %q is not one of its values", o.whenBusy)
	}
	if o.yes && (o.onAsk == "reject" || o.onAsk == "fail") {
		return usagef("leave one of them out", "--yes and --on-ask %s contradict each other", o.onAsk)
	}
	if o.maxSteps < 0 || o.maxTokens < 0 || o.timeout < 0 {
		return usagef("0 is no limit", "a limit is below zero")
	}
	if _, err := parseCost(o.maxCost); err != nil {
		return err
	}
	return nil
}

func parseCost(s string) (session.Money, error) {
	if s == "" {
		return 0, nil
	}
	m, err := session.ParseMoney(s)
	if err != nil || m < 0 {
		return 0, usagef("an amount of US dollars, such as 0.50", "--max-cost: %q is not an amount", s)
	}
	return m, nil
}

// ruleOptions are flags that add permission rules to the session.
type ruleOptions struct {
	tools []string
	allow []string
	deny  []string
}

func (o *ruleOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.tools, "tool", nil, "switch a tool on or off: `NAME=on|off`; repeatable, stored with the session")
	f.StringArrayVar(&o.allow, "allow", nil, "allow what `RULE` matches, such as 'bash:git *'; repeatable, stored with the session")
	f.StringArrayVar(&o.deny, "deny", nil, "deny what `RULE` matches; repeatable, stored with the session, wins over --allow")
}

// rules are the flags' rules in the order they count: denies last.
func (o *ruleOptions) rules(tools []string) ([]session.Rule, error) {
	var rules []session.Rule
	for _, t := range o.tools {
		name, state, _ := strings.Cut(t, "=")
		action, ok := map[string]session.Action{"on": session.Allow, "off": session.Deny}[state]
		if !ok {
			return nil, usagef("such as --tool bash=off", "--tool: %q is not NAME=on or NAME=off", t)
		}
		if !known(name, tools) {
			return nil, usagef(didYouMean(config.Near(name, tools), "the tools are "+strings.Join(tools, ", ")), "--tool: there is no tool %q", name)
		}
		rules = append(rules, session.Rule{Permission: name, Pattern: "*", Action: action})
	}
	for _, list := range []struct {
		flag   string
		rules  []string
		action session.Action
	}{{"--allow", o.allow, session.Allow}, {"--deny", o.deny, session.Deny}} {
		for _, s := range list.rules {
			r, err := config.ParseRule(list.action, s)
			if err != nil {
				return nil, usagef("such as 'bash:git *', 'edit:*.md' or 'webfetch'", "%s: %w", list.flag, err)
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// known takes a wildcard as it is: it may mean tools that come later.
func known(name string, tools []string) bool {
	if strings.ContainsAny(name, "*?") {
		return true
	}
	for _, t := range tools {
		if t == name {
			return true
		}
	}
	return false
}
