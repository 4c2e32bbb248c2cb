//go:build unix

package tools

import (
	"io/fs"
	"os"
	"syscall"
)

// nonblock keeps the opening of a FIFO from waiting for a writer.
const nonblock = syscall.O_NONBLOCK

// keepOwner gives a replaced file its owner back where we may.
func keepOwner(file *os.File, old fs.FileInfo) {
	st, ok := old.Sys().(*syscall.Stat_t)
	if ok && (int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid()) {
		if file.Chown(int(st.Uid), int(st.Gid)) == nil {
			_ = file.Chmod(old.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)) // chown drops setuid
		}
	}
}
