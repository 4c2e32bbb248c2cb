package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// Result is a task's row: one JSON object on one line, without its end.
type Result []byte

// Outcome is what the package knows of a row.
type Outcome struct {
	TaskID     string
	SessionID  string // empty where none was made
	Reason     string
	ExitCode   int
	Cost       *float64 // US dollars; nil where a price is unknown
	DurationMS int64
	Timestamp  int64
	Files      []string // the first maxNamed of them
	FileCount  int
	Message    string // of the error; empty without one
}

const (
	maxNamed   = 8
	maxMessage = 300
)

// Completed reports whether the task is done.
func (o *Outcome) Completed() bool { return o.ExitCode == 0 }

// Cut reports whether the task was ended from outside: it says nothing about
// the task, so it is run again.
func (o *Outcome) Cut() bool {
	switch o.Reason {
	case "aborted", "interrupted", "output_closed":
		return true
	}
	return false
}

// read reads a row. It is an error if it is none.
func (o *Outcome) read(row []byte) error {
	var in struct {
		Type       string   `json:"type"`
		TaskID     string   `json:"task_id"`
		SessionID  *string  `json:"sessionID"`
		Timestamp  int64    `json:"timestamp"`
		Reason     string   `json:"reason"`
		ExitCode   *int     `json:"exit_code"`
		Cost       *float64 `json:"cost"`
		DurationMS int64    `json:"duration_ms"`
		Files      []string `json:"files"`
		Error      *struct {
			Data struct {
				Message string `json:"message"`
			} `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(row, &in); err != nil {
		return err
	}
	if in.Type != "result" || in.TaskID == "" || in.ExitCode == nil {
		return errors.New("it is not a result of a task")
	}
	*o = Outcome{
		TaskID: in.TaskID, Reason: in.Reason, ExitCode: *in.ExitCode, Cost: in.Cost, DurationMS: in.DurationMS, Timestamp: in.Timestamp,
		Files: in.Files[:min(len(in.Files), maxNamed):min(len(in.Files), maxNamed)], FileCount: len(in.Files),
	}
	if in.SessionID != nil {
		o.SessionID = *in.SessionID
	}
	if in.Error != nil {
		o.Message = strings.ToValidUTF8(in.Error.Data.Message[:min(len(in.Error.Data.Message), maxMessage)], "")
	}
	return nil
}

// ErrInUse says that another batch writes the result file.
var ErrInUse = errors.New("another batch writes this result file")

// Results is a result file that this process alone writes, or a stream that
// keeps nothing. It is safe for concurrent use.
type Results struct {
	// Ignored are the numbers of lines that are no rows: someone else wrote
	// them, and they are left as they are.
	Ignored []int
	// Repaired says that the last line was torn by a death and was taken away.
	Repaired bool

	mu     sync.Mutex
	w      io.Writer
	file   *os.File // nil for a stream
	size   int64
	newest map[string]Outcome
	cost   float64
}

// StreamResults writes rows to w and knows of none before.
func StreamResults(w io.Writer) *Results { return &Results{w: w, newest: map[string]Outcome{}} }

// OpenResults opens the result file at path, makes it where there is none,
// and reads what is in it. A line that was torn off goes; a file that is
// something else is refused untouched. The caller closes it.
func OpenResults(path string) (*Results, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // results are no secret
	if err != nil {
		return nil, fmt.Errorf("open the result file: %w", err)
	}
	r := StreamResults(f)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the result file: %w", err), f.Close())
		}
		r.file = nil
		return r, err
	}
	r.file = f
	// The kernel takes the lock back however we die. It is on the file itself:
	// another name for it is locked as well.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("result file %q: %w", path, err), f.Close())
	}
	if err := r.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("result file %q: %w", path, err), f.Close())
	}
	return r, nil
}

// recover reads the rows and mends the end of the file.
func (r *Results) recover() error {
	rows := 0
	end := int64(-1) // where a torn line begins
	whole := false   // the torn line lacks nothing but its end
	err := eachLine(r.file, 1<<30, func(l line) error {
		var o Outcome
		err := o.read(l.text)
		switch {
		case l.torn:
			end, whole = l.offset, err == nil
			if !whole && rows == 0 && !bytes.HasPrefix([]byte(`{"type":"result"`), l.text[:min(len(l.text), 16)]) {
				return errors.New("it holds something else; give another name")
			}
		case err != nil && rows == 0 && len(r.Ignored) == 0:
			return errors.New("it holds something else; give another name")
		case err != nil:
			r.Ignored = append(r.Ignored, l.number)
		}
		if err == nil {
			rows++
			r.count(&o)
		}
		return nil
	})
	if err == nil && whole {
		if _, err = r.file.Seek(0, io.SeekEnd); err == nil {
			_, err = r.file.WriteString("\n")
		}
	} else if err == nil && end >= 0 {
		r.Repaired = true
		err = r.file.Truncate(end)
	}
	if err == nil {
		r.size, err = r.file.Seek(0, io.SeekEnd)
	}
	return err
}

func (r *Results) count(o *Outcome) {
	r.newest[o.TaskID] = *o
	if o.Cost != nil {
		r.cost += *o.Cost
	}
}

// Append writes a row and returns when it is safe. After an error the file is
// as it was before.
func (r *Results) Append(row Result) (Outcome, error) {
	var o Outcome
	if err := o.read(row); err != nil {
		return o, fmt.Errorf("append a row: %w", err)
	}
	text := make([]byte, 0, len(row)+1)
	text = append(append(text, row...), '\n')
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.w.Write(text); err != nil {
		return o, errors.Join(fmt.Errorf("write the result: %w", err), r.takeBack())
	}
	if r.file != nil {
		if err := r.file.Sync(); err != nil {
			return o, errors.Join(fmt.Errorf("sync the result file: %w", err), r.takeBack())
		}
	}
	r.size += int64(len(text))
	r.count(&o)
	return o, nil
}

// takeBack removes what a failed write left.
func (r *Results) takeBack() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Truncate(r.size)
	if err == nil {
		_, err = r.file.Seek(r.size, io.SeekStart)
	}
	return err
}

// Newest is the newest row of a task.
func (r *Results) Newest(id string) (Outcome, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok := r.newest[id]
	return o, ok
}

// Cost is what all rows together cost, those that a later one replaced
// included: the money is spent.
func (r *Results) Cost() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cost
}

// Close gives the file and its lock back.
func (r *Results) Close() error {
	if c, ok := r.w.(*os.File); ok && r.file != nil {
		return c.Close()
	}
	return nil
}
