package tools

import (
	"encoding/json"
	"strings"
	"testing"
)

const testSchema = `{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer","minimum":0},"all":{"type":"boolean"},
"list":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}},"any":{}},"required":["path"],"additionalProperties":false}`

func TestArguments(t *testing.T) {
	open := `{"type":"object"}`
	for _, c := range []struct{ name, schema, raw, want string }{
		{"plain", testSchema, `{"path":"a"}`, `{"path":"a"}`},
		{"quoted whole", testSchema, `"{\"path\":\"a\"}"`, `{"path":"a"}`},
		{"quoted number", testSchema, `{"path":"a","limit":"5"}`, `{"limit":5,"path":"a"}`},
		{"quoted bool", testSchema, `{"path":"a","all":"true"}`, `{"all":true,"path":"a"}`},
		{"quoted list", testSchema, `{"path":"a","list":"[{\"n\":\"1\"}]"}`, `{"list":[{"n":1}],"path":"a"}`},
		{"strings stay", testSchema, `{"path":"{\"a\":1}"}`, `{"path":"{\"a\":1}"}`},
		{"a number in a string field stays text", testSchema, `{"path":"12"}`, `{"path":"12"}`},
		{"untyped stays", testSchema, `{"path":"a","any":"1"}`, `{"any":"1","path":"a"}`},
		{"null dropped", testSchema, `{"path":"a","limit":null}`, `{"path":"a"}`},
		{"digits kept", open, `{"n":12345678901234567890.10}`, `{"n":12345678901234567890.10}`},
		{"no html escapes", open, `{"a":"<&>"}`, `{"a":"<&>"}`},
		{"trailing comma", testSchema, `{"path":"a",}`, `{"path":"a"}`},
		{"single quotes", testSchema, `{'path':'a'}`, `{"path":"a"}`},
		{"raw newline", testSchema, "{\"path\":\"a\nb\"}", `{"path":"a\nb"}`},
		{"empty", open, ``, `{}`},
		{"blank", open, " \n", `{}`},
		{"null", open, `null`, `{}`},
		{"quoted null", open, `"null"`, `{}`},
		{"quoted empty", open, `""`, `{}`},
		{"bad schema", `{"type":"object","pattern":"("}`, `{"a":1}`, `{"a":1}`},
		{"no schema", ``, `{"a":1}`, `{"a":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Arguments(json.RawMessage(c.schema), c.raw)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; wanted %s", got, err, c.want)
			}
		})
	}
}

func TestArgumentsRefused(t *testing.T) {
	for _, c := range []struct {
		raw  string
		says []string
	}{
		{``, []string{`"path" is missing`, `The schema is: {"type":"object"`}},
		{`{"file":"a","limit":"x","all":3}`, []string{`"path" is missing`, `"file" is unknown`, `argument "limit"`, `argument "all"`}},
		{`{"Path":"a"}`, []string{`"Path" is unknown (its name is "path")`}},
		{`{"path":"a","limit":-1}`, []string{`minimum`}},
		{`{"path":"a","list":[{}]}`, []string{`argument "list"`, `n`}},
		{`{"path":"a`, []string{"too early"}},
		{`[1]`, []string{"an object is needed, not array"}},
		{`7`, []string{"an object is needed, not number"}},
		{`{"path":"a"} {"path":"b"}`, []string{"more after the first value"}},
	} {
		got, err := Arguments(json.RawMessage(testSchema), c.raw)
		if err == nil {
			t.Errorf("%s gave %s", c.raw, got)
			continue
		}
		holds(t, err.Error(), c.says...)
	}
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{``, `null`, `{"path":"a","limit":"5"}`, `"{\"path\":1}"`, `{'path':"a",}`, `{"path":"a`, "```json\n{\"path\":\"a\"}\n```"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := Arguments(json.RawMessage(testSchema), raw)
		if err != nil {
			return
		}
		var a struct{ Path *string }
		if json.Unmarshal(got, &a) != nil || a.Path == nil {
			t.Fatalf("%q gave %s", raw, got)
		}
		again, err := Arguments(json.RawMessage(testSchema), string(got))
		if err != nil || string(again) != string(got) {
			t.Fatalf("%s is not a fixed point: %s, %v", got, again, err)
		}
		if strings.HasSuffix(raw, `"`) && !json.Valid([]byte(raw)) {
			t.Fatalf("cut-off text %q was repaired", raw)
		}
	})
}
