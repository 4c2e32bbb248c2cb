package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func TestShow(t *testing.T) {
	tr := newTree(t)
	tr.write(userFile, `model: local/m
providers:
  - id: local
    api_key: "{env:NOPE}"
    headers: {X-Team: secret}
    models: [{id: m, cost: {input: 0.10}, variants: [{name: high, options: {reasoning_effort: high}}]}]
permission:
  - allow: "bash:git *"
mcp: [{name: f, command: [node, s.js], env: ["K=secret"]}]
agents: [{name: a, prompt: "two\nlines"}]
`)
	tr.write(rootFile, "title: off\nshell: /x\n")
	tr.opts.Environ = []string{"RALLY_LIMITS_COST=1.5"}
	tr.opts.Flags = map[string]string{"limits.steps": "7"}
	c := tr.load()
	var b bytes.Buffer
	if err := c.Show(&b, true, false); err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(b.String(), filepath.Dir(tr.home), "BASE")
	if strings.Contains(got, "secret\n") || strings.Contains(got, "K=") {
		t.Error("a secret is shown")
	}
	golden := filepath.Join("testdata", "show.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
	b.Reset()
	if err := c.Show(&b, true, true); err != nil {
		t.Fatal(err)
	}
	var out struct {
		Values []map[string]any
		Held   []map[string]any
	}
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Values) != strings.Count(got, "\n")-1 || len(out.Held) != 1 {
		t.Errorf("JSON shows %d values and %d held", len(out.Values), len(out.Held))
	}
}

// config.example.yaml names every key, and is valid when its comments go.
func TestExample(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "config.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var live []string
	for _, l := range strings.Split(string(b), "\n") {
		if remark := len(l) > 2 && l[:2] == "# " && l[2] != ' '; strings.HasPrefix(l, "#") && !remark {
			l = l[1:]
		}
		live = append(live, l)
	}
	tr := newTree(t)
	tr.opts.ConfigFile = tr.path(flaggedFile)
	tr.write(flaggedFile, string(b))
	tr.load() // as it is
	tr.write(flaggedFile, strings.Join(live, "\n"))
	tr.write("prompts/reviewer.md", "x")
	tr.opts.Environ = []string{"LOCAL_KEY=x", "DOCS_TOKEN=x"}
	c := tr.load()
	for _, key := range keys(reflect.TypeFor[Config](), "") {
		at := c.merged
		for _, part := range strings.Split(key, ".") {
			next, ok := anyValue(at, part)
			if !ok {
				t.Errorf("%s is not in config.example.yaml", key)
				break
			}
			at = next
		}
	}
}

func keys(t reflect.Type, prefix string) []string {
	var out []string
	for _, f := range fields(t) {
		ft := f.Type
		for ft.Kind() == reflect.Pointer || ft.Kind() == reflect.Slice {
			ft = ft.Elem()
		}
		if ft.Kind() == reflect.Struct && !isRule(ft) {
			out = append(out, keys(ft, prefix+f.key+".")...)
			continue
		}
		out = append(out, prefix+f.key)
	}
	return out
}
