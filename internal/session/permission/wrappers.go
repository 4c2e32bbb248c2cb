package permission

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// wrapper says how to find the command behind a program that starts it. An
// option that is not in here makes the script unreadable.
type wrapper struct {
	flags    string   // short options without a value
	values   string   // short options with a value
	long     []string // long options without a value
	valued   []string // long options whose value is the next word
	operands int      // words before the command
	assigns  bool     // NAME=value words before the command
	optional bool     // -10 and the like are options
}

// wrapperOf knows the programs that are looked through.
func wrapperOf(name string) (wrapper, bool) {
	switch name {
	case "nohup", "builtin", "busybox", "toybox":
		return wrapper{}, true
	case "command":
		return wrapper{flags: "p"}, true
	case "exec":
		return wrapper{flags: "cl", values: "a"}, true
	case "setsid":
		return wrapper{flags: "cfw", long: []string{"ctty", "fork", "wait"}}, true
	case "timeout":
		return wrapper{flags: "vfp", values: "ks", operands: 1, long: []string{"preserve-status", "foreground", "verbose"}, valued: []string{"kill-after", "signal"}}, true
	case "nice":
		return wrapper{values: "n", valued: []string{"adjustment"}, optional: true}, true
	case "ionice":
		return wrapper{flags: "t", values: "cn", valued: []string{"class", "classdata"}}, true
	case "stdbuf":
		return wrapper{values: "ioe", valued: []string{"input", "output", "error"}}, true
	case "time":
		return wrapper{flags: "apqv", values: "fo", long: []string{"append", "portability", "quiet", "verbose"}, valued: []string{"format", "output"}}, true
	case "env":
		return wrapper{flags: "i0v", values: "uC", assigns: true, long: []string{"ignore-environment", "null", "debug"}, valued: []string{"unset", "chdir"}}, true
	case "sudo":
		return wrapper{flags: "AbEHnPSkB", values: "ugpChTrtDRU", assigns: true, long: []string{"preserve-env", "non-interactive", "background", "set-home", "stdin"}, valued: []string{"user", "group", "prompt", "host", "chdir"}}, true
	case "doas":
		return wrapper{flags: "n", values: "uC"}, true
	case "xargs":
		return wrapper{flags: "0rtpxo", values: "adEILnPs", long: []string{"null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"}, valued: []string{"arg-file", "delimiter", "max-args", "max-procs", "max-chars"}}, true
	}
	return wrapper{}, false
}

// opaque programs and builtins run what their arguments say in ways that are
// not worth reading.
func opaque(name string) bool {
	switch name {
	case "eval", "alias", "compgen", "complete", "compopt", "bind", "fc", "enable",
		"export", "declare", "local", "readonly", "typeset", "nameref", "let",
		"zsh", "ksh", "mksh", "fish", "csh", "tcsh",
		"watch", "parallel", "su", "runuser", "script", "chroot", "unshare", "nsenter", "pkexec", "systemd-run", "flock", "entr",
		"strace", "ltrace", "gdb", "taskset", "chrt", "numactl", "unbuffer", "expect":
		return true
	}
	return false
}

// surroundings are what counts for a command beside its words.
type surroundings struct {
	redirects []*syntax.Redirect
	appended  bool   // words unknown here are added to it
	mark      string // a text in it that is replaced by words unknown here
	posix     bool   // the shell it starts is not bash
	wrappers  int    // how many are around it
}

// call takes in one simple command; words has at least one element.
func (r *reader) call(words []*syntax.Word, ctx surroundings) {
	name, ok := static(words[0])
	if !ok || ctx.marked(name) || ctx.wrappers > maxWrappers {
		r.unreadable()
		r.add(r.text(words))
		return
	}
	base := path.Base(name)
	switch base {
	case "cd", "chdir", "pushd", "popd":
		r.directory(words[1:])
		return
	}
	r.add(r.text(words))
	if base != name {
		r.out.Also = append(r.out.Also, strings.TrimSpace(base+" "+r.text(words[1:])))
	}
	if w, ok := wrapperOf(base); ok {
		r.through(base, w, words, ctx)
		return
	}
	r.paths(operands(base, words[1:]))
	switch base {
	case "sh", "bash", "dash", "ash", "rbash":
		ctx.posix = !strings.Contains(base, "bash")
		r.shell(words[1:], ctx)
	case "find":
		r.find(words[1:], ctx)
	default:
		if opaque(base) || !r.builtin(base, words[1:]) {
			r.unreadable()
		}
	}
}

func (c surroundings) marked(s string) bool { return c.mark != "" && strings.Contains(s, c.mark) }

// operands leaves out the words that are text or patterns to a program, not
// paths: `sed /x/d` does not touch /x.
func operands(name string, words []*syntax.Word) []*syntax.Word {
	switch name {
	case "echo", "printf", "export", "expr", "tr", "test", "[", "trap", "eval", "kill", "sleep", "seq", "basename", "dirname":
		return nil
	case "sed", "awk", "gawk", "mawk", "grep", "egrep", "fgrep", "rg", "ag", "ack", "jq", "yq":
	default:
		return words
	}
	var out []*syntax.Word
	given := false // the script or pattern came, by option or as a word
	for i := 0; i < len(words); i++ {
		value, ok := static(words[i])
		switch {
		case ok && (value == "-e" || value == "--expression" || value == "--regexp"):
			given = true
			i++
		case ok && value == "-f":
			given = true
		case ok && strings.HasPrefix(value, "-") && value != "-":
			out = append(out, words[i])
		case !given:
			given = true
		default:
			out = append(out, words[i])
		}
	}
	return out
}

// through finds the command behind a wrapper.
func (r *reader) through(name string, w wrapper, words []*syntax.Word, ctx surroundings) {
	i, operandsLeft := 1, w.operands
	for ; i < len(words); i++ {
		value, ok := static(words[i])
		if !ok || ctx.marked(value) {
			r.unreadable()
			return
		}
		if name == "command" && (value == "-v" || value == "-V") {
			return // looks a name up and runs nothing
		}
		if value == "--" {
			i++
			break
		}
		if len(value) > 1 && value[0] == '-' {
			took, ok := w.option(value)
			if name == "xargs" && !ok {
				ok = xargsOption(value, &ctx)
			}
			if !ok {
				r.unreadable()
				return
			}
			if name == "xargs" {
				ctx.marks(value, words[i+1:])
			}
			i += took
			continue
		}
		if key, _, found := strings.Cut(value, "="); found && w.assigns {
			r.environment(key)
			continue
		}
		if value == "-" && name == "env" {
			continue
		}
		break
	}
	i += operandsLeft
	if name == "env" || name == "sudo" { // assignments may follow --
		for ; i < len(words); i++ {
			value, ok := static(words[i])
			key, _, found := strings.Cut(value, "=")
			if !ok || !found {
				break
			}
			r.environment(key)
		}
	}
	r.behind(name, words, i, ctx)
}

// behind takes in the command at word i of a wrapper.
func (r *reader) behind(name string, words []*syntax.Word, i int, ctx surroundings) {
	if i > len(words) {
		i = len(words)
	}
	r.paths(words[1:i])
	if name == "xargs" {
		ctx.appended = true
	}
	ctx.wrappers++
	if i < len(words) {
		r.call(words[i:], ctx)
		return
	}
	if ctx.appended && name != "xargs" { // what is added would be the command
		r.unreadable()
	}
}

// environment notes a variable that a wrapper sets.
func (r *reader) environment(name string) {
	r.doubtful[name] = true
	if !isName(name) || steers(name) {
		r.unreadable()
	}
}

// option reports how many further words an option takes, and whether it is
// known.
func (w wrapper) option(value string) (int, bool) {
	if long, ok := strings.CutPrefix(value, "--"); ok {
		key, _, attached := strings.Cut(long, "=")
		switch {
		case slices.Contains(w.valued, key):
			return btoi(!attached), true
		case slices.Contains(w.long, key):
			return 0, true
		}
		return 0, false
	}
	if w.optional && isNumber(strings.TrimLeft(value, "-")) {
		return 0, true
	}
	for j := 1; j < len(value); j++ {
		switch {
		case strings.IndexByte(w.values, value[j]) >= 0:
			return btoi(j == len(value)-1), true
		case strings.IndexByte(w.flags, value[j]) < 0:
			return 0, false
		}
	}
	return 0, true
}

// xargsOption knows the options of xargs whose value is optional and attached.
func xargsOption(value string, ctx *surroundings) bool {
	for _, short := range []string{"-i", "--replace"} {
		if rest, ok := strings.CutPrefix(value, short); ok {
			ctx.mark = strings.TrimPrefix(rest, "=")
			if ctx.mark == "" {
				ctx.mark = "{}"
			}
			return true
		}
	}
	for _, short := range []string{"-e", "-l", "--eof", "--max-lines"} {
		if strings.HasPrefix(value, short) {
			return true
		}
	}
	return false
}

// marks notes the text that `xargs -I` replaces.
func (c *surroundings) marks(option string, rest []*syntax.Word) {
	_, mark, found := strings.Cut(option, "I")
	if !found || strings.HasPrefix(option, "--") || strings.ContainsAny(option, "adELnPs") && !strings.HasPrefix(option, "-I") {
		return
	}
	if mark == "" && len(rest) > 0 {
		mark, _ = static(rest[0])
	}
	c.mark = mark
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
