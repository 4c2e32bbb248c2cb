package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
)

// writer brings files of the work directory to their targets. It works below
// an os.Root and checks every folder on the way, so it neither leaves the work
// directory nor writes through a link that stays in it.
type writer struct {
	tree  *Tree
	root  *os.Root
	modes map[string]perms
}

func (t *Tree) newWriter() (*writer, error) {
	root, err := os.OpenRoot(t.opts.WorkTree)
	if err != nil {
		return nil, fmt.Errorf("open work directory: %w", err)
	}
	return &writer{tree: t, root: root, modes: t.knownModes()}, nil
}

// check refuses what cannot be done without touching files that no target
// names: a folder in a file's place must be emptied by other targets, a file
// in a folder's place removed by one.
func (w *writer) check(targets []target) error {
	gone := map[string]bool{}
	for i := range targets {
		if targets[i].absent() {
			gone[targets[i].name] = true
		}
	}
	for i := range targets {
		if targets[i].absent() {
			continue
		}
		if err := w.checkPlace(targets[i].name, gone); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) checkPlace(name string, gone map[string]bool) error {
	refused := func(format string, args ...any) error {
		return &RefusedError{File: w.tree.path(name), Why: fmt.Sprintf(format, args...)}
	}
	for i, c := range name {
		if c != '/' {
			continue
		}
		info, err := w.root.Lstat(name[:i])
		if errors.Is(err, fs.ErrNotExist) || gone[name[:i]] {
			return nil
		} else if err != nil {
			return refused("%v", err)
		}
		if !info.IsDir() {
			return refused("%s is not a folder any more", w.tree.path(name[:i]))
		}
	}
	info, err := w.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return refused("%v", err)
	case info.IsDir():
		other, err := w.survivor(name, gone)
		if err != nil {
			return refused("%v", err)
		}
		if other != "" {
			return refused("a folder that holds %s is in its place", w.tree.path(other))
		}
	case !isPlain(info):
		return refused("something that is not a file is in its place")
	}
	return nil
}

// survivor is a file below dir that is not going to be removed.
func (w *writer) survivor(dir string, gone map[string]bool) (string, error) {
	found := ""
	err := fs.WalkDir(w.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && !gone[name] {
			found = name
			return fs.SkipAll
		}
		return nil
	})
	return found, err
}

// checkBack refuses to replace a file that the way back would not bring back:
// the baseline must hold all that is there. What an earlier attempt has
// brought to its target already is no such file.
func (w *writer) checkBack(targets, backs []target) error {
	for i := range backs { // the same names as targets, in the same order
		if !backs[i].absent() || w.behindLink(targets[i].name) {
			continue
		}
		info, err := w.root.Lstat(targets[i].name)
		if err == nil && isPlain(info) && (targets[i].absent() || !w.same(&targets[i], info)) {
			return &RefusedError{File: w.tree.path(targets[i].name), Why: "the snapshot of the present state does not hold it"}
		}
	}
	return nil
}

// apply removes first, then writes: a name may change from file to folder. It
// stops at the first error; done says what was done until then.
func (w *writer) apply(targets []target) (Done, error) {
	var done Done
	for i := range targets {
		if !targets[i].absent() {
			continue
		}
		name := targets[i].name
		removed, err := w.remove(name)
		if err != nil {
			return done, fmt.Errorf("delete %q: %w", w.tree.path(name), err)
		}
		done.add(&done.Deleted, removed, w.tree.path(name))
	}
	for i := range targets {
		if targets[i].absent() {
			continue
		}
		name := targets[i].name
		written, err := w.write(&targets[i])
		if err != nil {
			return done, fmt.Errorf("write %q: %w", w.tree.path(name), err)
		}
		done.add(&done.Written, written, w.tree.path(name))
	}
	return done, nil
}

func (d *Done) add(to *[]string, did bool, file string) {
	if !did {
		to = &d.Unchanged
	}
	*to = append(*to, file)
}

// remove deletes a file or link, and folders that are empty then. What is not
// there, or not by real folders, or something else by now, stays.
func (w *writer) remove(name string) (bool, error) {
	if w.behindLink(name) {
		return false, nil
	}
	_ = w.root.Remove(tempName(name)) // of a process that died in write
	info, err := w.root.Lstat(name)
	if err != nil {
		return false, ignoreMissing(err)
	}
	if !isPlain(info) {
		return false, nil
	}
	if err := w.root.Remove(name); err != nil {
		return false, err
	}
	for dir := path.Dir(name); dir != "." && w.root.Remove(dir) == nil; {
		dir = path.Dir(dir) // until one is not empty
	}
	return true, nil
}

// behindLink reports whether a folder on the way to name is not a real one.
func (w *writer) behindLink(name string) bool {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if info, err := w.root.Lstat(name[:i]); err != nil || !info.IsDir() {
			return true
		}
	}
	return false
}

// tempName is where the new content of name is written first: the same for
// every attempt, so that the next one finds what a dead one left.
func tempName(name string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // never fails
	return path.Join(path.Dir(name), fmt.Sprintf(".rally-%016x.tmp", sum.Sum64()))
}

// write replaces the file in one step, unless it is as it should be.
func (w *writer) write(t *target) (bool, error) {
	old, err := w.root.Lstat(t.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !w.behindLink(t.name) {
		return false, err
	}
	temp := tempName(t.name)
	_ = w.root.Remove(temp)
	if old != nil && old.IsDir() { // only empty folders are left in it, as check saw
		if err := w.clear(t.name); err != nil {
			return false, err
		}
		old = nil
	}
	if old != nil && w.same(t, old) {
		return false, nil
	}
	if dir := path.Dir(t.name); dir != "." {
		if err := w.root.MkdirAll(dir, 0o777); err != nil {
			return false, err
		}
		if w.behindLink(t.name) {
			return false, &RefusedError{File: w.tree.path(t.name), Why: "a folder on the way became a link"}
		}
	}
	if err := w.writeTemp(t, temp, old); err != nil {
		return false, errors.Join(err, ignoreMissing(w.root.Remove(temp)))
	}
	if err := w.root.Rename(temp, t.name); err != nil {
		return false, errors.Join(err, ignoreMissing(w.root.Remove(temp)))
	}
	return true, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// clear removes a folder that holds empty folders alone.
func (w *writer) clear(dir string) error {
	var dirs []string
	err := fs.WalkDir(w.root.FS(), dir, func(name string, _ fs.DirEntry, err error) error {
		dirs = append(dirs, name)
		return err
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = w.root.Remove(dirs[i])
	}
	return err
}

// same reports whether the file on disk is what the target asks for.
func (w *writer) same(t *target, old fs.FileInfo) bool {
	if (t.mode == modeLink) != (old.Mode()&fs.ModeSymlink != 0) {
		return false
	}
	if t.mode == modeLink {
		to, err := w.root.Readlink(t.name)
		want, err2 := os.ReadFile(t.content)
		return err == nil && err2 == nil && to == string(want)
	}
	if w.perm(t, old) != old.Mode().Perm() {
		return false
	}
	a, err := w.root.OpenFile(t.name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return false
	}
	defer func() { _ = a.Close() }()
	b, err := os.Open(t.content)
	if err != nil {
		return false
	}
	defer func() { _ = b.Close() }()
	return equal(a, b)
}

func equal(a, b io.Reader) bool {
	p, q := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, p)
		m, errB := io.ReadFull(b, q)
		if !bytes.Equal(p[:n], q[:m]) {
			return false
		}
		if errA != nil || errB != nil {
			return errA == errB //nolint:errorlint // ReadFull gives these two bare: both ended, or not
		}
	}
}

// writeTemp writes what the target asks for beside its place.
func (w *writer) writeTemp(t *target, temp string, old fs.FileInfo) error {
	if t.mode == modeLink {
		to, err := os.ReadFile(t.content)
		if err != nil {
			return err
		}
		if err := w.root.Symlink(string(to), temp); err != nil {
			return err
		}
		w.keepOwner(temp, old)
		return nil
	}
	content, err := os.Open(t.content)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	perm := w.perm(t, old)
	file, err := w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm&0o600|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	w.keepOwner(temp, old)
	return errors.Join(err, file.Chmod(perm), file.Close())
}

// perm is the permissions the file shall have. Git keeps the executable bit
// alone; the rest is what the file has, or had when it was last seen so.
func (w *writer) perm(t *target, old fs.FileInfo) fs.FileMode {
	exec := t.mode == modeExec
	if old != nil && old.Mode().IsRegular() && (old.Mode()&0o100 != 0) == exec {
		return old.Mode().Perm()
	}
	return w.modes[t.name].of(exec)
}

// keepOwner gives the file to who owns the old one, or its folder, where that
// is possible: rally may run as root in a project of somebody else.
func (w *writer) keepOwner(temp string, old fs.FileInfo) {
	if old == nil {
		var err error
		if old, err = w.root.Lstat(path.Dir(temp)); err != nil {
			return
		}
	}
	if uid, gid, ok := owner(old); ok && os.Geteuid() == 0 && uid != 0 {
		_ = w.root.Lchown(temp, uid, gid)
	}
}
