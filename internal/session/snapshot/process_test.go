package snapshot

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"rally/internal/session"
)

// A job is what another process shall do; it comes in an environment variable.
type job struct {
	Opts     Options
	Baseline string
	Patches  []session.Patch // none: Track
}

const jobVariable = "SNAPSHOT_TEST_JOB"

// TestJob is that other process.
func TestJob(t *testing.T) {
	text := os.Getenv(jobVariable)
	if text == "" {
		return // not one
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		t.Fatal(err)
	}
	tree := Open(j.Opts)
	var err error
	if j.Patches == nil {
		_, err = tree.Track(t.Context())
	} else {
		_, err = tree.Revert(t.Context(), j.Baseline, j.Patches)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// start runs a job in a process of its own.
func (w *world) start(j job) *exec.Cmd {
	w.t.Helper()
	j.Opts = w.opts
	b, err := json.Marshal(j)
	w.must(err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestJob$")
	cmd.Env = append(os.Environ(), jobVariable+"="+string(b))
	w.must(cmd.Start())
	return cmd
}

// killed ends the job after a while, if it is not done by then.
func killed(cmd *exec.Cmd, after time.Duration) {
	time.Sleep(after)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// TestKilledRevert kills a revert at many points: each time it can be undone
// with the stored baseline, or done to its end.
func TestKilledRevert(t *testing.T) {
	w := newWorld(t, "")
	w.git("", "init", "-q")
	for i := range 300 {
		w.write(fmt.Sprintf("d%d/f%d", i%7, i), "1")
	}
	before := w.state()
	from := w.track()
	for i := range 300 {
		switch i % 3 {
		case 0:
			w.write(fmt.Sprintf("d%d/f%d", i%7, i), "2")
		case 1:
			w.remove(fmt.Sprintf("d%d/f%d", i%7, i))
		case 2:
			w.write(fmt.Sprintf("new%d/f%d", i%5, i), "1")
		}
	}
	patch := w.patch(from)
	after := w.state()
	baseline := w.track(patch.Files...)
	for i := range 16 {
		cmd := w.start(job{Baseline: baseline, Patches: []session.Patch{patch}})
		killed(cmd, time.Duration(i)*8*time.Millisecond)
		if i%2 == 0 {
			_, err := w.tree.Revert(t.Context(), baseline, []session.Patch{patch})
			w.must(err)
			w.same(before)
		}
		_, err := w.tree.Restore(t.Context(), baseline, patch.Files)
		w.must(err)
		w.same(after)
		if g := w.garbage(); g != nil {
			t.Fatalf("left behind: %v", g)
		}
	}
}

// TestKilledTrack kills a process in the middle of its first snapshot: its git
// dies too, the next snapshot is whole, and nothing is left over.
func TestKilledTrack(t *testing.T) {
	w := newWorld(t, "")
	for i := range 1500 {
		w.write(fmt.Sprintf("d%d/f%d", i%40, i), fmt.Sprint(i))
	}
	for i := range 6 {
		killed(w.start(job{}), time.Duration(10+i*25)*time.Millisecond)
	}
	hash := w.track()
	found, err := w.tree.entries(t.Context(), hash, func(string) bool { return true })
	w.must(err)
	if len(found) != 1500 {
		t.Errorf("%d files", len(found))
	}
	if g := w.garbage(); g != nil {
		t.Errorf("left behind: %v", g)
	}
	gitIn(t, w.tree.repo, "fsck", "--strict", "--no-dangling")
}

// TestAtOnce lets processes and goroutines take snapshots of one directory.
func TestAtOnce(t *testing.T) {
	w := newWorld(t, "")
	for i := range 100 {
		w.write(fmt.Sprintf("f%d", i), fmt.Sprint(i))
	}
	var jobs []*exec.Cmd
	for range 4 {
		jobs = append(jobs, w.start(job{}))
	}
	var group sync.WaitGroup
	hashes := make([]string, 4)
	for i := range hashes {
		group.Go(func() { hashes[i], _ = Open(w.opts).Track(t.Context()) })
	}
	group.Wait()
	for _, cmd := range jobs {
		w.must(cmd.Wait())
	}
	for _, hash := range hashes {
		if hash != w.track() {
			t.Errorf("hashes %v", hashes)
		}
	}
}

// TestDamageHeals: a broken index and lost objects cost the old trees alone.
func TestDamageHeals(t *testing.T) {
	w := newWorld(t, "")
	w.write("a", "1")
	w.write("b", "2")
	old := w.track()
	w.must(os.WriteFile(filepath.Join(w.tree.repo, "index"), []byte("nonsense"), 0o600))
	if got := w.track(); got != old {
		t.Errorf("tree %s, was %s", got, old)
	}
	w.must(os.RemoveAll(filepath.Join(w.tree.repo, "objects")))
	w.must(os.Mkdir(filepath.Join(w.tree.repo, "objects"), 0o700))
	if got := w.track(); got != old {
		t.Errorf("tree %s, was %s", got, old)
	}
	gitIn(t, w.tree.repo, "fsck", "--strict")
	if w.tree.Off() {
		t.Error(w.tree.Reason())
	}
}

// TestPrune forgets old trees but those that are kept, and whole repositories.
func TestPrune(t *testing.T) {
	w := newWorld(t, "")
	age := func(hash string, by time.Duration) {
		at := time.Now().Add(-by)
		w.must(os.Chtimes(filepath.Join(w.tree.repo, pinDir, hash), at, at))
	}
	var hashes []string
	for i := range 4 {
		w.write("a", fmt.Sprint(i))
		hashes = append(hashes, w.track())
		age(hashes[i], time.Duration(10-i)*time.Hour)
	}
	keep := func(hash string) bool { return hash == hashes[0] }
	prune := func(before time.Duration, want Pruned) {
		t.Helper()
		got, err := Prune(t.Context(), w.opts, time.Now().Add(-before), keep)
		w.must(err)
		if got != want {
			t.Errorf("pruned %+v, want %+v", got, want)
		}
	}
	prune(20*time.Hour, Pruned{})
	prune(8*time.Hour+30*time.Minute, Pruned{Trees: 1})
	for i, hash := range hashes {
		_, err := w.tree.Restore(t.Context(), hash, w.paths("a"))
		if gone := i == 1; (err != nil) != gone {
			t.Errorf("tree %d: %v", i, err)
		}
	}
	keep = func(string) bool { return false }
	prune(0, Pruned{Trees: 3, Repositories: 1})
	if _, err := os.Stat(w.tree.repo); !os.IsNotExist(err) {
		t.Errorf("repository is still there: %v", err)
	}
	w.track()
}

// BenchmarkTrack is a directory of 10,000 files, first and again.
func BenchmarkTrack(b *testing.B) {
	w := newWorld(b, "")
	w.git("", "init", "-q")
	for i := range 10_000 {
		w.write(fmt.Sprintf("d%d/e%d/f%d.go", i%20, i%400, i), fmt.Sprintf("package f%d\n\n// Some text that makes a file of usual size.\n", i))
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			w.must(os.RemoveAll(w.opts.Dir))
			b.StartTimer()
			w.track()
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			w.track()
		}
	})
	b.Run("one change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			w.write("d0/e0/f0.go", fmt.Sprint(i))
			w.track()
		}
	})
}
