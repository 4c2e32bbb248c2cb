package tools

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// processes are those that a script started: the members of its process group
// and session, and whoever carries its mark.
type processes struct {
	leader int // pid of the shell: its process group and session, too
	mark   string
}

// process is one of them.
type process struct {
	pid     int
	command string
}

// String names it for the model.
func (p process) String() string { return fmt.Sprintf("%d %s", p.pid, p.command) }

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// signal reaches the whole group at once, then those that left it. It is
// called only before the shell is reaped, so that its number is still ours.
func (p processes) signal(sig syscall.Signal) {
	_ = syscall.Kill(-p.leader, sig)
	for _, l := range p.find() {
		p.send(l, sig)
	}
}

// send signals one process if it still is the one that was found: the handle
// is taken first, so a number that is used again is noticed.
func (p processes) send(l process, sig syscall.Signal) {
	handle, err := os.FindProcess(l.pid)
	if err != nil {
		return
	}
	defer func() { _ = handle.Release() }()
	if p.owns(l.pid) {
		_ = handle.Signal(sig)
	}
}

// find lists the living ones. The shell itself counts until it is reaped.
func (p processes) find() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	self := os.Getpid()
	var out []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self || !p.owns(pid) {
			continue
		}
		out = append(out, process{pid: pid, command: commandLine(pid)})
	}
	return out
}

// owns reports whether pid lives and is one of ours.
func (p processes) owns(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return false
	}
	// The name in parentheses may hold anything, parentheses too.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return false
	}
	f := bytes.Fields(stat[end+1:]) // state ppid pgrp session …
	if len(f) < 4 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return false
	}
	leader := strconv.Itoa(p.leader)
	if string(f[2]) == leader || string(f[3]) == leader {
		return true
	}
	if p.mark == "" {
		return false
	}
	environ, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return false
	}
	mark := []byte(markName + "=" + p.mark + "\x00")
	return bytes.HasPrefix(environ, mark) || bytes.Contains(environ, append([]byte{0}, mark...))
}

func commandLine(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return "?"
	}
	return cutText(strings.ToValidUTF8(strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " ")), "?"), 120)
}
