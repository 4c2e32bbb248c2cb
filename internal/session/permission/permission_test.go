package permission

import (
	"strings"
	"testing"

	"rally/internal/session"

	"github.com/google/go-cmp/cmp"
)

func TestMatch(t *testing.T) {
	tests := []struct {
		pattern, value string
		want           bool
	}{
		{"*", "", true},
		{"*", "a/b\nc", true},
		{"", "", true},
		{"", "a", false},
		{"git *", "git", true},
		{"git *", "git status", true},
		{"git *", "gitk", false},
		{"git *", "git\nx", false},
		{"git * *", "git push", true},
		{"a?c", "abc", true},
		{"a?c", "aéc", true},
		{"a?c", "ac", false},
		{"*.env", "sub/dir/.env", true},
		{"*.env", "x.env.local", false},
		{"src/**/x", "src/a/b/x", true},
		{"[a]", "a", false},
		{"a.c", "abc", false},
		{"GIT", "git", false},
		{"*a*b*c", "xxaxxbxxc", true},
		{"*a*b*c", "xxaxxbxx", false},
		{" *", "", true},
	}
	for _, tt := range tests {
		if got := Match(tt.pattern, tt.value); got != tt.want {
			t.Errorf("Match(%q, %q) = %v", tt.pattern, tt.value, got)
		}
	}
}

func TestMatchIsNotExponential(t *testing.T) {
	if Match(strings.Repeat("*a", 200)+"b", strings.Repeat("a", 20000)) {
		t.Error("matched")
	}
}

// rules reads "allow bash:git *" lines.
func rules(lines ...string) []session.Rule {
	var out []session.Rule
	for _, l := range lines {
		action, rest, _ := strings.Cut(l, " ")
		permission, pattern, _ := strings.Cut(rest, ":")
		out = append(out, session.Rule{Permission: permission, Pattern: pattern, Action: session.Action(action)})
	}
	return out
}

func TestDecide(t *testing.T) {
	base := Defaults("/data/out")
	tests := []struct {
		name    string
		layers  Layers
		request Request
		want    Decision
	}{
		{
			"no rule asks",
			Layers{},
			Request{"bash", []string{"ls"}},
			Decision{Action: session.Ask, Pattern: "ls", By: session.ByRule},
		},
		{
			"last match wins",
			Layers{User: rules("deny bash:*", "allow bash:git *")},
			Request{"bash", []string{"git status"}},
			Decision{session.Allow, rules("allow bash:git *")[0], "git status", session.ByRule},
		},
		{
			"one deny denies all",
			Layers{Defaults: base, User: rules("deny bash:rm *")},
			Request{"bash", []string{"ls", "rm x", "cat"}},
			Decision{session.Deny, rules("deny bash:rm *")[0], "rm x", session.ByRule},
		},
		{
			"a later deny beats an earlier ask",
			Layers{User: rules("ask bash:a", "deny bash:b")},
			Request{"bash", []string{"a", "b"}},
			Decision{session.Deny, rules("deny bash:b")[0], "b", session.ByRule},
		},
		{
			"the permission is a wildcard too",
			Layers{User: rules("deny mcp_*:*")},
			Request{"mcp_x", nil},
			Decision{session.Deny, rules("deny mcp_*:*")[0], "*", session.ByRule},
		},
		{
			"outputs are open",
			Layers{Defaults: base},
			Request{"external_directory", []string{"/data/out/x"}},
			Decision{session.Allow, rules("allow external_directory:/data/out/*")[0], "/data/out/x", session.ByRule},
		},
		{
			"an environment file asks",
			Layers{Defaults: base},
			Request{"read", []string{"sub/.env"}},
			Decision{session.Ask, rules("ask read:*.env")[0], "sub/.env", session.ByRule},
		},
		{
			"a project may not loosen a deny to an ask",
			Layers{Defaults: base, User: rules("deny bash:*"), Project: rules("ask bash:*", "allow bash:*")},
			Request{"bash", []string{"ls"}},
			Decision{session.Deny, rules("deny bash:*")[0], "ls", session.ByRule},
		},
		{
			"a project may tighten",
			Layers{Defaults: base, Project: rules("deny bash:rm *")},
			Request{"bash", []string{"rm x"}},
			Decision{session.Deny, rules("deny bash:rm *")[0], "rm x", session.ByRule},
		},
		{
			"a trusted project may loosen",
			Layers{User: rules("deny bash:*"), Project: rules("allow bash:*"), TrustProject: true},
			Request{"bash", []string{"ls"}},
			Decision{session.Allow, rules("allow bash:*")[0], "ls", session.ByRule},
		},
		{
			"a flag may loosen a project's rule",
			Layers{Defaults: base, Project: rules("deny bash:*"), Session: rules("allow bash:ls")},
			Request{"bash", []string{"ls"}},
			Decision{session.Allow, rules("allow bash:ls")[0], "ls", session.ByFlag},
		},
		{
			"a flag that denies wins over one that allows",
			Layers{Session: rules("deny bash:rm *", "allow bash:*")},
			Request{"bash", []string{"rm x"}},
			Decision{session.Deny, rules("deny bash:rm *")[0], "rm x", session.ByFlag},
		},
		{
			"a flag does not loosen a read-only agent",
			Layers{Defaults: base, Agent: rules("deny edit:*", "allow edit:/plans/*"), Session: rules("allow edit:*"), ReadOnly: true},
			Request{"edit", []string{"x"}},
			Decision{session.Deny, rules("deny edit:*")[0], "x", session.ByRule},
		},
		{
			"nor does the user's allow *",
			Layers{Defaults: base, User: rules("allow *:*"), Agent: rules("deny edit:*"), ReadOnly: true},
			Request{"edit", []string{"x"}},
			Decision{session.Deny, rules("deny edit:*")[0], "x", session.ByRule},
		},
		{
			"its own exception stands",
			Layers{Defaults: base, Agent: rules("deny edit:*", "allow edit:/plans/*"), ReadOnly: true},
			Request{"edit", []string{"/plans/p.md"}},
			Decision{session.Allow, rules("allow edit:/plans/*")[0], "/plans/p.md", session.ByRule},
		},
		{
			"its allow does not undo the user's deny",
			Layers{Defaults: base, User: rules("deny bash:rm *"), Agent: rules("deny *:*", "allow bash:*"), ReadOnly: true},
			Request{"bash", []string{"rm x"}},
			Decision{session.Deny, rules("deny bash:rm *")[0], "rm x", session.ByRule},
		},
		{
			"a session deny stands over a read-only agent's allow",
			Layers{Agent: rules("allow bash:*"), Session: rules("deny bash:*"), ReadOnly: true},
			Request{"bash", []string{"ls"}},
			Decision{session.Deny, rules("deny bash:*")[0], "ls", session.ByFlag},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Decide(Merge(tt.layers), tt.request)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHidden(t *testing.T) {
	tests := []struct {
		name   string
		layers Layers
		tool   string
		want   bool
	}{
		{"default", Layers{Defaults: Defaults()}, "bash", false},
		{"question by default", Layers{Defaults: Defaults()}, "question", true},
		{"write follows edit", Layers{User: rules("deny edit:*")}, "write", true},
		{"an exception after it shows it", Layers{User: rules("deny bash:*", "allow bash:git *")}, "bash", false},
		{"an exception before it does not", Layers{User: rules("allow bash:git *", "deny bash:*")}, "bash", true},
		{"guard", Layers{User: rules("allow *:*"), Agent: rules("deny edit:*"), ReadOnly: true}, "apply_patch", true},
		{"an untrusted allow does not show it", Layers{User: rules("deny bash:*"), Project: rules("allow bash:*")}, "bash", true},
		{"by wildcard", Layers{User: rules("deny mcp_*:*")}, "mcp_x", true},
	}
	for _, tt := range tests {
		if got := Hidden(Merge(tt.layers), tt.tool); got != tt.want {
			t.Errorf("%s: Hidden = %v", tt.name, got)
		}
	}
}

func TestReplace(t *testing.T) {
	got := Replace(rules("deny bash:rm *", "allow edit:*", "deny bash:x"), rules("allow bash:*"))
	if diff := cmp.Diff(rules("allow edit:*", "allow bash:*"), got); diff != "" {
		t.Error(diff)
	}
}
