package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/kaptinlin/jsonrepair"
)

// Arguments turns what a model wrote into an object that fits schema.
//
// Empty text and null, also in quotes, are {}. A value in quotes is taken out
// of them where the schema wants something else than a string, and null is
// dropped where an optional member is not allowed to be null. Text that is
// not JSON is repaired only if it is whole and the repaired object fits.
//
// The error names every problem that was found and the schema. A schema that
// cannot be compiled (someone else's) is not checked.
func Arguments(schema json.RawMessage, raw string) (json.RawMessage, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		s = jsonschema.Schema{}
	}
	object, problem := parseObject(raw)
	if problem == "" {
		return fit(&s, schema, object)
	}
	if fixed, ok := repairObject(raw); ok {
		if out, err := fit(&s, schema, fixed); err == nil {
			return out, nil
		}
	}
	return nil, argumentError([]string{problem}, schema)
}

// parseObject reads a JSON object, unquoting it as often as it is quoted. The
// problem is empty when it worked.
func parseObject(raw string) (map[string]any, string) {
	for range 3 {
		if raw = strings.TrimSpace(raw); raw == "" || raw == "null" {
			return map[string]any{}, ""
		}
		value, err := parse(raw)
		if err != nil {
			return nil, "the text is not JSON: " + err.Error()
		}
		switch v := value.(type) {
		case map[string]any:
			return v, ""
		case string:
			raw = v
			continue
		}
		return nil, fmt.Sprintf("an object is needed, not %s", kindOf(value))
	}
	return nil, "an object is needed, not a string"
}

// parse reads one JSON value and keeps the digits of numbers.
func parse(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("it ends too early")
		}
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the first value")
	}
	return v, nil
}

// repairObject mends text that is almost an object. Text that does not end
// like one was cut off: mending it would run a call nobody asked for.
func repairObject(raw string) (map[string]any, bool) {
	raw = strings.TrimSpace(raw)
	raw = strings.TrimSpace(strings.TrimSuffix(raw, "```"))
	if !strings.HasSuffix(raw, "}") {
		return nil, false
	}
	fixed, err := jsonrepair.Repair(raw)
	if err != nil {
		return nil, false
	}
	v, err := parse(fixed)
	if err != nil {
		return nil, false
	}
	object, ok := v.(map[string]any)
	return object, ok
}

// fit mends object by the schema, then checks it.
func fit(s *jsonschema.Schema, schema json.RawMessage, object map[string]any) (json.RawMessage, error) {
	mend(s, object)
	out, err := encode(object)
	if err != nil {
		return nil, argumentError([]string{err.Error()}, schema)
	}
	var plain map[string]any // numbers as the validator knows them
	if err := json.Unmarshal(out, &plain); err != nil {
		return nil, argumentError([]string{err.Error()}, schema)
	}
	if problems := check(s, plain); len(problems) > 0 {
		return nil, argumentError(problems, schema)
	}
	return out, nil
}

func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// mend follows the schema into value and returns value with quoted members
// taken out of their quotes and forbidden nulls dropped.
func mend(s *jsonschema.Schema, value any) any {
	if s == nil {
		return value
	}
	if text, ok := value.(string); ok && typed(s) && !allows(s, "string") {
		if v, err := parse(text); err == nil && allows(s, kindOf(v)) {
			value = v
		}
	}
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			sub := s.Properties[name]
			if member == nil && sub != nil && typed(sub) && !allows(sub, "null") && !slices.Contains(s.Required, name) {
				delete(v, name)
				continue
			}
			v[name] = mend(sub, member)
		}
	case []any:
		for i := range v {
			v[i] = mend(s.Items, v[i])
		}
	}
	return value
}

// typed reports whether the schema says of which type a value is.
func typed(s *jsonschema.Schema) bool { return s.Type != "" || len(s.Types) > 0 }

func allows(s *jsonschema.Schema, kind string) bool {
	if s.Type == kind || slices.Contains(s.Types, kind) {
		return true
	}
	return kind == "number" && allows(s, "integer")
}

// kindOf is the JSON type of a parsed value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

// check lists what is wrong with object. Each member is judged alone first,
// since the validator stops at its first finding.
func check(s *jsonschema.Schema, object map[string]any) []string {
	whole, err := s.CloneSchemas().Resolve(nil)
	if err != nil {
		return nil // someone else's schema that no validator takes: its server will judge
	}
	problems := unknown(s, object)
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			problems = append(problems, fmt.Sprintf("the required argument %q is missing", name))
		}
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if sub := s.Properties[name]; sub != nil {
			if err := checkMember(s, name, object[name]); err != nil {
				problems = append(problems, fmt.Sprintf("argument %q: %s", name, plainError(err)))
			}
		}
	}
	if len(problems) > 0 {
		return problems
	}
	if err := whole.Validate(object); err != nil {
		return []string{plainError(err)}
	}
	return nil
}

// checkMember validates one member under a copy of the schema that knows
// nothing else, so that references into it still lead somewhere.
func checkMember(s *jsonschema.Schema, name string, value any) error {
	only := jsonschema.Schema{
		Defs: s.Defs, Definitions: s.Definitions,
		Properties: map[string]*jsonschema.Schema{name: s.Properties[name]},
	}
	resolved, err := only.CloneSchemas().Resolve(nil)
	if err != nil {
		return nil //nolint:nilerr // it refers to what was left out: the check of the whole finds it
	}
	return resolved.Validate(map[string]any{name: value})
}

// unknown names the members that a closed schema does not have.
func unknown(s *jsonschema.Schema, object map[string]any) []string {
	closed := s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil
	if !closed || len(s.PatternProperties) > 0 {
		return nil
	}
	var out []string
	for name := range object {
		if s.Properties[name] != nil {
			continue
		}
		problem := fmt.Sprintf("the argument %q is unknown", name)
		for known := range s.Properties {
			if _, taken := object[known]; !taken && plainName(known) == plainName(name) {
				problem += fmt.Sprintf(" (its name is %q)", known)
			}
		}
		out = append(out, problem)
	}
	slices.Sort(out)
	return out
}

// plainName is a name without what spellings differ in.
func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// plainError is the last link of the validator's chain of places.
func plainError(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return cutText(err.Error(), 500)
		}
		err = next
	}
}

func argumentError(problems []string, schema json.RawMessage) error {
	var small bytes.Buffer
	if json.Compact(&small, schema) != nil {
		small.Reset()
	}
	return tell("%s.\nThe schema is: %s", strings.Join(problems, "; "), cutText(small.String(), 4000))
}
