package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reference is compiled only where a value holds one.
func reference() *regexp.Regexp { return regexp.MustCompile(`\{(env|file):([^{}]+)\}`) }

func refers(s string) bool { return strings.Contains(s, "{env:") || strings.Contains(s, "{file:") }

// expand copies the merged nodes with {env:NAME} and {file:path} replaced.
// Only what survived the merge is looked at: a lower layer's unset variable
// does not matter once another layer replaced the value. What is wrong in a
// provider's entry is kept for when it is used.
func (c *Config) expand() (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(c.merged.Content); i += 2 {
		key, child := c.merged.Content[i], c.merged.Content[i+1]
		if key.Value == "providers" {
			out.Content = append(out.Content, key, c.expandProviders(child))
			continue
		}
		n, err := c.expandNode(child, key.Value)
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, key, n)
	}
	return out, nil
}

func (c *Config) expandProviders(list *yaml.Node) *yaml.Node {
	out := *list
	out.Content = nil
	for _, item := range list.Content {
		id := text(item, "id")
		n, err := c.expandNode(item, "providers["+id+"]")
		if err != nil {
			c.Providers = append(c.Providers, Provider{ID: id, Err: err})
			n = item
		}
		out.Content = append(out.Content, n)
	}
	return &out
}

func (c *Config) expandNode(n *yaml.Node, key string) (*yaml.Node, error) {
	if n.Kind == yaml.ScalarNode {
		return c.expandScalar(n, key)
	}
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		path := key
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				out.Content[i] = child
				continue
			}
			path = key + "." + n.Content[i-1].Value
		}
		var err error
		if out.Content[i], err = c.expandNode(child, path); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

func (c *Config) expandScalar(n *yaml.Node, key string) (*yaml.Node, error) {
	if !refers(n.Value) {
		return n, nil
	}
	pattern := reference()
	origin := c.origins[n]
	var failed error
	out := *n
	out.Value = pattern.ReplaceAllStringFunc(n.Value, func(ref string) string {
		m := pattern.FindStringSubmatch(ref)
		v, err := c.resolve(m[1], m[2], origin)
		if err != nil && failed == nil {
			failed = &Error{File: origin.File, Line: origin.Line, Key: key, Message: err.Error(), Hint: "set it, or take " + ref + " out"}
		}
		return v
	})
	return &out, failed
}

func (c *Config) resolve(kind, name string, origin Origin) (string, error) {
	if kind == "env" {
		v, ok := c.opts.env(name)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		return v, nil
	}
	path := c.resolvePath(name, origin)
	b, err := readFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s: %s", path, reason(err))
	}
	return strings.TrimSpace(string(b)), nil
}

// resolvePath makes a path absolute: ~ is the home directory, relative ones
// are meant from the folder of the file that names them.
func (c *Config) resolvePath(path string, origin Origin) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(c.opts.Home, rest)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.base(origin), path)
}

// named is resolvePath for folders and instructions, which a project names
// from the directory that holds its .rally.
func (c *Config) named(path string, origin Origin) string {
	if origin.Layer == LayerProject && !filepath.IsAbs(path) && !strings.HasPrefix(path, "~/") {
		return filepath.Join(filepath.Dir(c.base(origin)), path)
	}
	return c.resolvePath(path, origin)
}

func (c *Config) base(origin Origin) string {
	if origin.Layer == LayerUser || origin.Layer == LayerProject || origin.Layer == LayerFile {
		return filepath.Dir(origin.File)
	}
	return c.Dir
}
