package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"rally/internal/tools"
)

func errUnknownMethod() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no such method"}
}

// begin starts servers and ends them with the test.
func begin(t *testing.T, o Options, servers ...Server) (*Set, *[]string) {
	t.Helper()
	var said []string
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	o.Notice = func(text string) { said = append(said, text) }
	o.Now = time.Now
	set, err := Start(t.Context(), servers, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set, &said
}

func toolNames(set *Set) []string {
	var out []string
	for _, t := range set.Tools() {
		out = append(out, t.Name())
	}
	return out
}

func find(t *testing.T, set *Set, name string) tools.Tool {
	t.Helper()
	list := set.Tools()
	i := slices.IndexFunc(list, func(t tools.Tool) bool { return t.Name() == name })
	if i < 0 {
		t.Fatalf("no tool %s in %v", name, toolNames(set))
	}
	return list[i]
}

func run(ctx context.Context, t *testing.T, set *Set, name, args string) (tools.Result, error) {
	t.Helper()
	if args == "" {
		args = "{}"
	}
	return find(t, set, name).Run(ctx, &tools.Env{}, json.RawMessage(args))
}

func output(t *testing.T, set *Set, name, args string) string {
	t.Helper()
	r, err := run(t.Context(), t, set, name, args)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r.Output
}

func fails(t *testing.T, set *Set, name, args, says string) {
	t.Helper()
	r, err := run(t.Context(), t, set, name, args)
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, %v; want an error with %q", name, r.Output, err, says)
	}
}

// gone fails unless no process whose command line matches lives soon.
func gone(t *testing.T, pattern string) {
	t.Helper()
	var out []byte
	for range 150 {
		if out, _ = exec.CommandContext(t.Context(), "pgrep", "-af", pattern).Output(); len(out) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("still lives: %s", out)
}

func TestTools(t *testing.T) {
	dir := t.TempDir()
	set, said := begin(t, Options{Dir: dir, Environ: []string{"PATH=/usr/bin:/bin", "WHO=rally"}, Reserved: []string{"s_pid"}}, self("s", "plain"))
	var names []string
	for _, name := range strings.Fields("big crash echo environ fails flood grow hang mixed steps") {
		names = append(names, "s_"+name)
	}
	got := slices.DeleteFunc(toolNames(set), func(n string) bool { return strings.HasPrefix(n, "s_pid") })
	if d := cmp.Diff(append([]string{"list_mcp_resources", "read_mcp_resource"}, names...), got); d != "" {
		t.Error(d)
	}
	if len(*said) > 0 {
		t.Errorf("notices %q", *said)
	}
	echo := find(t, set, "s_echo")
	if string(echo.Schema()) != `{"properties":{},"type":"object"}` || echo.Description() != "Does echo" {
		t.Errorf("%s %s", echo.Schema(), echo.Description())
	}
	access, err := echo.Access(nil, nil)
	if d := cmp.Diff([]tools.Access{{Permission: "s_echo", Patterns: []string{"*"}, Changes: true}}, access); d != "" || err != nil {
		t.Error(d, err)
	}
	if got := output(t, set, "s_echo", `{"q":5}`); got != `said {"q":5}` {
		t.Error(got)
	}
	environ := output(t, set, "s_environ", "")
	for _, line := range []string{dir, "WHO=rally", modeVariable + "=plain"} {
		if !slices.Contains(strings.Split(environ, "\n"), line) {
			t.Errorf("%q is missing in %s", line, environ)
		}
	}
	fails(t, set, "s_fails", "", "the disk is full")
	if d := cmp.Diff([]Instruction{{"s", "Use echo. plain"}}, set.Instructions()); d != "" {
		t.Error(d)
	}
}

func TestMixedResult(t *testing.T) {
	set, _ := begin(t, Options{}, self("s", "plain"))
	r, err := run(t.Context(), t, set, "s_mixed", "")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"first", "[Audio omitted: audio/wav, 2 bytes]", "[Resource test://x: x an x]", "embedded",
		"[Binary content omitted: test://z (application/zip, 3 bytes) is not a supported attachment type]", `{"n":1}`,
		"[1 image omitted: could not be resized below the image size limit.]",
	}, "\n\n")
	if d := cmp.Diff(want, r.Output); d != "" {
		t.Error(d)
	}
	if len(r.Attachments) != 1 || r.Attachments[0].Mime != "image/png" || !strings.HasPrefix(r.Attachments[0].URL, "data:image/png;base64,") {
		t.Errorf("attachments %+v", r.Attachments)
	}
}

func TestBigAndFlood(t *testing.T) {
	set, _ := begin(t, Options{}, self("s", "plain"))
	if n := len(output(t, set, "s_big", "")); n != 20<<20 {
		t.Errorf("%d bytes", n)
	}
	if got := output(t, set, "s_flood", ""); got != "flooded" {
		t.Error(got)
	}
}

func TestOddNamesAndSchemas(t *testing.T) {
	set, said := begin(t, Options{}, self("s v.1", "odd"), self("s/v.1", "odd"))
	seen := map[string]bool{}
	odd := 0
	for _, tool := range set.Tools() {
		name := tool.Name()
		if seen[name] || len(name) > 64 || cleanName(name) != name {
			t.Errorf("name %q", name)
		}
		seen[name] = true
		if strings.HasPrefix(name, "s_v_1_echo_it_now") {
			odd++
		}
	}
	if odd != 4 || !seen["s_v_1_echo_it_now"] {
		t.Errorf("%d echo tools in %v", odd, toolNames(set))
	}
	want := []string{
		`tool "broken" of MCP server "s v.1" is left out: its input schema is of type string, not object`,
		`tool "broken" of MCP server "s/v.1" is left out: its input schema is of type string, not object`,
	}
	if d := cmp.Diff(want, *said); d != "" {
		t.Error(d)
	}
}

func TestMissingServers(t *testing.T) {
	slow, dead, deaf := self("slow", "silent"), self("dead", "dies"), self("deaf", "deaf")
	slow.Timeout, deaf.Timeout = 300*time.Millisecond, 400*time.Millisecond
	off := self("off", "dies")
	off.Enabled = false
	none := Server{Name: "none", Command: []string{"no-such-program"}, Enabled: true}
	start := time.Now()
	set, said := begin(t, Options{}, slow, self("good", "junk"), dead, deaf, none, off)
	if spent := time.Since(start); spent > 15*time.Second {
		t.Errorf("the start took %v", spent)
	}
	want := []string{
		`MCP server "slow" is left out: it did not answer within 300ms`,
		`MCP server "dead" is left out: it ended with exit status 3: no database / at port 5`,
		`MCP server "deaf" is left out: it did not answer within 400ms`,
		`MCP server "none" is left out: the program "no-such-program" is not in the PATH`,
	}
	if d := cmp.Diff(want, *said); d != "" {
		t.Error(d)
	}
	if got := output(t, set, "good_echo", `{}`); got != "said {}" {
		t.Error(got)
	}
	start = time.Now()
	set.Close()
	if spent := time.Since(start); spent > 5*time.Second {
		t.Errorf("the end took %v", spent)
	}
	for _, mode := range []string{"silent", "deaf", "junk"} {
		gone(t, "mode="+mode+"$")
	}
	fails(t, set, "good_echo", "", "ending")
	set.Close()
}

func TestRequired(t *testing.T) {
	dead := self("dead", "dies")
	dead.Required = true
	set, err := Start(t.Context(), []Server{self("good", "forks"), dead}, Options{Dir: t.TempDir(), Environ: os.Environ()})
	var required *RequiredError
	if set != nil || !errors.As(err, &required) || required.Server != "dead" ||
		err.Error() != `MCP server "dead" is required, but it ended with exit status 3: no database / at port 5` {
		t.Errorf("%v %v", set, err)
	}
	gone(t, "^sleep 412.25")
}

func TestStartAborted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	set, err := Start(ctx, []Server{self("slow", "silent"), self("forks", "forks")}, Options{Dir: t.TempDir(), Environ: os.Environ()})
	if set != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v %v", set, err)
	}
	gone(t, "mode=(silent|forks)$")
}

// Invariant 11: descendants that hold the pipes, ignore TERM or have a session
// of their own end, too.
func TestCloseEndsDescendants(t *testing.T) {
	set, _ := begin(t, Options{}, self("s", "forks"), self("t", "stubborn"))
	if got := output(t, set, "s_echo", "{}"); got != "said {}" {
		t.Error(got)
	}
	start := time.Now()
	set.Close()
	if spent := time.Since(start); spent > 5*time.Second {
		t.Errorf("the end took %v", spent)
	}
	gone(t, "^sleep 412.25")
	gone(t, "mode=(forks|stubborn)$")
}

// Nothing survives a kill -9: stdin closes, and on Linux the kernel ends those
// who do not care.
func TestKilledParent(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env, cmd.Dir = append(os.Environ(), modeVariable+"=parent"), t.TempDir()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "up ") || line == "up 0\n" {
		t.Fatalf("%q %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	gone(t, "mode=(stubborn|plain)$")
}

func TestCrashRestartsOnce(t *testing.T) {
	set, _ := begin(t, Options{}, self("s", "plain"))
	first := output(t, set, "s_pid", "")
	fails(t, set, "s_crash", "", `lost during the call; it ended with exit status 7: panic: at the disco`)
	second := output(t, set, "s_pid", "")
	if first == second {
		t.Error("it was not started again")
	}
	fails(t, set, "s_crash", "", "not started a second time")
	fails(t, set, "s_pid", "", "ended twice")
}

func TestCancel(t *testing.T) {
	dir := t.TempDir()
	set, _ := begin(t, Options{Dir: dir}, self("s", "plain"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan time.Time, 1)
	time.AfterFunc(200*time.Millisecond, func() { ended <- time.Now(); cancel() })
	_, err := run(ctx, t, set, "s_hang", "")
	if spent := time.Since(<-ended); spent > 100*time.Millisecond || !errors.Is(err, context.Canceled) {
		t.Errorf("%v after %v", err, spent)
	}
	for range 100 { // the server was told
		if _, err = os.Stat(filepath.Join(dir, "cancelled")); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestCloseEndsCalls(t *testing.T) {
	set, _ := begin(t, Options{}, self("s", "plain"))
	failed := make(chan error, 1)
	hang := find(t, set, "s_hang")
	go func() {
		_, err := hang.Run(context.Background(), &tools.Env{}, json.RawMessage("{}"))
		failed <- err
	}()
	time.Sleep(100 * time.Millisecond)
	set.Close()
	if err := <-failed; err == nil {
		t.Error("a call survived its server")
	}
}

func TestProgress(t *testing.T) {
	set, _ := begin(t, Options{}, self("s", "plain"))
	var last []string
	env := &tools.Env{Progress: func(tail string) { last = append(last, tail) }}
	r, err := find(t, set, "s_steps").Run(t.Context(), env, json.RawMessage("{}"))
	if err != nil || r.Output != "all steps" || len(last) == 0 || !strings.HasSuffix(last[0], " of 6: step") {
		t.Errorf("%v %v %q", r, err, last)
	}
}

func TestListChanged(t *testing.T) {
	set, _ := begin(t, Options{}, self("s", "plain"))
	before := toolNames(set)
	if got := output(t, set, "s_grow", ""); got != "grown" {
		t.Error(got)
	}
	one, _ := set.find("s")
	for range 100 {
		if one.changed.Load() {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if d := cmp.Diff(before, toolNames(set)); d != "" {
		t.Errorf("the list changed in a turn: %s", d)
	}
	set.Refresh(t.Context())
	if got := output(t, set, "s_fresh", ""); got != "new" {
		t.Error(got)
	}
}

func TestModernServer(t *testing.T) {
	set, said := begin(t, Options{}, self("s", "modern"))
	if len(*said) > 0 {
		t.Fatal(*said)
	}
	if got := output(t, set, "s_echo", "{}"); got != "said {}" {
		t.Error(got)
	}
}

func TestStatus(t *testing.T) {
	dead := self("dead", "dies")
	set, _ := begin(t, Options{}, self("s", "plain"), dead)
	got := set.Status(t.Context())
	if len(got) != 2 || got[0].Err != nil || len(got[0].Tools) != 11 || got[0].Version != "test 1.2" || got[1].Err == nil {
		t.Errorf("%+v", got)
	}
	want := []string{"test://blob blob (image/png)", "test://n/{n} numbers (template)", "test://text text (text/plain)"}
	if d := cmp.Diff(want, got[0].Resources); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"s:fix_it"}, got[0].Prompts); d != "" {
		t.Error(d)
	}
}
