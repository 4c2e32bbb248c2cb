package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What a schema may be; beyond it a request is refused or crowded out.
const (
	maxSchema = 128 << 10 // bytes
	maxDepth  = 48
)

// inputSchema is the schema of a tool's arguments as providers take it, and
// the original names of those arguments that had to be renamed.
type inputSchema struct {
	text    json.RawMessage
	renamed map[string]string // name the model uses → the server's
}

// mendSchema makes of a server's schema one that no provider refuses. One tool
// with a bad schema makes every request fail, so what cannot be mended is an
// error, and the tool is left out.
//
// The root becomes a plain object with properties: alternatives at the root
// are merged into one object whose required members are those of all of them.
// Below it arrays get items, keywords that are not of draft 2020-12 go.
func mendSchema(raw any) (inputSchema, error) {
	root, ok := raw.(map[string]any)
	if !ok {
		if raw != nil {
			return inputSchema{}, fmt.Errorf("its input schema is %T, not an object", raw)
		}
		root = map[string]any{}
	}
	m := &mender{defs: root}
	root, err := m.flatten(root, 0)
	if err != nil {
		return inputSchema{}, err
	}
	for _, keyword := range []string{"$schema", "$id", "id"} {
		if _, text := root[keyword].(string); text {
			delete(root, keyword)
		}
	}
	root, _ = m.mend(root, 0).(map[string]any)
	root["type"] = "object"
	out := inputSchema{}
	if out.renamed, err = cleanProperties(root); err != nil {
		return inputSchema{}, err
	}
	if out.text, err = json.Marshal(root); err != nil {
		return inputSchema{}, err
	}
	if len(out.text) > maxSchema {
		return inputSchema{}, fmt.Errorf("its input schema has %d bytes, more than %d", len(out.text), maxSchema)
	}
	return out, nil
}

// mender walks through one schema.
type mender struct {
	defs map[string]any // the root, for local references
	seen int            // schemas that were merged
}

// maxMerged bounds the work of merging: references can name each other in
// ways that double with every level.
const maxMerged = 256

// flatten makes a plain object of a schema that may be a reference or a choice.
func (m *mender) flatten(s map[string]any, depth int) (map[string]any, error) {
	if m.seen++; m.seen > maxMerged || depth > maxDepth {
		return nil, errors.New("its input schema refers to itself or has too many alternatives")
	}
	s = maps.Clone(s)
	if ref, ok := s["$ref"].(string); ok {
		target, ok := m.resolve(ref)
		if !ok {
			return nil, fmt.Errorf("its input schema refers to %q, which is not there", ref)
		}
		delete(s, "$ref")
		if err := m.merge(s, []any{target}, true, depth); err != nil {
			return nil, err
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		branches, ok := s[keyword].([]any)
		if !ok {
			continue
		}
		delete(s, keyword)
		if err := m.merge(s, branches, keyword == "allOf", depth); err != nil {
			return nil, err
		}
	}
	for _, keyword := range []string{"not", "enum", "const", "if", "then", "else"} {
		delete(s, keyword)
	}
	if !isObject(s["type"]) {
		return nil, fmt.Errorf("its input schema is of type %v, not object", s["type"])
	}
	return s, nil
}

func isObject(kind any) bool {
	switch k := kind.(type) {
	case nil:
		return true
	case string:
		return k == "object"
	case []any:
		return slices.Contains(k, any("object"))
	}
	return false
}

// merge adds the branches' properties to s. What all of them require stays
// required; with all set, what any of them does.
func (m *mender) merge(s map[string]any, branches []any, all bool, depth int) error {
	properties := objectOf(s["properties"])
	var required []any
	for i, b := range branches {
		branch, ok := b.(map[string]any)
		if !ok {
			continue
		}
		flat, err := m.flatten(branch, depth+1)
		if err != nil {
			return err
		}
		for name, p := range objectOf(flat["properties"]) {
			if _, known := properties[name]; !known {
				properties[name] = p
			}
		}
		needs, _ := flat["required"].([]any)
		switch {
		case all:
			required = append(required, needs...)
		case i == 0:
			required = slices.Clone(needs)
		default:
			required = slices.DeleteFunc(required, func(n any) bool { return !slices.Contains(needs, n) })
		}
		for keyword, value := range flat {
			if _, known := s[keyword]; !known && keyword != "properties" && keyword != "required" && (all || keyword == "description") {
				s[keyword] = value
			}
		}
	}
	s["properties"] = properties
	if own, ok := s["required"].([]any); ok {
		required = append(slices.Clone(own), required...)
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return nil
}

// objectOf is a copy of v, empty if v is no object.
func objectOf(v any) map[string]any {
	o, _ := v.(map[string]any)
	out := make(map[string]any, len(o))
	maps.Copy(out, o)
	return out
}

// resolve follows a reference into the same schema.
func (m *mender) resolve(ref string) (any, bool) {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, false
	}
	var at any = m.defs
	for _, name := range strings.Split(path, "/") {
		o, _ := at.(map[string]any)
		if at, ok = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]; !ok {
			return nil, false
		}
	}
	return at, true
}

// cleanProperties renames the arguments whose names providers refuse.
func cleanProperties(root map[string]any) (map[string]string, error) {
	old := objectOf(root["properties"])
	var renamed map[string]string
	properties := make(map[string]any, len(old))
	for name, p := range old {
		if validProperty(name) {
			properties[name] = p
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if validProperty(name) {
			continue
		}
		clean := cleanName(name)
		if _, taken := properties[clean]; taken || !validProperty(clean) {
			return nil, fmt.Errorf("its argument %q has a name that no model may use", name)
		}
		if renamed == nil {
			renamed = map[string]string{}
		}
		renamed[clean], properties[clean] = name, old[name]
		if required, ok := root["required"].([]any); ok {
			for i := range required {
				if required[i] == any(name) {
					required[i] = clean
				}
			}
		}
	}
	root["properties"] = properties
	return renamed, nil
}

func validProperty(name string) bool {
	plain := strings.ReplaceAll(name, ".", "_")
	return name != "" && len(name) <= maxName && cleanName(plain) == plain
}
