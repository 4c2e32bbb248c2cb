package permission

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// builtin takes in the builtins that run or evaluate what they are given, and
// reports whether it could be read. Other names are always readable.
func (r *reader) builtin(name string, args []*syntax.Word) bool {
	switch name {
	case "trap":
		return r.trap(args)
	case "source", ".":
		return len(args) == 0 || sourced(args)
	case "mapfile", "readarray":
		return r.setsNames(args) && !hasOption(args, 'C')
	case "read", "unset", "getopts", "wait":
		return r.setsNames(args)
	case "printf":
		return printed(args)
	case "test", "[":
		return tested(args)
	case "hash":
		return !hasOption(args, 'p')
	case "jobs":
		return !hasOption(args, 'x')
	case "set":
		return !hasOption(args, 'k')
	}
	return true
}

// trap reads the script that a trap holds.
func (r *reader) trap(args []*syntax.Word) bool {
	for len(args) > 0 {
		value, ok := static(args[0])
		if !ok {
			return false
		}
		args = args[1:]
		switch {
		case value == "--" || value == "-p" || value == "-l":
			continue
		case value == "" || value == "-" || isNumber(value):
		case len(args) > 0:
			r.inner(value, r.posix)
		}
		return true
	}
	return true
}

// sourced reports whether `source` names a plain file. What is in it is not
// looked at, as with any program that a command names.
func sourced(args []*syntax.Word) bool {
	value, ok := static(args[0])
	return ok && !device(value)
}

// setsNames checks the words of builtins that take names of variables: a
// subscript in one is evaluated.
func (r *reader) setsNames(args []*syntax.Word) bool {
	for _, w := range args {
		value, ok := static(w)
		if !ok || strings.Contains(value, "[") {
			return false
		}
	}
	return true
}

// printed checks that printf -v, if it is there, names a plain variable.
func printed(args []*syntax.Word) bool {
	if len(args) == 0 {
		return true
	}
	first, ok := static(args[0])
	if !ok {
		return anchored(args[0])
	}
	if name, attached := strings.CutPrefix(first, "-v"); attached && name != "" {
		return isName(name)
	}
	if first != "-v" {
		return true
	}
	if len(args) < 2 {
		return true
	}
	name, ok := static(args[1])
	return ok && isName(name)
}

// tested checks that no -v in a test evaluates a subscript. A quoted operand
// that expands may be -v itself, so it must not stand before one that has a
// bracket.
func tested(args []*syntax.Word) bool {
	for i, w := range args {
		value, ok := static(w)
		if !ok || value != "-v" && value != "-R" || i+1 >= len(args) {
			continue
		}
		next, ok := static(args[i+1])
		if !ok || strings.Contains(strings.TrimSuffix(next, "]"), "[") {
			return false
		}
	}
	for i, w := range args {
		if _, ok := static(w); ok || i+1 >= len(args) {
			continue
		}
		if next, ok := static(args[i+1]); ok && strings.Contains(next, "[") {
			return false
		}
	}
	return true
}

// hasOption reports whether one of the words is, or may become, the option.
func hasOption(args []*syntax.Word, option byte) bool {
	for _, w := range args {
		value, ok := static(w)
		if !ok && !anchored(w) {
			return true
		}
		if len(value) > 1 && value[0] == '-' && strings.IndexByte(value[1:], option) >= 0 {
			return true
		}
	}
	return false
}

// maxDirs bounds the directories that a script may be in.
const maxDirs = 16

// directory follows cd and its like: no program runs, but relative paths
// after it may be meant from there.
func (r *reader) directory(args []*syntax.Word) {
	target := "~"
	for _, w := range args {
		value, ok := static(w)
		if !ok {
			r.unreadable()
			r.paths([]*syntax.Word{w})
			return
		}
		if value == "-" || strings.HasPrefix(value, "+") {
			return // back to where the script was before
		}
		if strings.HasPrefix(value, "-") {
			continue
		}
		target = named(w, value)
		break
	}
	if r.repeats && strings.HasPrefix(path.Clean(target), "..") {
		r.unreadable() // how far up depends on how often
	}
	reached := r.from(target)
	r.out.Paths = append(r.out.Paths, reached...)
	r.dirs = unique(append(r.dirs, reached...))
	if len(r.dirs) > maxDirs {
		r.dirs = r.dirs[:maxDirs]
		r.unreadable()
	}
}
