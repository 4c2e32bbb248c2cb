package config

import (
	_ "embed" // the defaults are a layer like any other
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed defaults.yaml
var defaults []byte

// Layer is where a value comes from, lowest first.
type Layer string

// The layers.
const (
	LayerDefault Layer = "default"
	LayerUser    Layer = "user"
	LayerProject Layer = "project"
	LayerFile    Layer = "file" // --config
	LayerEnv     Layer = "env"
	LayerFlag    Layer = "flag"
)

// Origin is the place a value comes from. File is the variable's name for
// the environment and the flag's key for flags.
type Origin struct {
	Layer Layer
	File  string
	Line  int
}

func (o Origin) String() string {
	switch {
	case o.Line > 0:
		return fmt.Sprintf("%s %s:%d", o.Layer, o.File, o.Line)
	case o.File != "":
		return string(o.Layer) + " " + o.File
	}
	return string(o.Layer)
}

// Options say what to read. Nothing is taken from the process itself.
type Options struct {
	Dir string // where the session works; absolute
	// Home is the user's home directory; XDGConfig is $XDG_CONFIG_HOME, or
	// empty for Home/.config.
	Home      string
	XDGConfig string
	// ConfigFile is what --config or RALLY_CONFIG names; empty for none.
	ConfigFile string
	// Hermetic leaves out every file but ConfigFile, all discovery, and the
	// environment's scalars.
	Hermetic bool
	// TrustProject is the flag or RALLY_TRUST_PROJECT.
	TrustProject bool
	Environ      []string // KEY=value, for {env:NAME} and RALLY_*
	// Flags are scalars by key path, such as "limits.cost".
	Flags map[string]string
}

func (o Options) userDir(name string) string {
	base := o.XDGConfig
	if base == "" {
		if o.Home == "" {
			return ""
		}
		base = filepath.Join(o.Home, ".config")
	}
	return filepath.Join(base, name)
}

func (o Options) env(name string) (string, bool) {
	for i := len(o.Environ) - 1; i >= 0; i-- {
		if key, value, ok := strings.Cut(o.Environ[i], "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}

// Load reads all layers. What is wrong in one of them is an *Error.
func Load(opts Options) (*Config, error) {
	dir, err := filepath.EvalSymlinks(opts.Dir)
	if err != nil {
		return nil, &Error{File: opts.Dir, Message: "cannot work in this directory: " + reason(err)}
	}
	c := &Config{Dir: dir, Root: Root(dir), opts: opts, origins: map[*yaml.Node]Origin{}, merged: &yaml.Node{Kind: yaml.MappingNode}}
	if err := c.layers(); err != nil {
		return nil, err
	}
	if err := c.decode(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) layers() error {
	if err := c.text(defaults, Origin{Layer: LayerDefault}); err != nil {
		return err
	}
	if !c.opts.Hermetic {
		if user := c.opts.userDir("rally"); user != "" {
			if err := c.file(filepath.Join(user, "config.yaml"), LayerUser, false); err != nil {
				return err
			}
		}
		c.trust()
		for _, dir := range c.projectDirs() {
			path := filepath.Join(dir, ".rally", "config.yaml")
			if _, err := os.Stat(path); err == nil && !c.Trusted && c.leaves(path) {
				c.Held = append(c.Held, Held{File: path, Key: "the file", Why: whyOutside})
				continue
			}
			if err := c.file(path, LayerProject, false); err != nil {
				return err
			}
		}
	}
	if c.opts.ConfigFile != "" {
		if err := c.file(c.opts.ConfigFile, LayerFile, true); err != nil {
			return err
		}
	}
	if !c.opts.Hermetic {
		if err := c.environment(); err != nil {
			return err
		}
	}
	return c.flags()
}

// projectDirs are the directories from the root down to where we work.
func (c *Config) projectDirs() []string {
	dirs := []string{c.Dir}
	for dir := c.Dir; dir != c.Root; {
		dir = filepath.Dir(dir)
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

// maxFile bounds what is read of one file.
const maxFile = 1 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%d bytes are more than the %d that are read", info.Size(), maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

func (c *Config) file(path string, layer Layer, must bool) error {
	b, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil
	}
	if err != nil {
		return &Error{File: path, Message: reason(err)}
	}
	return c.text(b, Origin{Layer: layer, File: path})
}

// reason is an error without the path, which the message names already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// text merges one layer of YAML.
func (c *Config) text(b []byte, origin Origin) error {
	node, err := parse(b, origin.File)
	if err != nil || node == nil {
		return err
	}
	return c.layer(node, origin)
}

func (c *Config) layer(node *yaml.Node, origin Origin) error {
	if err := check(node, reflect.TypeFor[Config](), origin.File, ""); err != nil {
		return err
	}
	c.remember(node, origin)
	if origin.Layer == LayerProject && !c.Trusted {
		c.hold(node, origin.File)
	}
	merge(c.merged, node, reflect.TypeFor[Config]())
	return nil
}

func (c *Config) remember(n *yaml.Node, origin Origin) {
	if n.Line > 0 && origin.Layer != LayerDefault {
		origin.Line = n.Line
	}
	c.origins[n] = origin
	for _, child := range n.Content {
		c.remember(child, origin)
	}
}

// Scalars lists the key paths that the environment and flags can set.
func Scalars() []string { return scalars(reflect.TypeFor[Config](), "") }

func scalars(t reflect.Type, prefix string) []string {
	var out []string
	for _, f := range fields(t) {
		ft := f.Type
		switch {
		case ft.Kind() == reflect.Struct:
			out = append(out, scalars(ft, prefix+f.key+".")...)
		case ft.Kind() != reflect.Slice && ft.Kind() != reflect.Map:
			out = append(out, prefix+f.key)
		}
	}
	return out
}

// EnvName is the variable that sets a scalar: limits.cost → RALLY_LIMITS_COST.
func EnvName(key string) string {
	return "RALLY_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func (c *Config) environment() error {
	for _, key := range Scalars() {
		name := EnvName(key)
		value, ok := c.opts.env(name)
		if !ok || value == "" {
			continue
		}
		if err := c.scalar(key, value, Origin{Layer: LayerEnv, File: name}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) flags() error {
	known := Scalars()
	keys := make([]string, 0, len(c.opts.Flags))
	for key := range c.opts.Flags {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if !slices.Contains(known, key) {
			return &Error{Key: key, Message: "unknown key", Hint: hint(Near(key, known))}
		}
		if err := c.scalar(key, c.opts.Flags[key], Origin{Layer: LayerFlag, File: key}); err != nil {
			return err
		}
	}
	return nil
}

// scalar merges one value as a layer of its own.
func (c *Config) scalar(key, value string, origin Origin) error {
	t := reflect.TypeFor[Config]()
	leaf := &yaml.Node{Kind: yaml.ScalarNode, Value: value}
	parts := strings.Split(key, ".")
	for _, part := range parts {
		t = fieldOf(t, part).Type
	}
	if t.Kind() == reflect.String {
		leaf.Tag = "!!str"
	}
	node := leaf
	for _, part := range slices.Backward(parts) {
		node = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: part}, node}}
	}
	if err := c.layer(node, origin); err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.File, e.Line = origin.File, 0
		}
		return err
	}
	return nil
}

// decode replaces references in the merged nodes and fills c.
func (c *Config) decode() error {
	final, err := c.expand()
	if err != nil {
		return err
	}
	problems := c.Providers // expand left them there
	c.Providers = nil
	if err := final.Decode(c); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	if err := c.validate(); err != nil {
		return err
	}
	for _, p := range problems {
		for i := range c.Providers {
			if c.Providers[i].ID == p.ID {
				c.Providers[i].Err = p.Err
			}
		}
	}
	for i := range c.Permission {
		c.Permission[i].Rule = ExpandHome(c.Permission[i].Rule, c.opts.Home)
	}
	if list := value(c.merged, "permission"); list != nil {
		for i, n := range list.Content {
			c.Permission[i].Layer = c.origins[n].Layer
		}
	}
	return nil
}

// Root is the top of the repository that dir is in, or dir itself: the
// nearest directory upward with a .git folder or file. Dir is a real path.
func Root(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}
