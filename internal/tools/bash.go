package tools

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"
	"time"

	"rally/internal/session"
)

//go:embed bash.md
var bashText string

// How long a command may run.
const (
	defaultTimeout = 120_000 // milliseconds
	maxTimeout     = 600_000
)

const bashSchema = `{"type":"object","properties":{
"command":{"type":"string","description":"The command to run","minLength":1},
"timeout":{"type":"integer","description":"Milliseconds after which it is ended; 120000 if absent, 600000 at most","minimum":1},
"workdir":{"type":"string","description":"The folder to run in; the session's directory if absent"},
"description":{"type":"string","description":"What it does, in five to ten words"},
"background":{"type":"boolean","description":"Return at once with an id for bash_output and bash_kill; ends with the turn"}},
"required":["command"],"additionalProperties":false}`

type bashArgs struct {
	Command     string `json:"command"`
	Timeout     int64  `json:"timeout"`
	Workdir     string `json:"workdir"`
	Description string `json:"description"`
	Background  bool   `json:"background"`
}

func newBash() Tool {
	return tool[bashArgs]{name: "bash", text: bashText, schema: bashSchema, access: bashAccess, run: runBash}
}

func (a bashArgs) dir(env *Env) (Place, error) {
	if a.Workdir == "" {
		return place(env, env.Directory), nil
	}
	return Resolve(env, a.Workdir)
}

func bashAccess(env *Env, args bashArgs) ([]Access, error) {
	if strings.ContainsRune(args.Command, 0) {
		return nil, tell("The command holds a NUL byte, which no shell takes. Write it without.")
	}
	dir, err := args.dir(env)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir.Path); err != nil || !info.IsDir() {
		return nil, tell("The workdir is not a folder: %s", dir.Path)
	}
	out := dir.Access("bash")
	last := &out[len(out)-1]
	last.Script, last.Dir, last.Changes = args.Command, dir.Path, true
	return out, nil
}

func (a bashArgs) script(env *Env) (Script, error) {
	dir, err := a.dir(env)
	if err != nil {
		return Script{}, err
	}
	return Script{
		Shell: env.Shell, Command: a.Command, Dir: dir.Path, Environ: env.Environ,
		Mark: fmt.Sprintf("%s/%s/%d", env.SessionID, env.CallID, os.Getpid()),
	}, nil
}

func (a bashArgs) title() string {
	if a.Description != "" {
		return a.Description
	}
	return a.Command
}

func runBash(ctx context.Context, env *Env, args bashArgs) (Result, error) {
	script, err := args.script(env)
	if err != nil {
		return Result{}, err
	}
	if args.Background {
		return startJob(ctx, env, script, args)
	}
	timeout := args.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	timeout = min(timeout, maxTimeout)
	script.Timeout = time.Duration(timeout) * time.Millisecond
	out := newCapture(env)
	script.Output = out
	exit, err := script.Run(ctx)
	if err != nil {
		_, _, _ = out.end()
		return Result{}, tell("The command could not be run: %v", err)
	}
	text, path, cut := out.end()
	text = exit.report(text, timeout)
	meta := exit.metadata(cut, path)
	meta.Set("output", tailLines(text, env.Limits.lines(), previewBytes))
	if args.Description != "" {
		meta.Set("description", args.Description)
	}
	return Result{Output: text, Title: args.title(), Metadata: meta, Bounded: true}, nil
}

// report is what the model reads: the output, then how it ended.
func (e Exit) report(text string, timeout int64) string {
	if strings.TrimSpace(text) == "" {
		text = "(no output)"
	}
	var notes []string
	switch {
	case e.TimedOut:
		notes = append(notes, fmt.Sprintf("The command was ended after its timeout of %d ms. If it needs longer and waits for no input, "+
			"run it again with a larger timeout (at most %d) or with background: true.", timeout, maxTimeout))
	case e.Aborted:
		notes = append(notes, "The command was aborted.")
	case e.Signal != 0:
		notes = append(notes, fmt.Sprintf("Exit code: %d (ended by signal %d, %s)", e.Code, int(e.Signal), e.Signal))
	default:
		notes = append(notes, fmt.Sprintf("Exit code: %d", e.Code))
	}
	if len(e.Leftovers) > 0 {
		notes = append(notes, "Processes it left running were ended: "+strings.Join(e.Leftovers, "; ")+
			". To keep one while you work, run it with background: true.")
	}
	return strings.TrimRight(text, "\n") + "\n\n<shell_metadata>\n" + strings.Join(notes, "\n") + "\n</shell_metadata>"
}

func (e Exit) metadata(cut bool, path string) session.Metadata {
	meta := session.Metadata{}
	meta.Set("truncated", cut)
	if path != "" {
		meta.Set("outputPath", path)
	}
	if e.TimedOut || e.Aborted {
		meta.Set("exit", nil)
		meta.Set("timeout", e.TimedOut)
	} else {
		meta.Set("exit", e.Code)
	}
	if e.Signal != 0 {
		meta.Set("signal", e.Signal.String())
	}
	return meta
}
