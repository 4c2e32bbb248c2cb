package config

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// hiddenValue stands for a value that is never shown.
const hiddenValue = "***"

// shown is one value of the configuration.
type shown struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	Layer Layer  `json:"layer"`
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
}

type heldJSON struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Key  string `json:"key"`
	Why  string `json:"why"`
}

// Show prints every value, one a line, with its layer if origin is set, or
// all of it as one JSON object. Keys, headers and the environment of servers
// are ***; {env:NAME} and {file:path} stay as they were written.
func (c *Config) Show(w io.Writer, origin, asJSON bool) error {
	var list []shown
	c.collect(c.merged, reflect.TypeFor[Config](), "", false, &list)
	if asJSON {
		out := struct {
			Values []shown    `json:"values"`
			Held   []heldJSON `json:"held"`
		}{list, []heldJSON{}}
		for _, h := range c.Held {
			out.Held = append(out.Held, heldJSON(h))
		}
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(out)
	}
	var b strings.Builder
	for _, s := range list {
		b.WriteString(s.Key + ": " + line(fmt.Sprint(s.Value)))
		if origin {
			b.WriteString("  # " + Origin{s.Layer, s.File, s.Line}.String())
		}
		b.WriteByte('\n')
	}
	if origin {
		for _, h := range c.Held {
			b.WriteString("# " + h.String() + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line makes a value fit on one line without control characters.
func line(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if s == "" || strings.ContainsFunc(s, unicode.IsControl) {
		return strconv.Quote(s)
	}
	return s
}

// collect lists the values of n, in the order of the type's fields.
func (c *Config) collect(n *yaml.Node, t reflect.Type, key string, secret bool, out *[]shown) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case isRule(t):
		c.show(n, key, n.Content[0].Value+" "+n.Content[1].Value, out)
	case t.Kind() == reflect.Struct:
		for _, f := range fields(t) {
			if child := value(n, f.key); child != nil {
				c.collect(child, f.Type, strings.TrimPrefix(key+"."+f.key, "."), f.Tag.Get("secret") == "true", out)
			}
		}
	case n.Kind == yaml.SequenceNode:
		et := reflect.TypeFor[any]()
		if t.Kind() == reflect.Slice {
			et = t.Elem()
		}
		for i, child := range n.Content {
			name := strconv.Itoa(i)
			if id := identity(et); id != "" {
				name = text(child, id)
			}
			c.collect(child, et, key+"["+name+"]", secret, out)
		}
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			c.collect(n.Content[i+1], reflect.TypeFor[any](), key+"."+n.Content[i].Value, secret, out)
		}
	case secret:
		c.show(n, key, hiddenValue, out)
	default:
		c.show(n, key, scalarValue(n, t), out)
	}
}

func (c *Config) show(n *yaml.Node, key string, v any, out *[]shown) {
	o := c.origins[n]
	*out = append(*out, shown{Key: key, Value: v, Layer: o.Layer, File: o.File, Line: o.Line})
}

func scalarValue(n *yaml.Node, t reflect.Type) any {
	if t.Kind() == reflect.String {
		return n.Value
	}
	var v any
	if n.Decode(&v) != nil {
		return n.Value
	}
	return v
}
