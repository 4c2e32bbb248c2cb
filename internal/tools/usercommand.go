package tools

import (
	"context"
	"fmt"
	"io"
	"os"
)

// RunUserCommand runs a command for the user in env.Directory, without a
// timeout: what it prints goes to out as it comes, and bounded into the
// result, in the shape of a bash call. The error is that it could not be
// started or that out could not be written.
func RunUserCommand(ctx context.Context, env *Env, command string, out io.Writer) (Result, Exit, error) {
	kept := newCapture(env)
	script := Script{
		Shell: env.Shell, Command: command, Dir: env.Directory, Environ: env.Environ,
		Mark: fmt.Sprintf("%s/%s/%d", env.SessionID, env.CallID, os.Getpid()), Output: io.MultiWriter(kept, out),
	}
	exit, err := script.Run(ctx)
	text, path, cut := kept.end()
	if err != nil {
		return Result{}, exit, err
	}
	text = exit.report(text, 0)
	meta := exit.metadata(cut, path)
	meta.Set("output", tailLines(text, env.Limits.lines(), previewBytes))
	return Result{Output: text, Title: command, Metadata: meta, Bounded: true}, exit, nil
}
