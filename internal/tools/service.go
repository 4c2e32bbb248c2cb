package tools

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Service is a program that runs beside the calls of a session until it is
// ended: an MCP server. Like a Script it has its own session and process
// group, and on Linux the kernel kills it if this process dies.
type Service struct {
	cmd   *exec.Cmd
	group processes
	term  sync.Once
	ended chan struct{} // closed after how is set
	how   string
}

// StartService starts cmd, whose SysProcAttr and Env's mark it sets. mark is
// unique among what runs on this machine (see Script). The standard streams
// of cmd must be files or nil: with others its end would wait for whatever a
// descendant holds open.
//
// End must be called, also when the program ended by itself.
func StartService(cmd *exec.Cmd, mark string) (*Service, error) {
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], markName+"="+mark)
	cmd.SysProcAttr = sysProcAttr()
	started, exited := make(chan error, 1), make(chan error, 1)
	go startAndWait(cmd, started, exited)
	if err := <-started; err != nil {
		return nil, err
	}
	s := &Service{cmd: cmd, group: processes{leader: cmd.Process.Pid, mark: mark}, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		err := <-exited
		s.how = endOf(cmd, err)
		// Now, while the number cannot belong to somebody else yet.
		s.group.endLeftovers()
	}()
	return s, nil
}

// endOf is how a program ended, for people: "exit status 3".
func endOf(cmd *exec.Cmd, err error) string {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err.Error()
	}
	return cmd.ProcessState.String()
}

// Ended is closed when the program and everything it started have ended. Its
// own end is enough to bring that about.
func (s *Service) Ended() <-chan struct{} { return s.ended }

// How says how the program ended, as in "exit status 3". Only after Ended.
func (s *Service) How() string { return s.how }

// End gives the program patience to end by itself, then sends TERM to all
// that belongs to it and, after grace, KILL. It returns when nothing lives,
// and may be called again.
func (s *Service) End(patience, grace time.Duration) {
	s.term.Do(func() {
		for _, step := range []struct {
			wait time.Duration
			next syscall.Signal
		}{{patience, syscall.SIGTERM}, {grace, syscall.SIGKILL}} {
			wait := time.NewTimer(step.wait)
			defer wait.Stop()
			select {
			case <-s.ended:
				return
			case <-wait.C:
				s.group.signal(step.next)
			}
		}
	})
	<-s.ended
}
