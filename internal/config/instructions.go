package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Instruction is a file whose text every request begins with.
type Instruction struct {
	Path string // absolute
	Text string
}

// maxInstruction bounds one instruction file: it goes into every request.
const maxInstruction = 256 << 10

// FindInstructions reads the instruction files, the most general first: the
// user's, the project's from the root down, those that config names.
func (c *Config) FindInstructions() ([]Instruction, []Notice) {
	r := instructions{finder: finder{c: c}}
	if !c.opts.Hermetic {
		r.first(c.userInstructions(), false)
		for _, dir := range c.projectDirs() {
			r.first(InstructionFiles(dir), true)
		}
	}
	for i, pattern := range c.Instructions {
		r.configured(pattern, c.origins[entries(c.merged, "instructions")[i]])
	}
	return r.list, r.notices
}

// InstructionFiles are the names that count in a directory, the first that is
// there wins.
func InstructionFiles(dir string) []string {
	return []string{filepath.Join(dir, "AGENTS.md"), filepath.Join(dir, "CLAUDE.md")}
}

func (c *Config) userInstructions() []string {
	var out []string
	for _, name := range []string{"rally", "opencode"} {
		if dir := c.opts.userDir(name); dir != "" {
			out = append(out, filepath.Join(dir, "AGENTS.md"))
		}
	}
	if c.opts.Home != "" {
		out = append(out, filepath.Join(c.opts.Home, ".claude", "CLAUDE.md"))
	}
	return out
}

// instructions collects the files, each once.
type instructions struct {
	finder
	list []Instruction
}

// first reads the first of paths that is a file.
func (r *instructions) first(paths []string, project bool) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil && !info.Mode().IsRegular() {
			r.note(path, 0, "is not a file and is ignored")
			continue
		}
		r.read(path, project)
		return
	}
}

func (r *instructions) read(path string, project bool) {
	if slices.ContainsFunc(r.list, func(i Instruction) bool { return i.Path == path }) {
		return
	}
	if project && !r.c.Trusted && r.c.leaves(path) {
		r.note(path, 0, "is a link out of the project and was held back")
		return
	}
	text, cut, err := readStart(path)
	if err != nil {
		r.problem(path, err)
		return
	}
	if cut {
		r.note(path, 0, fmt.Sprintf("only its first %d KiB are used", maxInstruction>>10))
	}
	r.list = append(r.list, Instruction{Path: path, Text: text})
}

// readStart reads at most maxInstruction bytes and says whether there are more.
func readStart(path string) (string, bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = f.Close() }() // only read from
	b, err := io.ReadAll(io.LimitReader(f, maxInstruction+1))
	if err != nil {
		return "", false, err
	}
	cut := len(b) > maxInstruction
	if cut {
		b = b[:maxInstruction]
		for len(b) > 0 && !utf8.RuneStart(b[len(b)-1]) {
			b = b[:len(b)-1]
		}
	}
	return strings.ToValidUTF8(strings.TrimPrefix(string(b), "\ufeff"), "\ufffd"), cut, nil
}

// configured reads what an entry of `instructions` names: a path or a glob,
// relative ones as seen from each directory down to where we work.
func (r *instructions) configured(pattern string, origin Origin) {
	if strings.Contains(pattern, "://") {
		r.note(origin.File, origin.Line, "instructions "+pattern+": addresses are not fetched")
		return
	}
	project := origin.Layer == LayerProject
	bases := []string{r.c.named(pattern, origin)}
	if !filepath.IsAbs(pattern) && !strings.HasPrefix(pattern, "~/") && !r.c.opts.Hermetic {
		for _, dir := range r.c.projectDirs() {
			bases = append(bases, filepath.Join(dir, pattern))
		}
	}
	hits := 0
	for _, base := range bases {
		paths, err := filepath.Glob(base)
		if err != nil {
			r.note(origin.File, origin.Line, "instructions "+pattern+": "+err.Error())
			return
		}
		for _, path := range paths {
			hits++
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				r.note(path, 0, "is not a file and is ignored")
				continue
			}
			r.read(path, project || inside(r.c.Root, path))
		}
	}
	if hits == 0 {
		r.note(origin.File, origin.Line, "instructions "+pattern+": no such file")
	}
}
