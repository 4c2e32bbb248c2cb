package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rowOf(id, reason string, code int, usd string) Result {
	return Result(fmt.Sprintf(`{"type":"result","timestamp":5,"sessionID":"ses_%s","reason":%q,"exit_code":%d,"cost":%s,"duration_ms":7,"files":[],"error":null,"task_id":%q}`, id, reason, code, usd, id))
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"id\":\"t%d\",\"prompt\":\"p\"}\n", i)
	}
	return b.String()
}

func resultsAt(t *testing.T, path string) *Results {
	t.Helper()
	r, err := OpenResults(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// ranBy runs a batch and lists who ran.
func ranBy(t *testing.T, o Options, run func(ctx context.Context, id string, spent func(float64)) Result) ([]string, Progress, error) {
	t.Helper()
	var mu sync.Mutex
	var ran []string
	o.Run = func(ctx context.Context, task Task, spent func(float64)) Result {
		mu.Lock()
		ran = append(ran, task.ID)
		mu.Unlock()
		return run(ctx, task.ID, spent)
	}
	b := New(o)
	err := b.Run(t.Context())
	slices.Sort(ran)
	return ran, b.Progress(), err
}

func completes(_ context.Context, id string, _ func(float64)) Result {
	return rowOf(id, "completed", 0, "0.5")
}

// The second start skips what is completed and what failed, and takes what was
// cut; the third, with RetryFailed, what failed.
func TestStartAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	src := open(t, numbered(4), SourceOptions{})
	first := func(_ context.Context, id string, _ func(float64)) Result {
		switch id {
		case "t1":
			return rowOf(id, "provider_error", 1, "0.25")
		case "t2":
			return rowOf(id, "interrupted", 130, "null")
		}
		return rowOf(id, "completed", 0, "0.5")
	}
	r := resultsAt(t, path)
	ran, p, err := ranBy(t, Options{Source: src, Results: r, Jobs: 2}, first)
	want := Progress{Total: 4, Completed: 2, Failed: 1, Cut: 1, Ran: 4, Cost: 1.25}
	if diff := cmp.Diff(want, p); diff != "" || err != nil || len(ran) != 4 {
		t.Error(diff, err, ran)
	}
	_ = r.Close()

	r = resultsAt(t, path)
	ran, p, err = ranBy(t, Options{Source: src, Results: r, Jobs: 2}, completes)
	want = Progress{Total: 4, Completed: 3, Failed: 1, Ran: 1, Cost: 1.75}
	if diff := cmp.Diff(want, p) + cmp.Diff([]string{"t2"}, ran); diff != "" || err != nil {
		t.Error(diff, err)
	}
	_ = r.Close()

	r = resultsAt(t, path)
	ran, p, err = ranBy(t, Options{Source: src, Results: r, RetryFailed: true}, completes)
	want = Progress{Total: 4, Completed: 4, Ran: 1, Cost: 2.25}
	if diff := cmp.Diff(want, p) + cmp.Diff([]string{"t1"}, ran); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestJobsAtATime(t *testing.T) {
	var running, most atomic.Int64
	met := make(chan struct{})
	run := func(_ context.Context, id string, _ func(float64)) Result {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == 3 {
			close(met) // all three workers are here; the first three tasks wait for that
		}
		<-met
		running.Add(-1)
		return rowOf(id, "completed", 0, "0")
	}
	_, p, err := ranBy(t, Options{Source: open(t, numbered(3), SourceOptions{}), Results: StreamResults(&bytes.Buffer{}), Jobs: 3}, run)
	if most.Load() != 3 || p.Completed != 3 || err != nil {
		t.Errorf("%d at a time, %+v, %v", most.Load(), p, err)
	}
}

// untilCut is a task that ends with its context.
func untilCut(ctx context.Context, id string) Result {
	<-ctx.Done()
	return rowOf(id, "interrupted", 130, "0")
}

func TestEnds(t *testing.T) {
	tests := map[string]struct {
		options Options
		run     func(context.Context, string, func(float64)) Result
		want    Progress
		err     error
	}{
		"fail fast cuts what runs": {
			options: Options{FailFast: true, Jobs: 2},
			run: func(ctx context.Context, id string, _ func(float64)) Result {
				if id == "t0" {
					time.Sleep(time.Second)
					return rowOf(id, "usage", 2, "0")
				}
				return untilCut(ctx, id)
			},
			want: Progress{Total: 9, Failed: 1, Cut: 1, Ran: 2}, err: ErrFailFast,
		},
		"the money of running tasks counts": {
			options: Options{MaxCost: 1, Jobs: 2},
			run: func(ctx context.Context, id string, spent func(float64)) Result {
				spent(0.5)
				<-ctx.Done()
				return rowOf(id, "interrupted", 130, "0.5")
			},
			want: Progress{Total: 9, Cut: 2, Ran: 2, Cost: 1}, err: ErrCostLimit,
		},
		"the money of rows counts": {
			options: Options{MaxCost: 1}, run: completes,
			want: Progress{Total: 9, Completed: 2, Ran: 2, Cost: 1}, err: ErrCostLimit,
		},
		"time": {
			options: Options{MaxTime: time.Second, Jobs: 2},
			run:     func(ctx context.Context, id string, _ func(float64)) Result { return untilCut(ctx, id) },
			want:    Progress{Total: 9, Cut: 2, Ran: 2}, err: ErrTimeLimit,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // time passes when every worker waits
				o := test.options
				o.Source, o.Results = open(t, numbered(9), SourceOptions{}), StreamResults(&bytes.Buffer{})
				_, p, err := ranBy(t, o, test.run)
				if diff := cmp.Diff(test.want, p); diff != "" || !errors.Is(err, test.err) {
					t.Error(diff, err)
				}
			})
		})
	}
}

// A limit that is reached with the last task ended nothing.
func TestLimitAtTheEnd(t *testing.T) {
	o := Options{Source: open(t, numbered(2), SourceOptions{}), Results: StreamResults(&bytes.Buffer{}), MaxCost: 1}
	if _, p, err := ranBy(t, o, completes); err != nil || p.Completed != 2 {
		t.Error(p, err)
	}
}

// What was spent before counts: the batch does not begin.
func TestCostOfEarlierStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	src := open(t, numbered(9), SourceOptions{})
	for range 2 {
		r := resultsAt(t, path)
		_, p, err := ranBy(t, Options{Source: src, Results: r, MaxCost: 1}, completes)
		if !errors.Is(err, ErrCostLimit) || p.Completed != 2 {
			t.Error(p, err)
		}
		_ = r.Close()
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// A row that cannot be kept ends the batch: its task runs again.
func TestUnwritableRow(t *testing.T) {
	o := Options{Source: open(t, numbered(9), SourceOptions{}), Results: StreamResults(full{})}
	ran, p, err := ranBy(t, o, completes)
	if len(ran) != 1 || p.Completed != 0 || err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Error(ran, p, err)
	}
}

func TestResultFile(t *testing.T) {
	whole := string(rowOf("a", "completed", 0, "0"))
	tests := map[string]struct {
		content  string
		want     string // the file afterwards
		rows     []string
		ignored  []int
		repaired bool
		err      string
	}{
		"empty":                    {},
		"rows":                     {content: whole + "\n", want: whole + "\n", rows: []string{"a"}},
		"a torn line":              {content: whole + "\n" + whole[:40], want: whole + "\n", rows: []string{"a"}, repaired: true},
		"the first line torn":      {content: whole[:40], repaired: true},
		"torn in its first bytes":  {content: whole[:5], repaired: true},
		"torn before its end":      {content: whole, want: whole + "\n", rows: []string{"a"}},
		"zeros after a power loss": {content: whole + "\n\x00\x00\x00", want: whole + "\n", rows: []string{"a"}, repaired: true},
		"a line of someone else":   {content: whole + "\nhi\n", want: whole + "\nhi\n", rows: []string{"a"}, ignored: []int{2}},
		"another file":             {content: "# Read me\n\nhi", want: "# Read me\n\nhi", err: "something else"},
		"one line of another file": {content: "hi", want: "hi", err: "something else"},
		"a task file":              {content: `{"id":"a","prompt":"p"}`, want: `{"id":"a","prompt":"p"}`, err: "something else"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.jsonl")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := OpenResults(path)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if err == nil {
				var ids []string
				for id := range r.newest {
					ids = append(ids, id)
				}
				if diff := cmp.Diff(test.rows, ids) + cmp.Diff(test.ignored, r.Ignored) + cmp.Diff(test.repaired, r.Repaired); diff != "" {
					t.Error(diff)
				}
				if _, err := r.Append(rowOf("z", "completed", 0, "0")); err != nil {
					t.Error(err)
				}
				_ = r.Close()
				test.want += string(rowOf("z", "completed", 0, "0")) + "\n"
			}
			got, err := os.ReadFile(path)
			if diff := cmp.Diff(test.want, string(got)); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestResultFileHasOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	r := resultsAt(t, path)
	if _, err := OpenResults(path); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v", err)
	}
	_ = r.Close()
	_ = resultsAt(t, path).Close()
}

func TestDeviceKeepsNothing(t *testing.T) {
	r := resultsAt(t, os.DevNull)
	if _, err := r.Append(rowOf("a", "completed", 0, "0")); err != nil {
		t.Error(err)
	}
}

func TestRowsAreRows(t *testing.T) {
	r := StreamResults(&bytes.Buffer{})
	for _, row := range []string{``, `{}`, `{"type":"result","exit_code":0}`, `{"type":"result","task_id":"a"}`} {
		if _, err := r.Append(Result(row)); err == nil {
			t.Errorf("%s was taken", row)
		}
	}
}

func TestReport(t *testing.T) {
	src := open(t, numbered(3), SourceOptions{})
	r := StreamResults(&bytes.Buffer{})
	for _, row := range []string{
		`{"type":"result","sessionID":"ses_1","reason":"completed","exit_code":0,"cost":0.25,"duration_ms":1500,"files":["/w/a.go","/w/b|c.go","/else/d"],"task_id":"t0"}`,
		`{"type":"result","sessionID":null,"reason":"usage","exit_code":2,"cost":null,"duration_ms":0,"files":[],"error":{"data":{"message":"no | such <b>\nfile"}},"task_id":"t1"}`,
	} {
		if _, err := r.Append(Result(row)); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	if err := Report(&got, "tasks", "/w", src, r); err != nil {
		t.Fatal(err)
	}
	want := `# tasks

3 tasks: 1 completed, 1 failed, 0 cut, 1 not run; all rows cost $0.2500.

A session is read with ` + "`rally export ID --format markdown`" + `.

| task | status | cost | time | changed files | session |
|---|---|---:|---:|---|---|
| t0 | completed | $0.2500 | 1.5s | ` + "`a.go`, `b\\|c.go`, `/else/d`" + ` | ` + "`ses_1`" + ` |
| t1 | usage: no \| such &lt;b> file | unknown | 0s |  |  |
| t2 | not run | | | | |
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestMerge(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, rows ...string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(rows, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	row := func(id string, time, code int) string {
		return fmt.Sprintf(`{"type":"result","timestamp":%d,"exit_code":%d,"task_id":%q}`, time, code, id)
	}
	a := write("a", row("x", 9, 1), row("y", 1, 1), row("y", 1, 0), "")
	b := write("b", row("x", 3, 0), row("z", 1, 0), `{"type":"res`)
	var got strings.Builder
	rows, ignored, err := Merge(&got, a, b)
	want := row("x", 9, 1) + "\n" + row("y", 1, 0) + "\n" + row("z", 1, 0) + "\n"
	if diff := cmp.Diff(want, got.String()); diff != "" || rows != 3 || ignored != 1 || err != nil {
		t.Error(diff, rows, ignored, err)
	}
	if _, _, err := Merge(&got, filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// 10,000 completed tasks are looked through in well under a second.
func BenchmarkStartAgain(b *testing.B) {
	dir := b.TempDir()
	tasks, out := filepath.Join(dir, "tasks.jsonl"), filepath.Join(dir, "out.jsonl")
	var rows bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&rows, "%s\n", rowOf(fmt.Sprintf("t%d", i), "completed", 0, "0.0001"))
	}
	for path, content := range map[string][]byte{tasks: []byte(numbered(10_000)), out: rows.Bytes()} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		src, err := OpenSource(tasks, nil, SourceOptions{Near: nearest})
		if err != nil {
			b.Fatal(err)
		}
		r, err := OpenResults(out)
		if err != nil {
			b.Fatal(err)
		}
		if todo := New(Options{Source: src, Results: r}).Todo(); len(todo) != 0 {
			b.Fatalf("%d to do", len(todo))
		}
		_, _ = src.Close(), r.Close()
	}
}
