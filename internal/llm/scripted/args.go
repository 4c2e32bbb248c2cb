package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// args is the text of the call's arguments: a string goes out as it is, so
// that a script can send broken ones; anything else becomes JSON with the
// members in the script's order.
func (c *Call) args() (string, error) {
	if c.Args.Kind == 0 {
		return "{}", nil
	}
	if c.Args.Kind == yaml.ScalarNode && c.Args.Tag == "!!str" {
		return c.Args.Value, nil
	}
	var b bytes.Buffer
	if err := writeJSON(&b, &c.Args); err != nil {
		return "", fmt.Errorf("arguments of %q: %w", c.Name, err)
	}
	return b.String(), nil
}

func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.AliasNode:
		return writeJSON(b, n.Alias)
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeValue(b, n.Content[i].Value); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := writeJSON(b, n.Content[i+1]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case yaml.ScalarNode, yaml.DocumentNode:
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return err
	}
	return writeValue(b, v)
}

func writeValue(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder's newline
	return nil
}
