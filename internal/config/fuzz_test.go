package config

import (
	"bytes"
	"errors"
	"testing"
)

func FuzzLoad(f *testing.F) {
	for _, s := range []string{"model: a/b", "permission: [{allow: x}]", "providers: [{id: a, models: [{id: b, cost: {input: 1}}]}]", "agents: [{name: a, permission: [{deny: '{env:X}'}]}]", "a: &b [*b]", "limits: {cost: .nan}", "mcp: [{name: {a: b}}]", "hooks: [null]", "agents: [null]", "limits: null", "commands: [~, {name: a}]"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, s string) {
		c := &Config{Dir: dir, Root: dir, opts: Options{Dir: dir}, origins: originsOf()}
		c.merged = emptyMap()
		if err := c.text(defaults, Origin{Layer: LayerDefault}); err != nil {
			t.Fatal(err)
		}
		for _, layer := range []Layer{LayerProject, LayerUser} {
			if err := c.text([]byte(s), Origin{Layer: layer, File: "f"}); err != nil {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("%T %v", err, err)
				}
				return
			}
		}
		if err := c.decode(); err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if err := c.Show(&bytes.Buffer{}, true, true); err != nil {
			t.Fatal(err)
		}
	})
}
