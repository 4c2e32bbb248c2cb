package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// parse reads one YAML document; nil when there is nothing in it.
func parse(b []byte, file string) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, syntaxError(err, file)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &Error{File: file, Line: more.Line, Message: "only one YAML document is read"}
	}
	node := doc.Content[0]
	if node.Tag == "!!null" {
		return nil, nil
	}
	return node, nil
}

// syntaxError takes the line out of the library's message.
func syntaxError(err error, file string) *Error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	out := &Error{File: file, Message: "not YAML: " + text}
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); m != nil {
		out.Line, _ = strconv.Atoi(m[1])
		out.Message = "not YAML: " + strings.TrimPrefix(text, m[0])
	}
	return out
}

// field is a struct field with its YAML key.
type field struct {
	reflect.StructField
	key string
}

func fields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		if key := f.Tag.Get("yaml"); key != "" && key != "-" {
			out = append(out, field{f, key})
		}
	}
	return out
}

func fieldOf(t reflect.Type, key string) *field {
	for _, f := range fields(t) {
		if f.key == key {
			return &f
		}
	}
	return nil
}

// identity is the key by which entries of a list are told apart.
func identity(t reflect.Type) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	for _, key := range []string{"id", "name"} {
		if fieldOf(t, key) != nil {
			return key
		}
	}
	return ""
}

func isRule(t reflect.Type) bool { return t == reflect.TypeFor[Rule]() }

// check holds a node against the type it will be decoded into.
func check(n *yaml.Node, t reflect.Type, file, key string) error {
	bad := func(format string, args ...any) error {
		return &Error{File: file, Line: n.Line, Key: key, Message: fmt.Sprintf(format, args...)}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return bad("anchors and aliases are not read here")
	case n.Tag == "!!null":
		return nil
	case isRule(t):
		var r Rule
		if err := r.UnmarshalYAML(n); err != nil {
			return bad("%v", err)
		}
		return nil
	}
	kind := t.Kind()
	if kind == reflect.Struct {
		return checkStruct(n, t, file, key)
	}
	if kind == reflect.Slice {
		return checkList(n, t, file, key)
	}
	if kind == reflect.Map {
		var into any = map[string]any{}
		if t.Elem().Kind() == reflect.String {
			into = map[string]string{}
		}
		if n.Kind != yaml.MappingNode || n.Decode(&into) != nil {
			return bad("must be a map")
		}
		return nil
	}
	if n.Kind != yaml.ScalarNode {
		return bad("must be a single value, not a list or a map")
	}
	return checkScalar(n, t, bad)
}

func checkStruct(n *yaml.Node, t reflect.Type, file, key string) error {
	if n.Kind != yaml.MappingNode {
		return &Error{File: file, Line: n.Line, Key: key, Message: "must be a map of keys"}
	}
	var known []string
	for _, f := range fields(t) {
		known = append(known, f.key)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, child := n.Content[i], n.Content[i+1]
		path := strings.TrimPrefix(key+"."+name.Value, ".")
		f := fieldOf(t, name.Value)
		switch {
		case f == nil:
			return &Error{File: file, Line: name.Line, Key: path, Message: "unknown key", Hint: hint(Near(name.Value, known))}
		case seen[name.Value]:
			return &Error{File: file, Line: name.Line, Key: path, Message: "given twice"}
		}
		seen[name.Value] = true
		if err := check(child, f.Type, file, path); err != nil {
			return err
		}
		allowed := strings.Fields(f.Tag.Get("oneof"))
		if len(allowed) > 0 && child.Tag != "!!null" && !slices.Contains(allowed, child.Value) {
			return &Error{File: file, Line: child.Line, Key: path, Message: fmt.Sprintf("%q is none of %s", child.Value, strings.Join(allowed, ", ")), Hint: hint(Near(child.Value, allowed))}
		}
	}
	return nil
}

func checkList(n *yaml.Node, t reflect.Type, file, key string) error {
	if n.Kind != yaml.SequenceNode {
		return &Error{File: file, Line: n.Line, Key: key, Message: "must be a list"}
	}
	id := identity(t.Elem())
	seen := map[string]bool{}
	for i, item := range n.Content {
		path := fmt.Sprintf("%s[%d]", key, i)
		if err := check(item, t.Elem(), file, path); err != nil {
			return err
		}
		if id == "" {
			continue
		}
		name := text(item, id)
		if name == "" {
			return &Error{File: file, Line: item.Line, Key: path, Message: "has no " + id}
		}
		if seen[name] {
			return &Error{File: file, Line: item.Line, Key: path, Message: fmt.Sprintf("%s %q is there twice", id, name)}
		}
		seen[name] = true
	}
	return nil
}

func checkScalar(n *yaml.Node, t reflect.Type, bad func(string, ...any) error) error {
	if t == reflect.TypeFor[time.Duration]() {
		if d, err := time.ParseDuration(n.Value); err != nil || d < 0 {
			return bad("%q is not a duration such as 30s or 5m", n.Value)
		}
		if n.Value == "0" { // the decoder wants a unit
			n.Value, n.Tag = "0s", "!!str"
		}
		return nil
	}
	into := reflect.New(t)
	if err := n.Decode(into.Interface()); err != nil {
		return bad("%q is not %s", n.Value, kindName(t))
	}
	v := into.Elem()
	if v.CanInt() && v.Int() < 0 || v.CanFloat() && !(v.Float() >= 0) {
		return bad("%q is below zero", n.Value)
	}
	return nil
}

func kindName(t reflect.Type) string {
	if t.Kind() == reflect.Bool {
		return "true or false"
	}
	if t.Kind() == reflect.Float64 {
		return "a number"
	}
	if t.Kind() == reflect.String {
		return "text"
	}
	return "a whole number"
}

// merge lays src over dst, both checked: maps by key, lists of named entries
// by name, lists marked so are appended, everything else is replaced. A null
// in src says nothing.
func merge(dst, src *yaml.Node, t reflect.Type) {
	for i := 0; i+1 < len(src.Content); i += 2 {
		key, child := src.Content[i], src.Content[i+1]
		f := fieldOf(t, key.Value)
		if child.Tag == "!!null" || f == nil {
			continue
		}
		old := value(dst, key.Value)
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		switch {
		case old == nil:
			dst.Content = append(dst.Content, key, child)
		case ft.Kind() == reflect.Struct:
			merge(old, child, ft)
		case ft.Kind() == reflect.Slice && f.Tag.Get("merge") == "append":
			appendNodes(old, child, ft.Elem())
		case ft.Kind() == reflect.Slice && identity(ft.Elem()) != "":
			mergeList(old, child, ft.Elem())
		default:
			replace(dst, key, child)
		}
	}
}

func appendNodes(old, more *yaml.Node, t reflect.Type) {
	for _, n := range more.Content {
		same := func(o *yaml.Node) bool { return o.Value == n.Value }
		if t.Kind() == reflect.String && slices.ContainsFunc(old.Content, same) {
			continue
		}
		old.Content = append(old.Content, n)
	}
}

func mergeList(old, more *yaml.Node, t reflect.Type) {
	id := identity(t)
	for _, n := range more.Content {
		i := slices.IndexFunc(old.Content, func(o *yaml.Node) bool { return text(o, id) == text(n, id) })
		if i < 0 {
			old.Content = append(old.Content, n)
			continue
		}
		merge(old.Content[i], n, t)
	}
}

// value is what a mapping holds under key, or nil.
func value(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// text is the scalar that a mapping holds under key, or "".
func text(n *yaml.Node, key string) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	if v := value(n, key); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

func replace(dst, key, child *yaml.Node) {
	for i := 0; i+1 < len(dst.Content); i += 2 {
		if dst.Content[i].Value == key.Value {
			dst.Content[i], dst.Content[i+1] = key, child
		}
	}
}

// remove takes the entries that drop says out of a mapping.
func remove(n *yaml.Node, drop func(key, child *yaml.Node) bool) {
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !drop(n.Content[i], n.Content[i+1]) {
			kept = append(kept, n.Content[i], n.Content[i+1])
		}
	}
	n.Content = kept
}

func hint(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(near, ", ") + "?"
}
