package tools

import (
	"bytes"
	"context"
	_ "embed"
	"io/fs"
	"os"
	"strings"

	"rally/internal/session"
)

//go:embed apply_patch.md
var applyPatchText string

const applyPatchSchema = `{"type":"object","properties":{"patchText":{"type":"string","description":"The whole patch, with its Begin and End lines"}},
"required":["patchText"],"additionalProperties":false}`

type applyPatchArgs struct {
	PatchText string `json:"patchText"`
}

func newApplyPatch() Tool {
	return tool[applyPatchArgs]{
		name: "apply_patch", text: applyPatchText, schema: applyPatchSchema, access: patchAccess, run: runPatch,
	}
}

func patchAccess(env *Env, args applyPatchArgs) ([]Access, error) {
	sections, err := parsePatch(args.PatchText)
	if err != nil {
		return nil, err
	}
	var out []Access
	for _, s := range sections {
		for _, path := range []string{s.path, s.moveTo} {
			if path == "" {
				continue
			}
			p, err := Resolve(env, path)
			if err != nil {
				return nil, err
			}
			out = append(out, p.writes()...)
		}
	}
	return out, nil
}

// fileChange is one file before and after; content nil means it goes.
type fileChange struct {
	old     oldFile
	content []byte
	letter  string // what the output says of it; "" is nothing
	name    string
	written bool
	info    fs.FileInfo // after it was written
}

// runPatch works out all files first, so that a patch that does not fit
// changes nothing; a write that fails takes back those before it.
func runPatch(_ context.Context, env *Env, args applyPatchArgs) (Result, error) {
	sections, err := parsePatch(args.PatchText)
	if err != nil {
		return Result{}, err
	}
	w := workTree{env: env, files: map[string]*fileChange{}}
	for _, s := range sections {
		if err := w.apply(s); err != nil {
			return Result{}, tell("Nothing was changed. apply_patch verification failed: %v", err)
		}
	}
	if err := w.write(); err != nil {
		return Result{}, err
	}
	return w.result()
}

// workTree is the files of a patch as they will be: a later section sees what
// an earlier one did.
type workTree struct {
	env   *Env
	files map[string]*fileChange
	order []*fileChange
}

func (w *workTree) file(path string) (*fileChange, error) {
	p, err := Resolve(w.env, path)
	if err != nil {
		return nil, err
	}
	if f, ok := w.files[p.Path]; ok {
		return f, nil
	}
	old, err := loadFile(p.Path)
	if err != nil {
		return nil, err
	}
	if err := mayChange(w.env, old); err != nil {
		return nil, err
	}
	f := &fileChange{old: old, name: p.Pattern}
	if old.exists() {
		f.content = old.content
		if f.content == nil {
			f.content = []byte{}
		}
	}
	w.files[p.Path] = f
	w.order = append(w.order, f)
	return f, nil
}

func (w *workTree) apply(s section) error {
	f, err := w.file(s.path)
	if err != nil {
		return err
	}
	if s.kind == patchAdd {
		if f.content != nil {
			return tell("%s exists already. Use *** Update File: to change it.", f.old.path)
		}
		f.letter, f.content = "A", []byte(strings.Join(s.lines, "\n"))
		if len(s.lines) > 0 {
			f.content = append(f.content, '\n')
		}
		return nil
	}
	if f.content == nil {
		return missing(f.old.path, os.ErrNotExist)
	}
	if s.kind == patchDelete {
		f.letter, f.content = "D", nil
		return nil
	}
	fresh, err := applyChunks(f.old.path, f.content, s.chunks)
	if err != nil {
		return err
	}
	f.letter = "M"
	if s.moveTo == "" {
		f.content = fresh
		return nil
	}
	to, err := w.file(s.moveTo)
	if err != nil {
		return err
	}
	if to != f {
		if to.content != nil {
			return tell("%s exists already: nothing can be moved there.", to.old.path)
		}
		f.letter, f.content = "", nil
		to.old.like = f.old.model()
	}
	to.letter, to.content = "M", fresh
	return nil
}

func (w *workTree) write() error {
	for i, f := range w.order {
		err := f.write()
		if err == nil {
			continue
		}
		for _, done := range w.order[:i] {
			if done.written {
				if back := done.old.restore(); back != nil {
					err = tell("%v (and %s could not be put back: %v)", err, done.old.path, plainError(back))
				}
			}
		}
		return tell("Nothing was changed. %v", err)
	}
	return nil
}

func (f *fileChange) write() error {
	var err error
	switch {
	case f.content == nil && !f.old.exists(), f.old.exists() && f.content != nil && bytes.Equal(f.content, f.old.content):
		return nil
	case f.content == nil:
		err = f.old.remove()
	default:
		f.info, err = f.old.replace(f.content)
	}
	f.written = err == nil
	return err
}

func (w *workTree) result() (Result, error) {
	meta := session.Metadata{}
	var stamps []session.FileStamp
	var diffs []session.FileDiff
	out := "Success. Updated the following files:"
	for _, f := range w.order {
		if f.letter != "" {
			out += "\n" + f.letter + " " + f.name
		}
		if !f.written {
			continue
		}
		d := fileDiff(f.old.path, f.old.content, f.content)
		switch {
		case f.content == nil:
			d.Status = "deleted"
			w.env.Files.forget(f.old.path)
		case !f.old.exists():
			d.Status = "added"
			fallthrough
		default:
			stamps = append(stamps, stampOf(f.old.path, f.info, hashOf(f.content)))
		}
		diffs = append(diffs, d)
	}
	meta.Set("diff", joinDiffs(diffs))
	saw(w.env, meta, stamps...)
	return Result{Output: out, Title: plural(len(diffs), "file", "files"), Metadata: meta}, nil
}
