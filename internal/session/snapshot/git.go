package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// settings hold whatever the user, the project or a later git would like
// better: contents must come back as they were, and no program may be started
// on their behalf.
var settings = []string{
	"core.autocrlf=false", "core.safecrlf=false", "core.fileMode=true", "core.symlinks=true", "core.longpaths=true",
	"core.quotePath=false", "core.fsmonitor=false", "core.untrackedCache=false", "core.hooksPath=" + os.DevNull,
	"core.excludesFile=" + os.DevNull, "core.attributesFile=" + os.DevNull, "core.compression=1", "core.warnAmbiguousRefs=false",
	"gc.auto=0", "maintenance.auto=false", "commit.gpgSign=false", "diff.external=", "advice.ignoredHook=false",
}

// call is one run of git.
type call struct {
	args     []string
	dir      string // to run in; the work directory if empty
	gitDir   string // the shadow repository if empty
	workTree string // the work directory if empty
	index    string // the repository's own if empty
	stdin    []byte
	literal  bool // paths among the arguments are no patterns
	// read takes the output. When it returns an error git is ended.
	read func(io.Reader) error
}

// killWait is how long after its end git's pipes may stay open.
const killWait = 500 * time.Millisecond

// run runs git to its end, or ends its whole process group with ctx.
func (t *Tree) run(ctx context.Context, c call) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var args []string
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	cmd := exec.CommandContext(ctx, t.git, append(args, c.args...)...)
	cmd.Env, cmd.Dir = t.environ(c), or(c.dir, t.opts.WorkTree)
	cmd.Stdin = bytes.NewReader(c.stdin)
	stderr := &head{max: 2 << 10}
	cmd.Stderr = stderr
	cmd.WaitDelay = killWait
	ownGroup(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("git %s: %w", c.args[0], err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("git %s: %w", c.args[0], err)
	}
	// StdoutPipe is closed by Wait alone, and what git started may keep it
	// open after the kill.
	unblock := context.AfterFunc(ctx, func() { _ = out.Close() })
	defer unblock()
	var readErr error
	if c.read != nil {
		readErr = c.read(out)
	} else {
		_, readErr = io.Copy(io.Discard, out)
	}
	ended := ctx.Err() != nil
	if readErr != nil {
		cancel()
	}
	err = cmd.Wait()
	switch {
	case readErr != nil && !ended:
		return readErr
	case err != nil:
		return &gitError{command: c.args[0], stderr: strings.TrimSpace(stderr.String()), err: err}
	}
	return readErr
}

// errEnough is what a reader returns that has seen all it wants.
var errEnough = errors.New("enough was read")

// gitError is a git that failed.
type gitError struct {
	command, stderr string
	err             error
}

func (e *gitError) Error() string {
	if e.stderr == "" {
		return fmt.Sprintf("git %s: %v", e.command, e.err)
	}
	return fmt.Sprintf("git %s: %v: %s", e.command, e.err, e.stderr)
}

func (e *gitError) Unwrap() error { return e.err }

// exitCode is the status of a git that ended by itself, else -1.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// output is what git prints.
func (t *Tree) output(ctx context.Context, c call) ([]byte, error) {
	var out []byte
	c.read = func(r io.Reader) (err error) {
		out, err = io.ReadAll(r)
		return err
	}
	err := t.run(ctx, c)
	return out, err
}

// environ is the caller's, without any of git's variables, and ours.
func (t *Tree) environ(c call) []string {
	var env []string
	for _, kv := range t.opts.Environ {
		if !strings.HasPrefix(kv, "GIT_") {
			env = append(env, kv)
		}
	}
	gitDir := or(c.gitDir, t.repo)
	// Git takes and gives back a quarter of a megabyte for each object it
	// writes; keeping it makes a first snapshot several times as quick.
	env = append(env, "MALLOC_TRIM_THRESHOLD_=268435456", "MALLOC_TOP_PAD_=1048576", "MALLOC_MMAP_THRESHOLD_=33554432")
	env = append(env, "LC_ALL=C", "HOME="+t.repo, "XDG_CONFIG_HOME="+t.repo,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_ATTR_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_DIR="+gitDir, "GIT_WORK_TREE="+or(c.workTree, t.opts.WorkTree))
	if c.literal {
		env = append(env, "GIT_LITERAL_PATHSPECS=1")
	}
	if c.index != "" {
		env = append(env, "GIT_INDEX_FILE="+c.index)
	}
	return env
}

// environ is the last value of name in env.
func environ(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if key, value, ok := strings.Cut(env[i], "="); ok && key == name {
			return value
		}
	}
	return ""
}

// lookPath finds git in the PATH of env; never by a relative entry, which the
// project could fill.
func lookPath(env []string) string {
	for _, dir := range filepath.SplitList(environ(env, "PATH")) {
		path := filepath.Join(dir, "git")
		if info, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// head keeps the first bytes written to it and drops the rest.
type head struct {
	bytes.Buffer
	max int
}

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), h.max-h.Len())])
	return len(p), nil
}
