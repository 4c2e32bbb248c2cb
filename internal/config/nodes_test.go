package config

import "go.yaml.in/yaml/v3"

func originsOf() map[*yaml.Node]Origin { return map[*yaml.Node]Origin{} }

func emptyMap() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

// anyValue finds key in a mapping, or in any entry of a list of them.
func anyValue(n *yaml.Node, key string) (*yaml.Node, bool) {
	if n.Kind != yaml.SequenceNode {
		v := value(n, key)
		return v, v != nil
	}
	all := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range n.Content {
		if v := value(item, key); v != nil {
			all.Content = append(all.Content, v)
			if v.Kind == yaml.SequenceNode {
				all.Content = append(all.Content, v.Content...)
			}
		}
	}
	return all, len(all.Content) > 0
}
