package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// How a command is ended, and how long what it left behind may take.
const (
	killGrace  = 2 * time.Second        // from TERM to KILL
	settleTime = 150 * time.Millisecond // for leftovers that are about to end
	drainTime  = 200 * time.Millisecond // for output after the last process
	pollEvery  = 10 * time.Millisecond
)

// markName is an environment variable that all descendants of a script carry.
const markName = "RALLY_CALL"

// Script is a shell command to run.
//
// It runs in its own session and process group, so without a terminal, with
// stdin at its end. On Linux the kernel kills the shell if this process dies.
type Script struct {
	Shell   string
	Command string
	Dir     string
	Environ []string
	// Mark is unique among the scripts that run on this machine; it is put
	// into the environment, so that descendants which left the group and the
	// session are found.
	Mark    string
	Timeout time.Duration // 0: none
	// Output gets what the script prints, both streams in order, from one
	// goroutine, until Run returns. After an error of it nobody reads any
	// more, and the script finds its output closed.
	Output io.Writer
}

// Exit is how a script ended.
type Exit struct {
	Code     int            // of the shell; 128+n after signal n
	Signal   syscall.Signal // 0 unless a signal ended the shell
	TimedOut bool           // we ended it
	Aborted  bool           // the context ended, so we ended it
	// Leftovers are processes that outlived the shell, as "PID command"; they
	// were ended.
	Leftovers []string
}

// Run runs the script until its shell ends. A process left in the background
// never holds the call: it is ended and named in Exit. What a timeout or the
// context's end cuts off gets TERM and, two seconds later, KILL.
//
// Leftovers are found by process group, session and Mark (the last one on
// Linux only). One that left all three (setsid with an emptied environment,
// another user's process) is not. The error is that the script could not be
// started, or Output's.
func (s Script) Run(ctx context.Context) (Exit, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return Exit{}, err
	}
	defer func() { _ = read.Close() }() // closing a pipe end loses nothing
	//nolint:gosec,noctx // running commands is what it is for; their end is ours to order
	cmd := exec.Command(s.Shell, "-c", s.Command)
	cmd.Dir = s.Dir
	cmd.Env = append(s.Environ[:len(s.Environ):len(s.Environ)], markName+"="+s.Mark)
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = sysProcAttr()

	started, ended := make(chan error, 1), make(chan error, 1)
	go startAndWait(cmd, started, ended)
	err = <-started
	_ = write.Close() // the child has its own
	if err != nil {
		return Exit{}, fmt.Errorf("start %s in %s: %w", s.Shell, s.Dir, err)
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.CopyBuffer(onlyWriter{s.Output}, onlyReader{read}, make([]byte, 64<<10))
		if err != nil {
			_ = read.Close() // nobody reads any more: the script must not wait for room in the pipe
		}
		copied <- err
	}()
	group := processes{leader: cmd.Process.Pid, mark: s.Mark}
	var out Exit
	status := s.wait(ctx, group, ended, &out)
	out.Leftovers = group.endLeftovers()
	out.status(cmd.ProcessState, status)
	return out, drain(read, copied)
}

// startAndWait keeps the thread that started the child until the child ends:
// the kernel sends the parent-death signal when that thread dies, and the
// runtime may end a thread that no goroutine holds.
func startAndWait(cmd *exec.Cmd, started, ended chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err == nil {
		ended <- cmd.Wait()
	}
}

// wait returns when the shell has ended, by itself or by us.
func (s Script) wait(ctx context.Context, group processes, ended <-chan error, out *Exit) error {
	var timeout <-chan time.Time
	if s.Timeout > 0 {
		t := time.NewTimer(s.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case err := <-ended:
		return err
	case <-timeout:
		out.TimedOut = true
	case <-ctx.Done():
		out.Aborted = true
	}
	group.signal(syscall.SIGTERM)
	kill := time.NewTimer(killGrace)
	defer kill.Stop()
	select {
	case err := <-ended:
		return err
	case <-kill.C:
	}
	group.signal(syscall.SIGKILL)
	return <-ended
}

func (e *Exit) status(state *os.ProcessState, err error) {
	if state == nil {
		e.Code = -1
		return
	}
	e.Code = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal, e.Code = ws.Signal(), 128+int(ws.Signal())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && e.Code == 0 {
		e.Code = -1
	}
}

// drain waits for the end of the output. A process that could not be found
// may hold the pipe open: it gets drainTime.
func drain(read *os.File, copied <-chan error) error {
	late := time.NewTimer(drainTime)
	defer late.Stop()
	select {
	case err := <-copied:
		return err
	case <-late.C:
	}
	// Output still flows: stop at what has come.
	_ = read.SetReadDeadline(time.Unix(1, 0))
	err := <-copied
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// onlyWriter and onlyReader keep io.Copy from splicing around the buffer.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// endLeftovers ends what outlived the shell and names it. Those that end by
// themselves in a moment are not worth a word.
func (p processes) endLeftovers() []string {
	live := p.waitGone(settleTime)
	if len(live) == 0 {
		return nil
	}
	names := make([]string, len(live))
	for i, l := range live {
		names[i] = l.String()
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, l := range live {
			p.send(l, sig)
		}
		if live = p.waitGone(killGrace); len(live) == 0 {
			return names
		}
	}
	for range 50 { // it forks faster than we look
		for _, l := range live {
			p.send(l, syscall.SIGKILL)
		}
		if live = p.find(); len(live) == 0 {
			break
		}
	}
	return names
}

// waitGone looks until nothing is left or the time is over, and returns what
// is left.
func (p processes) waitGone(limit time.Duration) []process {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		live := p.find()
		if len(live) == 0 {
			return nil
		}
		select {
		case <-deadline.C:
			return p.find()
		case <-tick.C:
		}
	}
}
