package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Modes of the entries that trees of this package have.
const (
	modeFile = "100644"
	modeExec = "100755"
	modeLink = "120000"
)

// An entry is a file of a tree.
type entry struct{ mode, object string }

// entries reads all of a tree and returns the files that want asks for. A
// tree that is not there, or not whole, is a *MissingError.
func (t *Tree) entries(ctx context.Context, hash string, want func(name string) bool) (map[string]entry, error) {
	if !isHash(hash) {
		return nil, &MissingError{Hash: hash}
	}
	found := map[string]entry{}
	err := t.run(ctx, call{args: []string{"ls-tree", "-r", "-z", "--full-tree", hash}, read: func(r io.Reader) error {
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString(0)
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			meta, name, _ := strings.Cut(strings.TrimSuffix(line, "\x00"), "\t")
			if f := strings.Fields(meta); len(f) == 3 && want(name) { // mode, type, object
				found[name] = entry{mode: f[0], object: f[2]}
			}
		}
	}})
	if exitCode(err) > 0 {
		return nil, &MissingError{Hash: hash}
	}
	return found, err
}

// contents calls each with the content of every object, in order. An object
// that is not there is a *MissingError that names it.
func (t *Tree) contents(ctx context.Context, objects []string, each func(i int, size int64, r io.Reader) error) error {
	if len(objects) == 0 {
		return nil
	}
	stdin := []byte(strings.Join(objects, "\n") + "\n")
	return t.run(ctx, call{args: []string{"cat-file", "--batch"}, stdin: stdin, read: func(r io.Reader) error {
		in := bufio.NewReaderSize(r, 64<<10)
		for i, object := range objects {
			line, err := in.ReadString('\n')
			if err != nil {
				return fmt.Errorf("read object %s: %w", object, err)
			}
			f := strings.Fields(line) // object, type, size; or object, "missing"
			if len(f) != 3 || f[1] != "blob" {
				return &MissingError{Hash: object}
			}
			size, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil {
				return fmt.Errorf("read object %s: %w", object, err)
			}
			content := &io.LimitedReader{R: in, N: size}
			if err := each(i, size, content); err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				return err
			}
			if _, err := in.Discard(1); err != nil || content.N > 0 {
				return fmt.Errorf("object %s is cut off", object)
			}
		}
		return nil
	}})
}

// small is contents for objects of up to max bytes each; longer ones are cut.
func (t *Tree) small(ctx context.Context, objects []string, maxSize int64) ([][]byte, error) {
	out := make([][]byte, len(objects))
	err := t.contents(ctx, objects, func(i int, _ int64, r io.Reader) error {
		var buf bytes.Buffer
		_, err := io.Copy(&buf, io.LimitReader(r, maxSize))
		out[i] = buf.Bytes()
		return err
	})
	return out, err
}
