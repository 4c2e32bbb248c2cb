package tools

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxSpill is the most one call may keep in Env.Outputs.
const maxSpill = 64 << 20

// spill writes an output that is too long for the conversation to a file: the
// first half of maxSpill as it comes, then a ring that holds the newest half.
// Errors are kept and given by Close, so that a full disk costs the file and
// not the call. It is not safe for concurrent use.
type spill struct {
	env   *Env
	half  int64
	file  *os.File
	total int64
	err   error
}

func newSpill(env *Env) *spill { return &spill{env: env, half: maxSpill / 2} }

func (s *spill) open() {
	if s.err = os.MkdirAll(s.env.Outputs, 0o700); s.err != nil {
		return
	}
	// A random part: several cut outputs of one call must not share a file.
	pattern := outputName(s.env.SessionID) + filepath.Base(s.env.CallID) + "_*.txt"
	s.file, s.err = os.CreateTemp(s.env.Outputs, pattern)
}

// Write takes all of p, always.
func (s *spill) Write(p []byte) (int, error) {
	n := len(p)
	if s.file == nil && s.err == nil {
		s.open()
	}
	for len(p) > 0 && s.err == nil {
		at, room := s.total, s.half-s.total
		if room <= 0 {
			at = s.half + (s.total-s.half)%s.half
			room = 2*s.half - at
		}
		piece := p[:min(int64(len(p)), room)]
		_, s.err = s.file.WriteAt(piece, at)
		s.total += int64(len(piece))
		p = p[len(piece):]
	}
	return n, nil
}

// Close puts the ring in order and returns the path of the file; what was
// written so far is removed when that fails.
func (s *spill) Close() (string, error) {
	if s.file == nil {
		return "", s.err
	}
	if s.err == nil && s.total > 2*s.half {
		s.err = s.unroll()
	}
	name := s.file.Name()
	if err := s.file.Close(); s.err == nil {
		s.err = err
	}
	if s.err != nil {
		_ = os.Remove(name) // an incomplete file would mislead whoever reads it
		return "", s.err
	}
	return name, nil
}

// unroll rewrites a file whose ring has wrapped: head, a line that says what
// is missing, tail from its oldest byte on.
func (s *spill) unroll() error {
	old := s.file
	next, err := os.CreateTemp(s.env.Outputs, filepath.Base(old.Name())+"_*.txt")
	if err != nil {
		return err
	}
	s.file = next
	defer func() {
		_ = old.Close()
		_ = os.Remove(old.Name())
	}()
	oldest := s.half + (s.total-s.half)%s.half
	parts := []io.Reader{
		io.NewSectionReader(old, 0, s.half),
		strings.NewReader(fmt.Sprintf("\n...%s left out here...\n", plural(int(s.total-2*s.half), "byte", "bytes"))),
		io.NewSectionReader(old, oldest, 2*s.half-oldest),
		io.NewSectionReader(old, s.half, oldest-s.half),
	}
	_, err = io.Copy(next, io.MultiReader(parts...))
	return err
}
