package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxEditable is the largest file that write, edit and patches take.
const maxEditable = 64 << 20

// oldFile is a file before it is changed.
type oldFile struct {
	path    string
	info    fs.FileInfo // nil: it does not exist
	content []byte
	like    fs.FileInfo // whose mode a new file gets; nil for the usual one
}

// loadFile reads a file that is to be changed. One that does not exist is no
// error.
func loadFile(path string) (oldFile, error) {
	info, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return oldFile{path: path}, nil
	case err != nil:
		return oldFile{}, missing(path, err)
	case !info.Mode().IsRegular():
		return oldFile{}, notRegular(path, info)
	case info.Size() > maxEditable:
		return oldFile{}, tell("The file %s has %s; at most %s can be edited. Use a program made for large files.",
			path, plural(int(info.Size()), "byte", "bytes"), group(maxEditable))
	}
	file, err := openRegular(path)
	if err != nil {
		return oldFile{}, err
	}
	defer func() { _ = file.Close() }()
	content := make([]byte, info.Size())
	n, err := io.ReadFull(file, content)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return oldFile{}, fmt.Errorf("read %s: %w", path, err)
	}
	return oldFile{path: path, info: info, content: content[:n]}, nil
}

// exists reports whether the file was there.
func (f oldFile) exists() bool { return f.info != nil }

// replace writes content in place of the file in one step: readers see the
// old file or the new one, also when the process dies. The mode is kept.
// A file that changed since it was loaded is left alone.
func (f oldFile) replace(content []byte) (fs.FileInfo, error) {
	dir := filepath.Dir(f.path)
	if !f.exists() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, tell("Cannot create the folder %s: %v", dir, plainError(err))
		}
	}
	temp, err := writeTemp(dir, content, f.model())
	if err != nil {
		return nil, tell("Cannot write in %s: %v", dir, plainError(err))
	}
	if err := f.unchanged(); err != nil {
		_ = os.Remove(temp)
		return nil, err
	}
	if err := os.Rename(temp, f.path); err != nil {
		_ = os.Remove(temp)
		return nil, tell("Cannot replace %s: %v", f.path, plainError(err))
	}
	return os.Stat(f.path)
}

// model is the file whose mode and owner the written one gets.
func (f oldFile) model() fs.FileInfo {
	if f.exists() {
		return f.info
	}
	return f.like
}

// remove deletes the file, unless it changed since it was loaded.
func (f oldFile) remove() error {
	if err := f.unchanged(); err != nil {
		return err
	}
	if err := os.Remove(f.path); err != nil {
		return tell("Cannot delete %s: %v", f.path, plainError(err))
	}
	return nil
}

// restore puts the file back as it was, whatever is there now. It is the way
// back after a later file of the same call could not be written.
func (f oldFile) restore() error {
	if !f.exists() {
		return os.Remove(f.path)
	}
	temp, err := writeTemp(filepath.Dir(f.path), f.content, f.info)
	if err != nil {
		return err
	}
	return os.Rename(temp, f.path)
}

// unchanged fails if somebody else wrote the file after it was loaded.
func (f oldFile) unchanged() error {
	now, err := os.Stat(f.path)
	if !f.exists() && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && f.exists() && now.Size() == f.info.Size() && now.ModTime().Equal(f.info.ModTime()) {
		return nil
	}
	return tell("The file %s was changed by somebody else at the same moment. Read it again, then repeat the change.", f.path)
}

// writeTemp writes a file beside its place. A new file gets the mode that the
// umask leaves of 0666.
func writeTemp(dir string, content []byte, old fs.FileInfo) (string, error) {
	var temp *os.File
	var err error
	if old != nil {
		temp, err = os.CreateTemp(dir, ".rally-*.tmp")
	} else {
		temp, err = createNew(dir)
	}
	if err != nil {
		return "", err
	}
	if old != nil {
		err = temp.Chmod(old.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky))
		keepOwner(temp, old)
	}
	if err == nil {
		_, err = temp.Write(content)
	}
	if err2 := temp.Close(); err == nil {
		err = err2
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return "", err
	}
	return temp.Name(), nil
}

// createNew is os.CreateTemp with the mode of an ordinary file.
func createNew(dir string) (*os.File, error) {
	for n := 0; ; n++ {
		name := filepath.Join(dir, fmt.Sprintf(".rally-%d-%d.tmp", os.Getpid(), n))
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || n > 10_000 {
			return file, err
		}
	}
}
