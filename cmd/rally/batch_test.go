package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/llm"
)

// A provider that answers every request with one word.
const oneWord = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"done"},"finish_reason":null}]}

data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}}

data: [DONE]

`

var taskNumber = regexp.MustCompile(`task number (\d+)\.`)

// arrived is a request as the server saw it.
type arrived struct {
	task string
	at   time.Time
}

// world is a home with a configured provider, and what it was asked.
type world struct {
	t       testing.TB
	dir     string
	environ []string

	mu   sync.Mutex
	came []arrived
}

// newWorld serves handle, which gets the number of the request (from 1) and
// the task it is for.
func newWorld(t *testing.T, handle func(w http.ResponseWriter, n int, task string)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a := arrived{at: time.Now()}
		if m := taskNumber.FindSubmatch(body); m != nil {
			a.task = string(m[1])
		}
		w.mu.Lock()
		w.came = append(w.came, a)
		n := len(w.came)
		w.mu.Unlock()
		handle(rw, n, a.task)
	}))
	t.Cleanup(server.Close)
	w.configure(server.URL)
	return w
}

func (w *world) configure(url string) {
	w.t.Helper()
	w.write(filepath.Join("config", "rally", "config.yaml"), fmt.Sprintf(storyConfig, url+"/v1"))
	w.environ = []string{
		"HOME=" + w.dir, "XDG_CONFIG_HOME=" + filepath.Join(w.dir, "config"), "RALLY_DB=" + filepath.Join(w.dir, "rally.db"),
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + w.dir,
	}
}

func (w *world) write(rel, content string) {
	w.t.Helper()
	path := filepath.Join(w.dir, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tasks(n int) {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"id\":\"t%d\",\"prompt\":\"task number %d.\"}\n", i, i)
	}
	w.write("tasks.jsonl", b.String())
}

// rally is the program, as a process of its own, in the world's directory.
func (w *world) rally(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "rally", args...)
	cmd.Dir, cmd.Env = w.dir, w.environ
	return cmd
}

// completed counts the rows of completed tasks by task.
func (w *world) completed(file string) map[string]int {
	w.t.Helper()
	f, err := os.Open(filepath.Join(w.dir, file))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // a test
	out := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var row struct {
			TaskID string `json:"task_id"`
			Exit   int    `json:"exit_code"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			w.t.Fatalf("%v in %s", err, lines.Bytes())
		}
		if row.Exit == 0 {
			out[row.TaskID]++
		}
	}
	return out
}

func answer(rw http.ResponseWriter) {
	rw.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(rw, oneWord)
}

// Killed ten times, a batch loses no task and does none twice but those that
// were in flight.
func TestKilledBatch(t *testing.T) {
	const kills, jobs = 10, 8
	tasks := 1000
	if testing.Short() {
		tasks = 200
	}
	requested := make(chan int, 2*tasks)
	w := newWorld(t, func(rw http.ResponseWriter, n int, _ string) {
		requested <- n
		answer(rw)
	})
	w.tasks(tasks)
	args := []string{"batch", "tasks.jsonl", "--jobs", fmt.Sprint(jobs), "-q", "-o", "out.jsonl"}
	for kill := range kills {
		cmd := w.rally(t.Context(), args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for n := range requested {
			if n >= (kill+1)*tasks/(kills+2) {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	if out, err := w.rally(t.Context(), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	done := w.completed("out.jsonl")
	for id, n := range done {
		if n != 1 {
			t.Errorf("%s was completed %d times", id, n)
		}
	}
	if len(done) != tasks {
		t.Errorf("%d of %d tasks are completed", len(done), tasks)
	}
	asked := map[string]int{}
	for _, a := range w.came {
		asked[a.task]++
	}
	if len(asked) != tasks {
		t.Errorf("the model was asked for %d of %d tasks", len(asked), tasks)
	}
	if again := len(w.came) - tasks; again > kills*jobs {
		t.Errorf("%d requests were made again; at most %d were in flight", again, kills*jobs)
	}
}

// Only one batch at a time writes a result file.
func TestTwoBatchesOnOneFile(t *testing.T) {
	first := make(chan struct{})
	release := make(chan struct{})
	w := newWorld(t, func(rw http.ResponseWriter, n int, _ string) {
		if n == 1 {
			close(first)
		}
		<-release
		answer(rw)
	})
	w.tasks(1)
	cmd := w.rally(t.Context(), "batch", "tasks.jsonl", "-o", "out.jsonl")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-first
	out, err := w.rally(t.Context(), "batch", "tasks.jsonl", "-o", "out.jsonl").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 5 || !bytes.Contains(out, []byte("another batch writes this result file")) {
		t.Errorf("got %v: %s", err, out)
	}
	close(release)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TERM records running tasks as cut; the next start runs them again.
func TestTerminatedBatch(t *testing.T) {
	asked := make(chan int, 100)
	hang := true
	var mu sync.Mutex
	ended := make(chan struct{})
	w := newWorld(t, func(rw http.ResponseWriter, n int, _ string) {
		mu.Lock()
		wait := hang
		mu.Unlock()
		asked <- n
		if wait {
			<-ended
		}
		answer(rw)
	})
	w.tasks(6)
	cmd := w.rally(t.Context(), "batch", "tasks.jsonl", "--jobs", "3", "-o", "out.jsonl")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-asked
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 143 {
		t.Errorf("got %v", err)
	}
	rows, err := os.ReadFile(filepath.Join(w.dir, "out.jsonl"))
	if n := bytes.Count(rows, []byte(`"reason":"interrupted","exit_code":143`)); n != 3 || err != nil {
		t.Errorf("%d tasks were cut, %v:\n%s", n, err, rows)
	}
	mu.Lock()
	hang = false
	mu.Unlock()
	close(ended)
	if out, err := w.rally(t.Context(), "batch", "tasks.jsonl", "-o", "out.jsonl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if done := w.completed("out.jsonl"); len(done) != 6 {
		t.Errorf("completed: %v", done)
	}
}

// A 429 of one worker holds all workers of the provider back until the time
// that the provider named.
func TestSharedBackOff(t *testing.T) {
	const jobs = 4
	var limited time.Time
	together := make(chan struct{})
	w := newWorld(t, func(rw http.ResponseWriter, n int, _ string) {
		switch {
		case n == jobs: // all workers are waiting for an answer
			limited = time.Now()
			close(together)
			rw.Header().Set("Retry-After", "3")
			rw.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(rw, `{"error":{"message":"slow down","type":"rate_limit_error"}}`)
			return
		case n < jobs:
			<-together
			time.Sleep(time.Second) // the others go on after the one has heard
		}
		answer(rw)
	})
	w.tasks(12)
	if out, err := w.rally(t.Context(), "batch", "tasks.jsonl", "--jobs", fmt.Sprint(jobs), "-o", "out.jsonl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(w.came) != 13 {
		t.Errorf("%d requests came, want 13", len(w.came))
	}
	for i, a := range w.came[jobs:] {
		if early := limited.Add(3 * time.Second).Sub(a.at); early > 50*time.Millisecond {
			t.Errorf("request %d came %s too early", jobs+i+1, early)
		}
	}
}

func TestThrottle(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	now := at(100)
	s := &throttle{policy: llm.Policy{Attempts: 1 << 30, MaxWait: time.Minute}, now: func() time.Time { return now }}
	limit := func(began int, after time.Duration) time.Time {
		e := &llm.Error{Class: llm.RateLimit, Status: 429}
		if after > 0 {
			e.RetryAfter = &after
		}
		s.limited(at(began), e)
		return s.until
	}
	var got []time.Time
	got = append(got, limit(99, 0), limit(99, 0)) // under way together: once
	now = at(103)
	got = append(got, limit(102, 0)) // asked again after that: longer
	now = at(108)
	got = append(got, limit(107, 30*time.Second), limit(107, time.Hour)) // what the provider says; never more than a turn may wait
	s.passed()
	now = at(200)
	got = append(got, limit(199, 0))
	want := []time.Time{at(102), at(102), at(107), at(138), at(168), at(202)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkBatch is what a task costs us when the model costs nothing: the
// processor time of our process alone, and its memory at the most.
func BenchmarkBatch(b *testing.B) {
	const tasks = 1000
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(rw)
	}))
	defer server.Close()
	for b.Loop() {
		w := &world{t: b, dir: b.TempDir()}
		w.configure(server.URL)
		w.tasks(tasks)
		cmd := w.rally(b.Context(), "batch", "tasks.jsonl", "--jobs", "8", "-q", "-o", "out.jsonl")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			b.Skip("this system does not say what a process used")
		}
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		b.ReportMetric(float64(cpu.Microseconds())/1000/tasks, "cpu-ms/task")
		b.ReportMetric(float64(usage.Maxrss)/1024, "MB")
		if usage.Maxrss > 120<<10 {
			b.Errorf("%d KB of memory", usage.Maxrss)
		}
	}
}
