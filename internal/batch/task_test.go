package batch

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func nearest(name string, names []string) []string {
	for _, n := range names {
		if len(name) > 2 && strings.HasPrefix(n, name[:3]) {
			return []string{n}
		}
	}
	return nil
}

func open(t *testing.T, content string, o SourceOptions) *Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tasks")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Near = nearest
	s, err := OpenSource(path, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// said is a task with its error as text.
type said struct {
	Task Task
	Err  string
	Hint string
}

func tasks(s *Source) []said {
	var out []said
	for i := range s.Entries {
		t := s.Task(&s.Entries[i])
		var bad *BadTask
		var e said
		if errors.As(t.Err, &bad) {
			e.Err, e.Hint = bad.Error(), bad.Hint
		}
		t.Err = nil
		e.Task = t
		out = append(out, e)
	}
	return out
}

func TestLines(t *testing.T) {
	bad := func(line int, err, hint string) said {
		return said{Task: Task{ID: lineID(line), Line: line}, Err: err, Hint: hint}
	}
	tests := map[string]struct {
		content string
		options SourceOptions
		want    []said
	}{
		"everything a task may have": {
			content: `{"id":"a","prompt":"p","session":"s","agent":"g","model":"m/n","files":["f"],"dir":"d","system":"y","schema":{"type":"object"},"timeout":"90s","max_steps":3,"max_cost":0.1,"vars":{"k":1}}`,
			want: []said{{Task: Task{
				ID: "a", Prompt: "p", Session: "s", Agent: "g", Model: "m/n", Files: []string{"f"}, Dir: "d", System: "y",
				Schema: json.RawMessage(`{"type":"object"}`), Timeout: Duration(90 * time.Second), MaxSteps: 3, MaxCost: "0.1",
				Vars: map[string]any{"k": float64(1)}, Line: 1,
			}}},
		},
		"seconds, and arguments as a text and as a list": {
			content: `{"id":"a","command":"c","args":"x y","timeout":1.5}` + "\n" + `{"id":"b","command":"c","args":["x","y"]}`,
			want: []said{
				{Task: Task{ID: "a", Command: "c", Args: Args{"x y"}, Timeout: Duration(1500 * time.Millisecond), Line: 1}},
				{Task: Task{ID: "b", Command: "c", Args: Args{"x", "y"}, Line: 2}},
			},
		},
		"a mark, empty lines and carriage returns": {
			content: "\ufeff" + `{"id":"a","prompt":"p"}` + "\r\n\n  \n" + `{"id":"b","prompt":"q"}`,
			want:    []said{{Task: Task{ID: "a", Prompt: "p", Line: 1}}, {Task: Task{ID: "b", Prompt: "q", Line: 4}}},
		},
		"text": {
			content: "first\n\n  {\"id\": 1}  \n", options: SourceOptions{Text: true},
			want: []said{{Task: Task{ID: "line:1", Prompt: "first", Line: 1}}, {Task: Task{ID: "line:3", Prompt: `  {"id": 1}  `, Line: 3}}},
		},
		"bad lines": {
			content: strings.Join([]string{
				`{"id":"a","promt":"p"}`, `{"id":"a","Prompt":"p"}`, `no`, `null`, `[1]`, `{"prompt":"p"}`, `{"id":"a"}`,
				`{"id":"a","prompt":"p","command":"c"}`, `{"id":"a","prompt":"p","args":["x"]}`, `{"id":"a","prompt":"p","args":[1]}`,
				`{"id":"a","prompt":"p","timeout":"soon"}`, `{"id":"a","prompt":"p","timeout":-1}`, `{"id":"a","prompt":"p","max_cost":-1}`,
				`{"id":"line:4","prompt":"p"}`, `{"id":"a\n","prompt":"p"}`, "{\"id\":\"a\",\"prompt\":\"\xff\"}", `{"id":7,"prompt":"p"}`,
			}, "\n"),
			want: []said{
				bad(1, `a task has no field "promt"`, "did you mean prompt?"),
				bad(2, `a task has no field "Prompt"`, "a task may have "+strings.Join(fields(), ", ")),
				bad(3, `the line is no JSON object: invalid character 'o' in literal null (expecting 'u'), at byte 2`, `a task is a JSON object such as {"id": "a", "prompt": "…"}`),
				bad(4, `the line is no JSON object: it is null`, `a task is a JSON object such as {"id": "a", "prompt": "…"}`),
				bad(5, `the line is no JSON object: it is a array`, `a task is a JSON object such as {"id": "a", "prompt": "…"}`),
				bad(6, "the task has no id", "a result is found again by its task's id"),
				bad(7, "the task asks for nothing", "give it a prompt, a prompt_file or a command"),
				bad(8, "prompt, prompt_file and command exclude each other", "leave all but one out"),
				bad(9, "args without a command", "args go with a command"),
				bad(10, "args: give a text or a list of texts", ""),
				bad(11, `timeout: "soon" is not a time such as "90s" or "10m"`, ""),
				bad(12, `timeout: -1 is not a time such as "90s" or "10m"`, ""),
				bad(13, "a limit is below zero", "leave it out for no limit"),
				bad(14, `id: "line:4" could be that of a line without one`, "take another id"),
				bad(15, "id: take up to 256 printable bytes", ""),
				bad(16, "the line is not UTF-8", "save the file as UTF-8"),
				bad(17, "id: a number does not fit", ""),
			},
		},
		"two equal ids: the first counts": {
			content: `{"id":"a","prompt":"p"}` + "\n" + `{"id":"a","prompt":"q"}`,
			want: []said{
				{Task: Task{ID: "a", Prompt: "p", Line: 1}},
				bad(2, `id: "a" is that of line 1`, "give every task its own id"),
			},
		},
		"a template stands for the prompt": {
			content: `{"id":"a","vars":{}}` + "\n" + `{"id":"b","command":"c"}`, options: SourceOptions{Template: true},
			want: []said{
				{Task: Task{ID: "a", Vars: map[string]any{}, Line: 1}},
				bad(2, "the prompt comes from the template, not from a command", "leave one of them out"),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, tasks(open(t, test.content, test.options))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEntries(t *testing.T) {
	s := open(t, `{"id":"a","prompt":"p"}
{"id":"b","prompt":"p","dir":"d"}
{"id":"c","prompt":"p","model":"m/n"}
{"id":"d"}`, SourceOptions{})
	type entry struct {
		ID            string
		Here, Unnamed bool
	}
	var got []entry
	for _, e := range s.Entries {
		got = append(got, entry{e.ID, e.Here, e.Unnamed})
	}
	want := []entry{{"a", true, true}, {"b", false, false}, {"c", true, false}, {"line:4", false, false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStdinIsReadOnce(t *testing.T) {
	s, err := OpenSource("-", strings.NewReader(`{"id":"a","prompt":"p"}`), SourceOptions{Near: nearest})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]said{{Task: Task{ID: "a", Prompt: "p", Line: 1}}}, tasks(s)); diff != "" {
		t.Error(diff)
	}
}

func TestChangedTaskFile(t *testing.T) {
	s := open(t, `{"id":"a","prompt":"p"}`, SourceOptions{})
	if err := os.WriteFile(s.file.Name(), []byte(`{"id":"x","prompt":"p"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []said{{Task: Task{ID: "a", Line: 1}, Err: "the task file was changed while the batch ran", Hint: "leave it alone until the batch is done"}}
	if diff := cmp.Diff(want, tasks(s)); diff != "" {
		t.Error(diff)
	}
}

func TestTemplate(t *testing.T) {
	tests := map[string]struct {
		text string
		task Task
		want string
		err  bool
	}{
		"a variable":             {text: "Fix {{.bug}} now", task: Task{Vars: map[string]any{"bug": "B-17"}}, want: "Fix B-17 now"},
		"the id and the prompt":  {text: "{{.id}}: {{.prompt}}", task: Task{ID: "a", Prompt: "p"}, want: "a: p"},
		"a variable called id":   {text: "{{.id}}", task: Task{ID: "a", Vars: map[string]any{"id": 3}}, want: "3"},
		"a list":                 {text: "{{.l}}", task: Task{Vars: map[string]any{"l": []any{"x", "<y>"}}}, want: `["x","<y>"]`},
		"numbers":                {text: "{{.n}} {{.m}}", task: Task{Vars: map[string]any{"n": 10000000.0, "m": 0.25}}, want: "10000000 0.25"},
		"a member":               {text: "{{ .a.b -}} !", task: Task{Vars: map[string]any{"a": map[string]any{"b": true}}}, want: "true!"},
		"no such member":         {text: "{{.a.c}}", task: Task{Vars: map[string]any{"a": map[string]any{"b": true}}}, err: true},
		"a member of a text":     {text: "{{.a.b}}", task: Task{Vars: map[string]any{"a": "b"}}, err: true},
		"comments":               {text: "a{{/* not sent */}}b", want: "ab"},
		"one that is missing":    {text: "Fix {{.bug}}", task: Task{Vars: map[string]any{"bag": "x"}}, err: true},
		"one without variables":  {text: "Fix {{.bug}}", err: true},
		"null is missing":        {text: "Fix {{.bug}}", task: Task{Vars: map[string]any{"bug": nil}}, err: true},
		"a prompt there is none": {text: "{{.prompt}}", task: Task{ID: "a"}, err: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tmpl, err := ParseTemplate("t", test.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tmpl.Fill(&test.task)
			if (err != nil) != test.err || got != test.want && err == nil {
				t.Errorf("got %q and %v, want %q", got, err, test.want)
			}
		})
	}
	for _, text := range []string{"{{", "{{range .l}}{{end}}", "{{.a | printf}}", "{{$x := .a}}", "{{print .a}}", "{{define \"t\"}}{{end}}{{template \"t\"}}"} {
		if _, err := ParseTemplate("t", text); err == nil {
			t.Errorf("the template %q was taken", text)
		}
	}
}

func TestShard(t *testing.T) {
	tests := map[string]struct {
		flag string
		env  map[string]string
		want Shard
		err  bool
	}{
		"none":                   {},
		"i/n":                    {flag: "2/3", want: Shard{1, 3}},
		"zero":                   {flag: "0/3", err: true},
		"beyond":                 {flag: "4/3", err: true},
		"words":                  {flag: "a/b", err: true},
		"one number":             {flag: "3", err: true},
		"kubernetes":             {flag: "auto", env: map[string]string{"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETION_COUNT": "4"}, want: Shard{0, 4}},
		"kubernetes, no count":   {flag: "auto", env: map[string]string{"JOB_COMPLETION_INDEX": "3"}, err: true},
		"kubernetes, auto/n":     {flag: "auto/4", env: map[string]string{"JOB_COMPLETION_INDEX": "3"}, want: Shard{3, 4}},
		"kubernetes, too many":   {flag: "auto/3", env: map[string]string{"JOB_COMPLETION_INDEX": "3"}, err: true},
		"slurm from 0":           {flag: "auto", env: map[string]string{"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "0"}, want: Shard{3, 4}},
		"slurm from 1":           {flag: "auto", env: map[string]string{"SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "1"}, want: Shard{3, 4}},
		"slurm with a hole":      {flag: "auto", env: map[string]string{"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "1"}, err: true},
		"gitlab counts from 1":   {flag: "auto", env: map[string]string{"CI_NODE_INDEX": "4", "CI_NODE_TOTAL": "4"}, want: Shard{3, 4}},
		"nothing to go by":       {flag: "auto", err: true},
		"a number that is none":  {flag: "auto", env: map[string]string{"CI_NODE_INDEX": "x", "CI_NODE_TOTAL": "4"}, err: true},
		"auto and a word for it": {flag: "auto/x", env: map[string]string{"CI_NODE_INDEX": "1"}, err: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseShard(test.flag, func(name string) string { return test.env[name] })
			if got != test.want || (err != nil) != test.err {
				t.Errorf("got %v and %v", got, err)
			}
		})
	}
}

// The shards of a file are disjoint and together all of it; who has a task
// does not depend on the tasks beside it.
func TestShardsCoverAll(t *testing.T) {
	var content strings.Builder
	for i := range 300 {
		content.WriteString(`{"id":"task-` + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + `","prompt":"p"}` + "\n")
	}
	seen := map[string]int{}
	for i := range 7 {
		part := open(t, content.String(), SourceOptions{Shard: Shard{i, 7}})
		if len(part.Entries) < 20 {
			t.Errorf("shard %d has %d of 300", i, len(part.Entries))
		}
		for _, e := range part.Entries {
			seen[e.ID]++
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s is in %d shards", id, n)
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d of 300 tasks are in a shard", len(seen))
	}
	if !(Shard{0, 3}).Owns("t0") {
		t.Error("the hash has changed: batches that have begun would run tasks again")
	}
}

func TestLongLine(t *testing.T) {
	var got []int
	content := "short\n" + strings.Repeat("x", 200<<10) + "\nshort"
	err := eachLine(strings.NewReader(content), 100<<10, func(l line) error {
		got = append(got, l.number)
		if l.long != (l.number == 2) || l.torn != (l.number == 3) {
			t.Errorf("line %d: long %v, torn %v", l.number, l.long, l.torn)
		}
		return nil
	})
	if diff := cmp.Diff([]int{1, 2, 3}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestFieldsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields() {
		if !strings.Contains(string(page), "`"+f+"`") {
			t.Errorf("docs/scale.md does not know the field %s", f)
		}
	}
}
