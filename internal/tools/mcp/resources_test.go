package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/tools"
)

func TestResources(t *testing.T) {
	set, _ := begin(t, Options{}, self("s", "plain"))
	want := "s: test://blob blob (image/png)\ns: test://text text (text/plain)\ns: test://n/{n} numbers (template)"
	if d := cmp.Diff(want, output(t, set, "list_mcp_resources", "")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, output(t, set, "list_mcp_resources", `{"server":"s"}`)); d != "" {
		t.Error(d)
	}
	if got := output(t, set, "read_mcp_resource", `{"server":"s","uri":"test://n/5"}`); got != "content of test://n/5" {
		t.Error(got)
	}
	r, err := run(t.Context(), t, set, "read_mcp_resource", `{"server":"s","uri":"test://blob"}`)
	if err != nil || len(r.Attachments) != 1 || r.Attachments[0].Filename != "test://blob" {
		t.Errorf("%+v %v", r, err)
	}
	fails(t, set, "read_mcp_resource", `{"server":"s","uri":"test://n/0"}`, "Resource not found")
	fails(t, set, "read_mcp_resource", `{"server":"x","uri":"test://n/0"}`, `There are: s.`)

	access, err := find(t, set, "read_mcp_resource").Access(nil, json.RawMessage(`{"server":"s","uri":"test://text"}`))
	if d := cmp.Diff([]tools.Access{{Permission: "read", Patterns: []string{"mcp:s:test://text"}}}, access); d != "" || err != nil {
		t.Error(d, err)
	}
	content, err := set.Resource(t.Context(), "s", "test://blob")
	if err != nil || len(content) != 1 || content[0].Mime != "image/png" || !strings.HasPrefix(content[0].Blob, "iVBOR") {
		t.Errorf("%+v %v", content, err)
	}
	if _, err := set.Resource(t.Context(), "nobody", "x"); err == nil || err.Error() != `There is no MCP server "nobody". There are: s.` {
		t.Error(err)
	}
}

func TestPrompts(t *testing.T) {
	set, _ := begin(t, Options{}, self("s", "plain"))
	want := []Prompt{{
		Name: "s:fix_it", Server: "s", Description: "Fixes", remote: "fix it",
		Arguments: []Argument{{Name: "what", Required: true}, {Name: "how"}},
	}}
	if d := cmp.Diff(want, set.Prompts(), cmp.AllowUnexported(Prompt{})); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		args       []string
		text, says string
	}{
		{[]string{"it"}, "Fix it <>\nNow.", ""},
		{[]string{"it", "very", "well"}, "Fix it <very well>\nNow.", ""},
		{nil, "", `needs the argument "what": s:fix_it what [how]`},
	} {
		text, _, err := set.Prompt(t.Context(), "s:fix_it", c.args)
		if text != c.text || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %q %v", c.args, text, err)
		}
	}
}
