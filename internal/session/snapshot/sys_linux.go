package snapshot

import "syscall"

// groupAttr puts git into a group of its own that dies with rally: it must not
// go on writing when nobody holds the lock for it.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
