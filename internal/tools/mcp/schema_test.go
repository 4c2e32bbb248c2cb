package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/tools"
)

func TestMendSchema(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", `{}`, `{"properties":{},"type":"object"}`},
		{"absent", `null`, `{"properties":{},"type":"object"}`},
		{"no properties", `{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"}`, `{"properties":{},"type":"object"}`},
		{"nullable root", `{"type":["object","null"]}`, `{"properties":{},"type":"object"}`},
		{"array without items", `{"properties":{"a":{"type":"array"}}}`, `{"properties":{"a":{"items":{},"type":"array"}},"type":"object"}`},
		{
			"deep", `{"properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":["array","null"]}}}}}}`,
			`{"properties":{"a":{"items":{"properties":{"b":{"items":{},"type":["array","null"]}},"type":"object"},"type":"array"}},"type":"object"}`,
		},
		{
			"tuple", `{"properties":{"a":{"type":"array","items":[{"type":"string"},true]}}}`,
			`{"properties":{"a":{"items":{"anyOf":[{"type":"string"},{}]},"type":"array"}},"type":"object"}`,
		},
		{
			"true and null", `{"properties":{"a":true,"b":null,"c":false},"required":["a"],"description":null}`,
			`{"properties":{"a":{},"b":{}},"required":["a"],"type":"object"}`,
		},
		{
			"draft 4", `{"properties":{"a":{"type":"number","minimum":1,"exclusiveMinimum":true,"required":true,"enum":[]}}}`,
			`{"properties":{"a":{"minimum":1,"type":"number"}},"type":"object"}`,
		},
		{"unknown types", `{"properties":{"a":{"type":"any"},"b":{"type":["file","string"]}}}`, `{"properties":{"a":{},"b":{"type":"string"}},"type":"object"}`},
		{
			"choice at the root", `{"anyOf":[{"properties":{"a":{"type":"string"},"k":{}},"required":["a","k"]},{"properties":{"b":{},"k":{}},"required":["k","b"]}]}`,
			`{"properties":{"a":{"type":"string"},"b":{},"k":{}},"required":["k"],"type":"object"}`,
		},
		{
			"all at the root", `{"allOf":[{"properties":{"a":{}},"required":["a"]},{"$ref":"#/$defs/B"}],"required":["c"],"properties":{"c":{}},"$defs":{"B":{"properties":{"b":{"$ref":"#/$defs/B"}},"required":["b"]}}}`,
			`{"$defs":{"B":{"properties":{"b":{"$ref":"#/$defs/B"}},"required":["b"]}},"properties":{"a":{},"b":{"$ref":"#/$defs/B"},"c":{}},"required":["a","b","c"],"type":"object"}`,
		},
		{
			"reference at the root", `{"$ref":"#/definitions/A~1B","definitions":{"A/B":{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":false}}}`,
			`{"additionalProperties":false,"definitions":{"A/B":{"additionalProperties":false,"properties":{"x":{"type":"integer"}},"type":"object"}},"properties":{"x":{"type":"integer"}},"type":"object"}`,
		},
		{
			"a property that is a keyword", `{"properties":{"required":{"type":"string"},"type":{"const":null},"$schema":{"type":"string"}}}`,
			`{"properties":{"_schema":{"type":"string"},"required":{"type":"string"},"type":{"const":null}},"type":"object"}`,
		},
		{"names", `{"properties":{"a.b":{},"c d":{},"é":{}},"required":["c d"]}`, `{"properties":{"_":{},"a.b":{},"c_d":{}},"required":["c_d"],"type":"object"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var raw any
			if err := json.Unmarshal([]byte(c.in), &raw); err != nil {
				t.Fatal(err)
			}
			got, err := mendSchema(raw)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, string(got.text)); d != "" {
				t.Error(d)
			}
			var again any
			_ = json.Unmarshal(got.text, &again)
			if twice, err := mendSchema(again); err != nil || string(twice.text) != string(got.text) {
				t.Errorf("mended twice it is %s, %v", twice.text, err)
			}
		})
	}
}

func TestSchemaBeyondMending(t *testing.T) {
	bomb := `"$defs":{`
	for i := range 40 {
		bomb += fmt.Sprintf(`"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	bomb += `"d40":{}}`
	bad := map[string]string{
		`"text"`:                             "is string, not an object",
		`{"type":"array"}`:                   "of type array, not object",
		`{"$ref":"#/nowhere"}`:               `refers to "#/nowhere"`,
		`{"$ref":"http://x/"}`:               `refers to "http://x/"`,
		`{"$ref":"#/a","a":{"$ref":"#/a"}}`:  "refers to itself",
		`{"$ref":"#/$defs/d0",` + bomb + `}`: "too many alternatives",
		`{"properties":{"a b":{},"a_b":{}}}`: `"a b" has a name`,
	}
	bad[`{"description":"`+strings.Repeat("x", maxSchema)+`"}`] = "bytes, more than"
	for in, says := range bad {
		var raw any
		if err := json.Unmarshal([]byte(in), &raw); err != nil {
			t.Fatal(err)
		}
		if got, err := mendSchema(raw); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %.100s, %v", in, got.text, err)
		}
	}
}

func TestRenamedArguments(t *testing.T) {
	got, err := mendSchema(map[string]any{"properties": map[string]any{"c d": map[string]any{}, "e": map[string]any{}}})
	if err != nil {
		t.Fatal(err)
	}
	args, err := got.originals(json.RawMessage(`{"c_d":1,"e":2}`))
	if string(args) != `{"c d":1,"e":2}` || err != nil {
		t.Errorf("%s %v", args, err)
	}
}

// Whatever a server sends, the mended schema is an object that the argument
// reader can use, and mending it again changes nothing.
func FuzzMendSchema(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"properties":{"a":{"type":"array","items":[1,2]}}}`, `{"anyOf":[{"$ref":"#"}]}`, `{"allOf":[{"oneOf":[]}],"type":null}`,
		`{"required":[1,"a","a"],"properties":[]}`, `{"properties":{"":{}}}`, `{"$defs":{"a":[]},"enum":null,"const":null}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var raw any
		if json.Unmarshal([]byte(text), &raw) != nil {
			return
		}
		got, err := mendSchema(raw)
		if err != nil {
			return
		}
		var again map[string]any
		if err := json.Unmarshal(got.text, &again); err != nil {
			t.Fatal(err)
		}
		if _, ok := again["properties"].(map[string]any); !ok || again["type"] != "object" {
			t.Fatalf("%s", got.text)
		}
		if twice, err := mendSchema(again); err != nil || string(twice.text) != string(got.text) {
			t.Fatalf("%s became %s, %v", got.text, twice.text, err)
		}
		_, _ = tools.Arguments(got.text, `{"a":1}`)
	})
}

func TestNames(t *testing.T) {
	taken := names{"a_b": true}
	for _, c := range []struct{ server, tool, want string }{
		{"a", "b", "a_b_59b271ae"},
		{"a", "c", "a_c"},
		{"a.b", "c/d", "a_b_c_d"},
		{"a", "b.c/d", "a_b_c_d_"},
		{"s", strings.Repeat("x", 70), "s_" + strings.Repeat("x", 53) + "_"},
		{"ü", "€", "___"},
		{"a", "b", ""},
	} {
		got := taken.take(c.server, c.tool)
		if !strings.HasPrefix(got, c.want) || len(got) > 64 || c.want == "" && got != "" {
			t.Errorf("%s %s: %s", c.server, c.tool, got)
		}
	}
}
