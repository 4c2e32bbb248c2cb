//go:build !linux

package tools

import (
	"fmt"
	"syscall"
)

// processes are those that a script started. Without /proc only the process
// group is known.
type processes struct {
	leader int
	mark   string
}

type process struct{ pid int }

// String names it for the model.
func (p process) String() string { return fmt.Sprintf("process group %d", p.pid) }

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func (p processes) signal(sig syscall.Signal) { _ = syscall.Kill(-p.leader, sig) }

func (p processes) send(l process, sig syscall.Signal) { _ = syscall.Kill(-l.pid, sig) }

// find reports the group while it has members.
func (p processes) find() []process {
	if syscall.Kill(-p.leader, 0) != nil {
		return nil
	}
	return []process{{pid: p.leader}}
}
