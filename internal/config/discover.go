package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// home is a folder in which people keep agents, commands and skills.
type home struct {
	dir     string
	project bool
}

// homes are those folders, lowest first: the user's, then the project's from
// the root down; rally's own above OpenCode's above Claude Code's.
func (c *Config) homes() []home {
	if c.opts.Hermetic {
		return nil
	}
	var out []home
	if c.opts.Home != "" {
		out = append(out, home{dir: filepath.Join(c.opts.Home, ".claude")})
	}
	for _, name := range []string{"opencode", "rally"} {
		if dir := c.opts.userDir(name); dir != "" {
			out = append(out, home{dir: dir})
		}
	}
	for _, dir := range c.projectDirs() {
		if dir == c.opts.Home {
			continue // its .claude is the user's, not a project's
		}
		for _, name := range []string{".claude", ".opencode", ".rally"} {
			out = append(out, home{dir: filepath.Join(dir, name), project: true})
		}
	}
	return out
}

// found is a file that discovery came upon.
type found struct {
	name    string // relative to its folder, without extension
	path    string
	project bool
	text    []byte
}

// Bounds of one discovery; a folder beyond them is cut and said so.
const (
	maxFiles   = 1000
	maxNesting = 8
)

// finder collects files and what is to be said about those left out.
type finder struct {
	c       *Config
	files   []found
	notices []Notice
}

func (f *finder) note(path string, line int, text string) {
	f.notices = append(f.notices, Notice{File: path, Line: line, Text: text})
}

// problem notes an error about a file, with the line if the error has one.
func (f *finder) problem(path string, err error) {
	var e *Error
	if errors.As(err, &e) {
		text := e.Message
		if e.Key != "" {
			text = e.Key + ": " + text
		}
		if e.Hint != "" {
			text += " (" + e.Hint + ")"
		}
		f.note(path, e.Line, text)
		return
	}
	f.note(path, 0, reason(err))
}

// find reads the files that accept names, in the folders of every home.
func (c *Config) find(folders []string, accept func(base string) bool) *finder {
	f := &finder{c: c}
	for _, h := range c.homes() {
		for _, folder := range folders {
			root := filepath.Join(h.dir, folder)
			f.walk(root, "", h.project, accept, 0)
		}
	}
	return f
}

// walk goes through a folder in the order of names. Links are followed, the
// depth bounds loops of them.
func (f *finder) walk(root, rel string, project bool, accept func(string) bool, depth int) {
	list, err := os.ReadDir(filepath.Join(root, rel))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && rel == "" {
			f.problem(root, err)
		}
		return
	}
	for _, entry := range list {
		name := filepath.Join(rel, entry.Name())
		path := filepath.Join(root, name)
		if len(f.files) >= maxFiles {
			f.note(root, 0, "has more files than are read; the rest is left out")
			return
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			f.problem(path, err)
		case info.IsDir():
			if depth < maxNesting {
				f.walk(root, name, project, accept, depth+1)
			}
		case accept(entry.Name()):
			f.take(path, name, project)
		}
	}
}

func (f *finder) take(path, name string, project bool) {
	if project && !f.c.Trusted && f.c.leaves(path) {
		f.note(path, 0, "is a link out of the project and was held back")
		return
	}
	b, err := readFile(path)
	if err != nil {
		f.problem(path, err)
		return
	}
	name = strings.TrimSuffix(filepath.ToSlash(name), filepath.Ext(name))
	f.files = append(f.files, found{name: name, path: path, project: project, text: b})
}

func markdown(base string) bool { return strings.HasSuffix(base, ".md") }

// put replaces the entry of the same name, or adds one.
func put[T any](list []T, item T, name func(T) string) []T {
	i := slices.IndexFunc(list, func(o T) bool { return name(o) == name(item) })
	if i < 0 {
		return append(list, item)
	}
	list[i] = item
	return list
}
