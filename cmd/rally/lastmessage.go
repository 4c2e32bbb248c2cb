package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"rally/internal/session"
)

// lastMessage is the file of -o. It is opened before anything is sent, so that
// a path that cannot be written costs nothing, and appears as a whole at the
// end. A nil *lastMessage does nothing.
type lastMessage struct {
	path string   // links resolved
	file *os.File // a new file beside path; path itself where that is a device
}

// openLastMessage prepares to write to path; an empty one gives nil.
func openLastMessage(path string) (*lastMessage, error) {
	if path == "" {
		return nil, nil
	}
	m := &lastMessage{path: path}
	err := m.open()
	if err != nil {
		return nil, usagef("choose another file for -o", "the last message cannot be written: %w", err)
	}
	return m, nil
}

func (m *lastMessage) open() error {
	if real, err := filepath.EvalSymlinks(m.path); err == nil {
		m.path = real
	}
	info, err := os.Stat(m.path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a directory", m.path)
	case err == nil && !info.Mode().IsRegular():
		m.file, err = os.OpenFile(m.path, os.O_WRONLY, 0)
		return err
	case err == nil:
		// Replacing a file that may not be written would ignore its mode.
		f, err := os.OpenFile(m.path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), m.openBeside(info.Mode().Perm()))
	case errors.Is(err, fs.ErrNotExist):
		return m.openBeside(0o666)
	}
	return err
}

// openBeside makes the new file in the same folder; the rename at the end then
// cannot cross file systems.
func (m *lastMessage) openBeside(mode fs.FileMode) (err error) {
	name := fmt.Sprintf(".%s.%d.tmp", filepath.Base(m.path), os.Getpid())
	m.file, err = os.OpenFile(filepath.Join(filepath.Dir(m.path), name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	return err
}

// write puts the answer of res into the file.
func (m *lastMessage) write(res session.Result) error {
	if m == nil {
		return nil
	}
	_, err := io.WriteString(m.file, res.Text+"\n")
	err = errors.Join(err, m.file.Close())
	if err == nil && m.file.Name() != m.path {
		err = os.Rename(m.file.Name(), m.path)
	}
	if err != nil {
		return fmt.Errorf("write the last message: %w", err)
	}
	m.file = nil
	return nil
}

// discard removes the new file if it was not written.
func (m *lastMessage) discard() {
	if m == nil || m.file == nil {
		return
	}
	_ = m.file.Close()
	if m.file.Name() != m.path {
		_ = os.Remove(m.file.Name())
	}
}
