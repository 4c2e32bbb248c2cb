package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"rally/internal/session"
)

// validate checks what the types alone do not say.
func (c *Config) validate() error {
	for _, key := range []string{"model", "small_model"} {
		if err := c.model(value(c.merged, key), key); err != nil {
			return err
		}
	}
	if n := value(c.merged, "compaction"); n != nil {
		if err := c.model(value(n, "model"), "compaction.model"); err != nil {
			return err
		}
	}
	for _, list := range []string{"agents", "commands"} {
		for _, item := range entries(c.merged, list) {
			key := fmt.Sprintf("%s[%s].model", list, text(item, "name"))
			if err := c.model(value(item, "model"), key); err != nil {
				return err
			}
		}
	}
	for _, item := range entries(c.merged, "mcp") {
		if err := c.server(item); err != nil {
			return err
		}
	}
	for i, item := range entries(c.merged, "hooks") {
		key := fmt.Sprintf("hooks[%d]", i)
		switch {
		case text(item, "event") == "":
			return c.wrong(item, key, "has no event")
		case len(entries(item, "command")) == 0:
			return c.wrong(item, key, "has no command")
		}
	}
	for _, item := range entries(c.merged, "references") {
		if text(item, "path") == "" {
			return c.wrong(item, "references["+text(item, "name")+"]", "has no path")
		}
	}
	return nil
}

func (c *Config) server(item *yaml.Node) error {
	key := "mcp[" + text(item, "name") + "]"
	command, url := len(entries(item, "command")) > 0, text(item, "url") != ""
	if command == url && text(item, "enabled") != "false" {
		return c.wrong(item, key, "needs a command or a url, and not both")
	}
	for _, n := range entries(item, "env") {
		if name, _, ok := strings.Cut(n.Value, "="); !ok || name == "" {
			return c.wrong(n, key+".env", "entries are KEY=value")
		}
	}
	return nil
}

func (c *Config) model(n *yaml.Node, key string) error {
	if n == nil || n.Value == "" || strings.Contains(n.Value, "{") {
		return nil
	}
	if _, err := session.ParseModel(n.Value); err != nil {
		return c.wrong(n, key, err.Error())
	}
	return nil
}

func (c *Config) wrong(n *yaml.Node, key, message string) error {
	o := c.origins[n]
	return &Error{File: o.File, Line: o.Line, Key: key, Message: message}
}

// entries are the items of the list under key.
func entries(n *yaml.Node, key string) []*yaml.Node {
	if v := value(n, key); v != nil && v.Kind == yaml.SequenceNode {
		return v.Content
	}
	return nil
}
