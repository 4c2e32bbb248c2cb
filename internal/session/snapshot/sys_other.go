//go:build !unix

package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
)

const (
	supported = false
	nonblock  = 0
)

func ownGroup(*exec.Cmd) {}

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func owner(fs.FileInfo) (uid, gid int, ok bool) { return 0, 0, false }
