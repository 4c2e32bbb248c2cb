package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"rally/internal/llm/scripted"
)

// The stories in testdata/script run the program itself: the test binary
// re-enters main. The model is a script served over HTTP.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rally": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "../../testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Values[storyKey{}] = &story{t: t}
			return setupStory(env)
		},
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":   status,
			"model":    model,
			"requests": requests,
			"valid":    valid,
			"id":       keepID,
			"await":    await,
			"gone":     gone,
		},
	})
}

// story is what the commands of one script share.
type story struct {
	t      *testing.T
	server *scripted.Server
}

type storyKey struct{}

func storyOf(ts *testscript.TestScript) *story {
	s, _ := ts.Value(storyKey{}).(*story)
	return s
}

// setupStory gives every story a home and a session file of its own and none
// of our environment's keys.
func setupStory(env *testscript.Env) error {
	kept := env.Vars[:0]
	for _, kv := range env.Vars {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "RALLY_") && !strings.HasPrefix(name, "XDG_") && !strings.HasSuffix(name, "_API_KEY") {
			kept = append(kept, kv)
		}
	}
	home := filepath.Join(env.WorkDir, ".home")
	env.Vars = append(kept,
		"HOME="+home, "XDG_CONFIG_HOME="+home+"/.config", "RALLY_DB="+filepath.Join(home, "rally.db"),
		"CONFIG="+home+"/.config/rally/config.yaml", "PATH="+os.Getenv("PATH"), "GOCACHE="+goCache())
	return os.MkdirAll(filepath.Join(home, ".config", "rally"), 0o755)
}

// goCache keeps the tour from compiling the standard library anew.
func goCache() string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// status N COMMAND… runs a command that must exit with exactly N.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command [args…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// model FILE [LINE…] serves a script and makes it the configured model mock/m;
// further arguments are lines of the config.
func model(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: model script.yaml [line of config…]")
	}
	script, err := scripted.Load(ts.MkAbs(args[0]))
	ts.Check(err)
	s := storyOf(ts)
	server, err := script.Serve(s.t.Context(), scripted.ServeOptions{})
	ts.Check(err)
	ts.Defer(func() { _ = server.Close() })
	s.server = server
	ts.Setenv("MODEL_URL", server.URL)
	config := fmt.Sprintf(storyConfig, server.URL) + strings.Join(args[1:], "\n") + "\n"
	ts.Check(os.WriteFile(ts.Getenv("CONFIG"), []byte(config), 0o600))
}

const storyConfig = `model: mock/m
retry: {attempts: 3}
providers:
  - id: mock
    type: openai-compatible
    api: chat
    base_url: %s
    api_key: sk-story-key
    models:
      - {id: m, context: 128000, output: 8192, cost: {input: 2, output: 8, cache_read: 0.5}}
`

// requests N checks how many requests came; requests FILE writes their bodies
// there, one a line.
func requests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: requests N|FILE")
	}
	server := storyOf(ts).server
	if server == nil {
		ts.Fatalf("no model is served")
	}
	got := server.Requests()
	if want, err := strconv.Atoi(args[0]); err == nil {
		if len(got) != want {
			ts.Fatalf("%d requests came, want %d", len(got), want)
		}
		return
	}
	var b strings.Builder
	for _, r := range got {
		fmt.Fprintf(&b, "%s\n", r.Body)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o600))
}

// valid FILE checks every line of --json output against the schema, and that
// the first and last are what they should be.
func valid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: valid FILE")
	}
	t := storyOf(ts).t
	lines := strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	for i, line := range lines {
		validLine(t, line)
		if !strings.Contains(line, fmt.Sprintf(`"seq":%d,`, i+1)) {
			ts.Fatalf("line %d has another seq: %s", i+1, line)
		}
	}
	if first := lines[0]; !strings.HasPrefix(first, `{"type":"session"`) && !strings.HasPrefix(first, `{"type":"error"`) {
		ts.Fatalf("the first line is %s", first)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, `{"type":"result"`) {
		ts.Fatalf("the last line is %s", last)
	}
}

// await FILE waits until a file is there.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	until(ts, args[0]+" appeared", func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

// gone TEXT waits until no process has text in its command line.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone TEXT")
	}
	until(ts, "the last process with "+args[0]+" ended", func() bool {
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		ts.Check(err)
		for _, path := range lines {
			line, err := os.ReadFile(path) // a process that just ended has none
			if err == nil && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), args[0]) {
				return false
			}
		}
		return true
	})
}

// until is patient: it only fails where the thing does not happen at all.
func until(ts *testscript.TestScript, what string, happened func() bool) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if happened() {
			return
		}
	}
	ts.Fatalf("waited in vain: %s", what)
}

// keepID NAME puts the id of the newest session into the variable NAME.
func keepID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: id NAME")
	}
	ts.Check(ts.Exec("rally", "sessions", "-n", "1"))
	fields := strings.Fields(ts.ReadFile("stdout"))
	for _, f := range fields {
		if strings.HasPrefix(f, "ses_") {
			ts.Setenv(args[0], f)
			return
		}
	}
	ts.Fatalf("there is no session")
}
