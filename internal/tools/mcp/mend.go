package mcp

import (
	"maps"
	"slices"
)

// mend returns a schema with what providers trip over taken out. Anything that
// is no schema becomes one that allows everything.
func (m *mender) mend(v any, depth int) any {
	s, ok := v.(map[string]any)
	if !ok || depth > maxDepth {
		return map[string]any{}
	}
	out := make(map[string]any, len(s))
	for keyword, value := range s {
		if value = m.keyword(keyword, value, depth); value != nil {
			out[keyword] = value
		}
	}
	if c, ok := s["const"]; ok && c == nil {
		out["const"] = nil
	}
	if allowsType(out["type"], "array") {
		if _, ok := out["items"].(map[string]any); !ok {
			out["items"] = map[string]any{} // none, true or false
		}
	}
	if out["type"] == "object" && out["properties"] == nil {
		out["properties"] = map[string]any{}
	}
	return out
}

// keyword is the mended value of one keyword; nil leaves it out.
func (m *mender) keyword(keyword string, value any, depth int) any {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		return m.each(value, depth)
	case "items", "additionalProperties", "unevaluatedProperties", "contains", "propertyNames", "not", "if", "then", "else":
		return m.sub(value, depth)
	case "anyOf", "oneOf", "allOf", "prefixItems":
		return m.list(value, depth)
	case "type":
		return mendType(value)
	case "required":
		return mendRequired(value)
	case "enum":
		if list, ok := value.([]any); !ok || len(list) == 0 {
			return nil
		}
	case "exclusiveMinimum", "exclusiveMaximum": // true and false in draft 4
		if _, ok := value.(float64); !ok {
			return nil
		}
	case "description", "title", "format", "pattern", "$ref":
		if _, ok := value.(string); !ok {
			return nil
		}
	}
	return value
}

// each mends the schemas of an object of schemas.
func (m *mender) each(value any, depth int) any {
	o, ok := value.(map[string]any)
	if !ok {
		return nil
	}
	out := make(map[string]any, len(o))
	for name, s := range o {
		if s == false {
			continue // an argument that must not be given
		}
		out[name] = m.mend(s, depth+1)
	}
	return out
}

// sub mends a schema that may be true or false, or a list of them (a tuple of
// older drafts).
func (m *mender) sub(value any, depth int) any {
	switch v := value.(type) {
	case bool:
		return v
	case map[string]any:
		return m.mend(v, depth+1)
	case []any:
		return m.tuple(v, depth)
	}
	return nil
}

func (m *mender) tuple(list []any, depth int) any {
	switch len(list) {
	case 0:
		return map[string]any{}
	case 1:
		return m.mend(list[0], depth+1)
	}
	return map[string]any{"anyOf": m.list(list, depth)}
}

func (m *mender) list(value any, depth int) any {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return nil
	}
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = m.mend(s, depth+1)
	}
	return out
}

func allowsType(kind any, name string) bool {
	list, _ := kind.([]any)
	return kind == any(name) || slices.Contains(list, any(name))
}

// mendType keeps the types that there are.
func mendType(value any) any {
	known := []any{"string", "number", "integer", "boolean", "array", "object", "null"}
	switch v := value.(type) {
	case string:
		if slices.Contains(known, any(v)) {
			return v
		}
	case []any:
		list := slices.DeleteFunc(slices.Clone(v), func(t any) bool { return !slices.Contains(known, t) })
		switch len(list) {
		case 0:
			return nil
		case 1:
			return list[0]
		}
		return list
	}
	return nil
}

// mendRequired keeps the names, each once, in order.
func mendRequired(value any) any {
	list, ok := value.([]any)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for _, n := range list {
		if name, ok := n.(string); ok {
			seen[name] = true
		}
	}
	if len(seen) == 0 {
		return nil
	}
	out := make([]any, 0, len(seen))
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, name)
	}
	return out
}
