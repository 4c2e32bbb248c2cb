package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A project's files are someone else's text when a CI job checks out a pull
// request. An untrusted one may choose, describe and restrict. It may not
// start a process, loosen a rule or a limit, say where keys are sent, read the
// environment, or name files outside itself. What is not listed as harmless
// here is held back.

// Held is something a project said that it may not say.
type Held struct {
	File string
	Line int
	Key  string
	Why  string
}

func (h Held) String() string {
	at := h.File
	if h.Line > 0 {
		at += ":" + strconv.Itoa(h.Line)
	}
	return at + ": " + h.Key + " was held back: " + h.Why
}

// trust decides whether the project is trusted, by flag or by the user's own
// list, which holds real directories and everything below them.
func (c *Config) trust() {
	c.Trusted = c.opts.TrustProject
	list := value(c.merged, "trusted_projects")
	if list == nil {
		return
	}
	for _, n := range list.Content {
		path := c.resolvePath(n.Value, c.origins[n])
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		c.Trusted = c.Trusted || inside(path, c.Root)
	}
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// holder takes out of one project file what may not be there.
type holder struct {
	c    *Config
	file string
}

func (c *Config) hold(node *yaml.Node, file string) {
	h := holder{c, file}
	remove(node, func(key, child *yaml.Node) bool { return h.top(key, child) })
	h.references(node, "")
}

func (h holder) held(n *yaml.Node, key, why string) bool {
	h.c.Held = append(h.c.Held, Held{File: h.file, Line: n.Line, Key: key, Why: why})
	return true
}

const (
	whyProcess = "it would start a process"
	whyLoosen  = "it would loosen a rule"
	whyKey     = "it decides where requests and keys go"
	whyOutside = "it is outside the project"
)

// top judges one key of the file and reports whether it must go.
func (h holder) top(key, child *yaml.Node) bool {
	switch key.Value {
	case "model", "small_model", "agent", "title", "compaction", "tool_output", "retry", "timeouts", "secrets":
		return false
	case "shell", "hooks":
		return h.held(key, key.Value, whyProcess)
	case "ca_file":
		return h.held(key, key.Value, whyKey)
	case "trusted_projects":
		return h.held(key, key.Value, "only the user's own file may trust a project")
	case "on_ask":
		return child.Value == "allow" && h.held(key, key.Value, whyLoosen)
	case "continue_on_deny":
		return child.Value != "false" && h.held(key, key.Value, whyLoosen)
	case "snapshot":
		return child.Value != "true" && h.held(key, key.Value, "it would make changes final")
	case "limits", "subagent_depth":
		h.limits(key, child)
		return key.Value == "subagent_depth" && h.looser(child, h.c.merged, "subagent_depth", false) && h.held(key, key.Value, "it would raise a limit")
	case "permission":
		h.rules(child, "permission", false)
	case "providers":
		h.providers(child)
	case "agents":
		for _, a := range child.Content {
			if rules := value(a, "permission"); rules != nil {
				h.rules(rules, "agents["+text(a, "name")+"].permission", true)
			}
		}
	case "commands":
	case "mcp":
		h.mcp(child)
	case "instructions":
		h.list(child, func(n *yaml.Node) (string, bool) { return n.Value, h.outside(n.Value) }, "instructions")
	case "references":
		h.list(child, func(n *yaml.Node) (string, bool) { return text(n, "name"), h.outside(text(n, "path")) }, "references")
	default:
		return h.held(key, key.Value, "a project may not set it")
	}
	return false
}

// limits takes out those that are higher than what stands already.
func (h holder) limits(key, child *yaml.Node) {
	if key.Value != "limits" {
		return
	}
	old := value(h.c.merged, "limits")
	remove(child, func(k, v *yaml.Node) bool {
		return h.looser(v, old, k.Value, true) && h.held(k, "limits."+k.Value, "it would raise a limit")
	})
}

// looser reports whether a number is above the one that stands under key;
// with none, 0 means no limit at all.
func (h holder) looser(n, old *yaml.Node, key string, none bool) bool {
	amount := func(n *yaml.Node) float64 {
		if d, err := time.ParseDuration(n.Value); err == nil {
			return d.Seconds()
		}
		f, _ := strconv.ParseFloat(n.Value, 64) // checked before
		return f
	}
	stands := value(old, key)
	if stands == nil {
		return false
	}
	was, is := amount(stands), amount(n)
	if none && was == 0 {
		return false
	}
	return is > was || none && is == 0
}

// rules keeps those that can only tighten. Among an agent's, which stand above
// the user's, that is deny alone; an ask could take the place of a deny.
func (h holder) rules(list *yaml.Node, key string, onlyDeny bool) {
	list.Content = slices.DeleteFunc(list.Content, func(n *yaml.Node) bool {
		action := n.Content[0].Value
		if action == "deny" || action == "ask" && !onlyDeny {
			return false
		}
		return h.held(n, key+" {"+action+": "+n.Content[1].Value+"}", whyLoosen)
	})
}

// providers keeps what a project says of models, never of where they are.
func (h holder) providers(list *yaml.Node) {
	list.Content = slices.DeleteFunc(list.Content, func(p *yaml.Node) bool {
		id := text(p, "id")
		remove(p, func(k, _ *yaml.Node) bool {
			if k.Value == "id" || k.Value == "models" {
				return false
			}
			return h.held(k, "providers["+id+"]."+k.Value, whyKey)
		})
		return len(p.Content) == 2 // nothing but its id
	})
}

// mcp keeps an entry only to switch a server off.
func (h holder) mcp(list *yaml.Node) {
	list.Content = slices.DeleteFunc(list.Content, func(m *yaml.Node) bool {
		if text(m, "enabled") == "false" && len(m.Content) == 4 {
			return false
		}
		return h.held(m, "mcp["+text(m, "name")+"]", whyProcess)
	})
}

func (h holder) list(list *yaml.Node, judge func(*yaml.Node) (string, bool), key string) {
	list.Content = slices.DeleteFunc(list.Content, func(n *yaml.Node) bool {
		name, bad := judge(n)
		return bad && h.held(n, key+"["+name+"]", whyOutside)
	})
}

// outside reports whether a path leaves the project, links followed as far as
// they exist.
func (h holder) outside(path string) bool {
	return h.c.leaves(h.c.named(path, Origin{Layer: LayerProject, File: h.file}))
}

func (c *Config) leaves(path string) bool {
	if !inside(c.Root, path) {
		return true
	}
	for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return !inside(c.Root, real)
		}
	}
	return true
}

// references takes out values that would read the environment or a file
// outside the project.
func (h holder) references(n *yaml.Node, key string) {
	why := func(s string) string {
		if !refers(s) {
			return ""
		}
		for _, m := range reference().FindAllStringSubmatch(s, -1) {
			if m[1] == "env" {
				return "it would read the environment"
			}
			if h.c.leaves(h.c.resolvePath(m[2], Origin{Layer: LayerProject, File: h.file})) {
				return "it would read a file outside the project"
			}
		}
		return ""
	}
	switch n.Kind {
	case yaml.MappingNode:
		remove(n, func(k, v *yaml.Node) bool {
			path := strings.TrimPrefix(key+"."+k.Value, ".")
			if v.Kind != yaml.ScalarNode {
				h.references(v, path)
				return false
			}
			reason := why(v.Value)
			return reason != "" && h.held(k, path, reason)
		})
	case yaml.SequenceNode:
		n.Content = slices.DeleteFunc(n.Content, func(v *yaml.Node) bool {
			if v.Kind != yaml.ScalarNode {
				name := text(v, "id") + text(v, "name")
				h.references(v, key+"["+name+"]")
				return len(v.Content) == 0 || text(v, "id")+text(v, "name") != name
			}
			reason := why(v.Value)
			return reason != "" && h.held(v, key, reason)
		})
	case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
	}
}
