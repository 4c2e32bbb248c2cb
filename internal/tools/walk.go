package tools

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// The bounds of a search.
const (
	searchTime = 30 * time.Second
	maxHits    = 200_000 // files
)

// tree is a folder whose files are listed. Links are not followed, .git and
// special files are left out, hidden files are not.
type tree struct {
	root   string // absolute
	ignore *ignore
	all    bool                  // ignored files, too
	keep   func(rel string) bool // nil keeps all
	skip   func(rel string) bool // folders that are not walked into; nil for none
}

// hit is a file of a tree.
type hit struct {
	rel   string // with slashes
	mtime int64
}

// listing is what a walk found, newest first, then by path.
type listing struct {
	hits    []hit
	partial bool // the context ended or there were too many
	ignored int  // files and folders that ignore rules left out
}

func (t tree) files(ctx context.Context) listing {
	w := walk{tree: t, ctx: ctx, todo: []folder{{path: t.root, ignore: t.ignore}}, open: 1}
	w.wake = sync.NewCond(&w.mu)
	stop := context.AfterFunc(ctx, w.wake.Broadcast)
	defer stop()
	var group sync.WaitGroup
	for range workers() {
		group.Go(w.work)
	}
	group.Wait()
	slices.SortFunc(w.hits, func(a, b hit) int {
		if c := cmp.Compare(b.mtime, a.mtime); c != 0 {
			return c
		}
		return cmp.Compare(a.rel, b.rel)
	})
	w.partial = w.partial || ctx.Err() != nil
	return w.listing
}

func workers() int { return min(max(2, runtime.GOMAXPROCS(0)), 8) }

// walk is one run over a tree by several workers.
type walk struct {
	tree
	ctx context.Context //nolint:containedctx // it lives as long as the call

	mu   sync.Mutex
	wake *sync.Cond
	todo []folder
	open int // folders in todo or in work
	listing
}

type folder struct {
	path, rel string
	ignore    *ignore
}

func (w *walk) work() {
	for {
		w.mu.Lock()
		for len(w.todo) == 0 && w.open > 0 && w.ctx.Err() == nil {
			w.wake.Wait()
		}
		if w.open == 0 || w.ctx.Err() != nil || w.partial {
			w.mu.Unlock()
			return
		}
		f := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.mu.Unlock()
		below, found := w.look(f)
		w.mu.Lock()
		w.todo = append(w.todo, below...)
		w.open += len(below) - 1
		w.hits = append(w.hits, found.hits...)
		w.ignored += found.ignored
		if len(w.hits) > maxHits {
			w.partial = true
		}
		w.wake.Broadcast()
		w.mu.Unlock()
	}
}

// look reads one folder. What cannot be read is left out.
func (w *walk) look(f folder) (below []folder, found listing) {
	dir, err := os.Open(f.path)
	if err != nil {
		return nil, found
	}
	entries, _ := dir.ReadDir(-1) // a part is better than nothing
	_ = dir.Close()
	g := f.ignore
	if !w.all && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".gitignore" || e.Name() == ".ignore" }) {
		g = g.below(f.path, ".gitignore", ".ignore")
	}
	for _, e := range entries {
		name := e.Name()
		if name == ".git" || (!e.IsDir() && !e.Type().IsRegular()) {
			continue
		}
		path, rel := f.path+string(filepath.Separator)+name, name
		if f.path == string(filepath.Separator) {
			path = f.path + name
		}
		if f.rel != "" {
			rel = f.rel + "/" + name
		}
		if !w.all && g.match(path, e.IsDir()) {
			found.ignored++
			continue
		}
		if e.IsDir() {
			if w.skip == nil || !w.skip(rel) {
				below = append(below, folder{path: path, rel: rel, ignore: g})
			}
			continue
		}
		if w.keep != nil && !w.keep(rel) {
			continue
		}
		info, err := e.Info()
		if err == nil {
			found.hits = append(found.hits, hit{rel: rel, mtime: info.ModTime().UnixNano()})
		}
	}
	return below, found
}

// leftOut counts the files that only ignore rules keep out of found, in little
// time.
func (t tree) leftOut(ctx context.Context, found listing) int {
	if found.ignored == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	t.all = true
	return max(0, len(t.files(ctx).hits)-len(found.hits))
}

// search is files with the time limit of a search. The error is that the
// call's own context ended.
func (t tree) search(ctx context.Context) (listing, error) {
	limited, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	found := t.files(limited)
	return found, ctx.Err()
}

// none is the text for no hits.
func (t tree) none(ctx context.Context, found listing) string {
	out := "No files found"
	if found.partial {
		return out + "\n" + partialNote
	}
	if n := t.leftOut(ctx, found); n > 0 {
		out += "\n(" + plural(n, "file that fits is", "files that fit are") +
			" left out by ignore rules. To search there, give its folder as path.)"
	}
	return out
}
