package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"rally/internal/session"
)

// Bounds of what Diff gives.
const (
	maxPatch     = 64 << 10 // bytes of one file's patch
	maxPatches   = 1 << 20  // bytes of all patches read
	maxPathspecs = 200      // files one git is asked about
	maxPathBytes = 32 << 10 // and the length of their names
	maxStats     = 256 << 10
)

// Diff compares the named files (absolute paths) of two trees: the statistics
// of each that differs, sorted by path, with a unified patch of at most 64 KiB
// each and 1 MiB in all; a longer one is cut after a line. Binary files have
// neither lines nor a patch. Paths are absolute, in patches relative.
//
// Files outside of the work directory are left out. Errors are those of Patch.
func (t *Tree) Diff(ctx context.Context, from, to string, files []string) (diffs []session.FileDiff, err error) {
	err = t.guarded(ctx, func(ctx context.Context) error {
		diffs, err = t.diff(ctx, from, to, files)
		return err
	})
	return diffs, err
}

func (t *Tree) diff(ctx context.Context, from, to string, files []string) ([]session.FileDiff, error) {
	if from == to {
		return nil, nil
	}
	var names []string
	for _, file := range files {
		if name, ok := t.name(file); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var diffs []session.FileDiff
	budget := maxPatches // of patch text, before each is cut to its own bound
	for len(names) > 0 {
		n := batch(names)
		out, err := t.diffTree(ctx, from, to, names[:n], budget)
		if err != nil {
			return nil, err
		}
		found, size := parseDiff(out, names[:n])
		budget -= size
		for i := range found {
			found[i].File = t.path(found[i].File)
		}
		diffs, names = append(diffs, found...), names[n:]
	}
	slices.SortFunc(diffs, func(a, b session.FileDiff) int { return strings.Compare(a.File, b.File) })
	return diffs, nil
}

// batch is how many of the names fit one command line.
func batch(names []string) int {
	size := 0
	for i, name := range names {
		if size += len(name); i > 0 && (i == maxPathspecs || size > maxPathBytes) {
			return i
		}
	}
	return len(names)
}

// diffTree reads statistics and, within the budget, patches.
func (t *Tree) diffTree(ctx context.Context, from, to string, names []string, budget int) ([]byte, error) {
	for _, hash := range []string{from, to} {
		if !isHash(hash) {
			return nil, &MissingError{Hash: hash}
		}
	}
	args := []string{"diff-tree", "-r", "-z", "--no-renames", "--raw", "--numstat", "--no-color", "--no-ext-diff", "--no-textconv"}
	if budget > 0 {
		args = append(args, "-p", "--src-prefix=a/", "--dst-prefix=b/")
	}
	args = append(append(args, from, to, "--"), names...)
	var out []byte
	err := t.run(ctx, call{args: args, literal: true, read: func(r io.Reader) (err error) {
		// The statistics come first and are as bounded as the names.
		out, err = io.ReadAll(io.LimitReader(r, int64(max(budget, 0)+maxStats)))
		if err != nil {
			return err
		}
		if n, _ := r.Read(make([]byte, 1)); n > 0 {
			return errEnough
		}
		return nil
	}})
	if errors.Is(err, errEnough) {
		return out[:bytes.LastIndexByte(out, '\n')+1], nil
	}
	if exitCode(err) > 0 {
		if _, fromErr := t.entries(ctx, from, func(string) bool { return false }); fromErr != nil {
			return nil, fromErr
		}
		return nil, &MissingError{Hash: to}
	}
	return out, err
}

// parseDiff reads raw records, statistics and patches of diff-tree. A name
// that stands for a folder in one of the trees brings the files in it, which
// are left out. size is the length of all patch text.
func parseDiff(out []byte, names []string) (diffs []session.FileDiff, size int) {
	stats, patches, _ := bytes.Cut(out, []byte("\x00\x00"))
	if i := bytes.Index(patches, []byte("diff --git ")); i > 0 {
		patches = patches[i:]
	}
	var sections []int // how many patches a file has
	at := map[string]int{}
	fields := strings.Split(strings.TrimSuffix(string(stats), "\x00"), "\x00")
	for i := 0; i < len(fields); i++ {
		if strings.HasPrefix(fields[i], ":") && i+1 < len(fields) {
			status := fields[i][len(fields[i])-1]
			i++
			at[fields[i]] = len(diffs)
			diffs = append(diffs, session.FileDiff{File: fields[i], Status: statuses[status]})
			sections = append(sections, 1)
			if status == 'T' { // a file became a link or back
				sections[len(sections)-1] = 2
			}
			continue
		}
		count := strings.SplitN(fields[i], "\t", 3)
		if len(count) != 3 {
			continue
		}
		if n, ok := at[count[2]]; ok {
			diffs[n].Additions, _ = strconv.Atoi(count[0]) // "-" for binary files
			diffs[n].Deletions, _ = strconv.Atoi(count[1])
		}
	}
	givePatches(diffs, sections, string(patches))
	return slices.DeleteFunc(diffs, func(d session.FileDiff) bool {
		_, found := slices.BinarySearch(names, d.File)
		return !found
	}), len(patches)
}

var statuses = map[byte]string{'A': "added", 'D': "deleted", 'M': "modified", 'T': "modified"}

// givePatches hands out the patches, which are in the order of the files.
func givePatches(diffs []session.FileDiff, sections []int, text string) {
	for i := range diffs {
		end := 0
		for range sections[i] {
			next := strings.Index(text[min(end+1, len(text)):], "\ndiff --git ")
			if next < 0 {
				end = len(text)
				break
			}
			end += next + 2
		}
		patch := text[:end]
		text = text[end:]
		if !strings.Contains(patch, "\nBinary files ") {
			diffs[i].Patch = cutLines(patch, maxPatch)
		}
	}
}

// cutLines is s, cut after the last line that ends within n bytes.
func cutLines(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:strings.LastIndexByte(s[:n], '\n')+1], "\uFFFD")
}
