package batch

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// Merge writes the newest row of every task in the result files at paths, in
// the order in which the tasks first appear. By the time in the row, and for
// rows of one time by their order. It gives the number of rows, and of lines
// that are none.
func Merge(w io.Writer, paths ...string) (rows, ignored int, err error) {
	type place struct {
		file   int
		offset int64
		length int
		time   int64
	}
	var order []string
	newest := map[string]place{}
	files := make([]*os.File, len(paths))
	for i, path := range paths {
		if files[i], err = os.Open(path); err != nil {
			return 0, 0, fmt.Errorf("merge: %w", err)
		}
		defer files[i].Close() //nolint:errcheck // it was only read
		if err := eachLine(files[i], 1<<30, func(l line) error {
			var o Outcome
			if o.read(l.text) != nil {
				ignored++
				return nil //nolint:nilerr // it is counted
			}
			before, known := newest[o.TaskID]
			if !known {
				order = append(order, o.TaskID)
			}
			if !known || o.Timestamp >= before.time {
				newest[o.TaskID] = place{i, l.offset, len(l.text), o.Timestamp}
			}
			return nil
		}); err != nil {
			return 0, 0, fmt.Errorf("merge %q: %w", path, err)
		}
	}
	b := bufio.NewWriter(w)
	for _, id := range order {
		p := newest[id]
		if _, err := io.Copy(b, io.NewSectionReader(files[p.file], p.offset, int64(p.length))); err != nil {
			return rows, ignored, fmt.Errorf("merge %q: %w", paths[p.file], err)
		}
		if err := b.WriteByte('\n'); err != nil {
			return rows, ignored, err
		}
		rows++
	}
	return rows, ignored, b.Flush()
}
