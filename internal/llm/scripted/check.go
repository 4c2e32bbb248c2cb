package scripted

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// checkFields walks a document beside the type it will be decoded into and
// refuses mapping keys the type does not have.
func checkFields(n *yaml.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if t == reflect.TypeFor[yaml.Node]() || t == reflect.TypeFor[Duration]() {
		return nil
	}
	switch {
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		return checkStruct(n, t)
	case t.Kind() == reflect.Struct && n.Tag != "!!null":
		return fmt.Errorf("line %d: a mapping is wanted here", n.Line)
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			if err := checkFields(item, t.Elem()); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Slice && n.Tag != "!!null":
		return fmt.Errorf("line %d: a list is wanted here", n.Line)
	}
	return nil
}

func checkStruct(n *yaml.Node, t reflect.Type) error {
	fields := map[string]reflect.Type{}
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name != "" && name != "-" {
			fields[name] = t.Field(i).Type
			names = append(names, name)
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field, ok := fields[key.Value]
		if !ok {
			return fmt.Errorf("line %d: unknown field %q; %s", key.Line, key.Value, suggest(key.Value, names))
		}
		if err := checkFields(value, field); err != nil {
			return err
		}
	}
	return nil
}

// suggest names the field that was probably meant, else all there are.
func suggest(got string, names []string) string {
	best, least := "", 3
	if len(got) > 4 {
		least = 4
	}
	for _, name := range names {
		if d := distance(got, name); d < least {
			best, least = name, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "the fields here are " + strings.Join(names, ", ")
}

// distance is the number of letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// check refuses what would only show when the script plays.
func (s *Script) check() error {
	if len(s.Replies) == 0 && s.Default == nil {
		return fmt.Errorf("there are no replies")
	}
	for _, f := range s.Files {
		if !filepath.IsLocal(f.Path) {
			return fmt.Errorf("file %q: the path must be relative and stay in the work directory", f.Path)
		}
	}
	for i := range s.Replies {
		if err := s.Replies[i].check(); err != nil {
			return fmt.Errorf("line %d: reply %d: %w", s.Replies[i].line, i+1, err)
		}
	}
	if s.Default != nil {
		if err := s.Default.check(); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	return nil
}

func (r *Reply) check() error {
	for _, c := range r.Calls {
		if _, err := c.args(); err != nil {
			return err
		}
	}
	if r.Chunk < 0 {
		return fmt.Errorf("chunk is %d: it counts characters", r.Chunk)
	}
	if r.Error != nil {
		if r.Error.Status == 0 {
			r.Error.Status = http.StatusInternalServerError
		}
		if r.Error.Status < 200 || r.Error.Status > 599 {
			return fmt.Errorf("error status %d is none of HTTP", r.Error.Status)
		}
	}
	if r.Wire != nil {
		if r.Wire.Status < 200 || r.Wire.Status > 599 {
			return fmt.Errorf("wire status %d is none of HTTP", r.Wire.Status)
		}
		for _, h := range r.Wire.Headers {
			if !strings.Contains(h, ":") {
				return fmt.Errorf("wire header %q has no colon", h)
			}
		}
		for _, c := range r.Wire.Chunks {
			if _, err := base64.StdEncoding.DecodeString(c.Base64); err != nil {
				return fmt.Errorf("wire: base64: %w", err)
			}
		}
	}
	return nil
}
