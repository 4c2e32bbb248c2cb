package tools

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Place is where a path leads.
type Place struct {
	// Path is absolute with all links resolved; it need not exist.
	Path string
	// Pattern is what a permission is asked for: Path relative to Root.
	Pattern string
	// External says the path is outside Directory and outside Root; it then
	// needs the permission "external_directory" for ExternalPattern.
	External        bool
	ExternalPattern string
}

// maxLinks is how many symbolic links one path may lead through.
const maxLinks = 64

// Resolve finds where path leads: from Directory if it is relative, from the
// home directory if it begins with ~/. Links are followed as the kernel would
// (".." after a link is the parent of its target), also those that lead to
// nothing: writing through a dangling link creates its target.
func Resolve(env *Env, path string) (Place, error) {
	if path == "" {
		return Place{}, tell("The path is empty. Give the path of a file or folder.")
	}
	if strings.ContainsRune(path, 0) {
		return Place{}, tell("The path holds a NUL byte.")
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		if home := getenv(env.Environ, "HOME"); home != "" {
			path = home + path[1:]
		}
	}
	if !filepath.IsAbs(path) {
		path = env.Directory + string(filepath.Separator) + path
	}
	real, err := followLinks(path)
	if err != nil {
		return Place{}, err
	}
	return place(env, real), nil
}

// place describes a path whose links are resolved.
func place(env *Env, real string) Place {
	p := Place{Path: real, Pattern: relative(env.Root, real)}
	if Inside(env.Directory, real) || Inside(env.Root, real) {
		return p
	}
	dir := real
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		dir = filepath.Dir(real)
	}
	p.External = true
	p.ExternalPattern = filepath.ToSlash(filepath.Join(dir, "*"))
	return p
}

// Access is what touching the place needs under the named permission.
func (p Place) Access(permission string, patterns ...string) []Access {
	var out []Access
	if p.External {
		out = append(out, Access{Permission: "external_directory", Patterns: []string{p.ExternalPattern}})
	}
	return append(out, Access{Permission: permission, Patterns: patterns})
}

// writes is the Access of a tool that writes the file at p.
func (p Place) writes() []Access {
	out := p.Access("edit", p.Pattern)
	last := &out[len(out)-1]
	last.Changes, last.Paths = true, []string{p.Path}
	return out
}

// Inside reports whether path is dir or below it. Both are absolute and clean.
func Inside(dir, path string) bool {
	if dir == "" {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// relative is path as seen from dir, with slashes; path itself if there is no
// way.
func relative(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(rel)
}

// followLinks walks an absolute path element by element. What does not exist
// is kept as it is written.
func followLinks(path string) (string, error) {
	done := filepath.VolumeName(path) + string(filepath.Separator)
	todo := strings.Split(filepath.ToSlash(path[len(filepath.VolumeName(path)):]), "/")
	links := 0
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		info, err := os.Lstat(next)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			if errors.Is(err, syscall.ENAMETOOLONG) {
				return "", tell("The path is too long for the file system: %s", cutText(path, 300))
			}
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", tell("The path leads through too many symbolic links: %s", path)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			done = filepath.VolumeName(target) + string(filepath.Separator)
		}
		todo = append(strings.Split(filepath.ToSlash(target), "/"), todo...)
	}
	return done, nil
}

// getenv finds the last value of name in a list of KEY=value strings.
func getenv(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if key, value, ok := strings.Cut(environ[i], "="); ok && key == name {
			return value
		}
	}
	return ""
}
