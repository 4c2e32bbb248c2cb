package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// block is the one code block of docs/scale.md with this first line.
func block(t *testing.T, language, first string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "```"+language+"\n"+first)
	text, _, closed := strings.Cut(after, "\n```")
	if !ok || !closed {
		t.Fatalf("docs/scale.md has no block of %s that begins with %q", language, first)
	}
	return first + text + "\n"
}

// The members of an array job, as the scheduler starts them with the script of
// the page, do every task once between them.
func checkMembers(t *testing.T, script string, members [][]string) {
	t.Helper()
	w := newWorld(t, func(rw http.ResponseWriter, _ int, _ string) { answer(rw) })
	w.tasks(20)
	script = strings.NewReplacer("/tasks/", w.dir+"/", "/results/", w.dir+"/results/", "/sessions/", w.dir+"/results/").Replace(script)
	w.write("job.sh", script)
	w.write("results/.keep", "")
	for _, environ := range members {
		cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(w.dir, "job.sh"))
		cmd.Dir = w.dir
		cmd.Env = append(append(w.environ, "SLURM_SUBMIT_DIR="+w.dir), environ...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", environ, err, out)
		}
	}
	parts, err := filepath.Glob(filepath.Join(w.dir, "results", "*.jsonl"))
	if len(parts) != len(members) || err != nil {
		t.Fatalf("the result files are %v, %v", parts, err)
	}
	if out, err := w.rally(t.Context(), append([]string{"batch", "merge", "-o", "all.jsonl"}, parts...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if done := w.completed("all.jsonl"); len(done) != 20 || len(w.came) != 20 {
		t.Errorf("%d tasks were completed with %d requests", len(done), len(w.came))
	}
}

func TestSlurmScript(t *testing.T) {
	script := block(t, "bash", "#!/bin/bash")
	array := regexp.MustCompile(`(?m)^#SBATCH --array=1-(\d+)$`).FindStringSubmatch(script)
	if array == nil {
		t.Fatal("the script is no array")
	}
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "#SBATCH") && !regexp.MustCompile(`^#SBATCH --[a-z-]+=\S+\n$`).MatchString(line) {
			t.Errorf("not an option: %s", line)
		}
	}
	n, err := strconv.Atoi(array[1])
	if err != nil {
		t.Fatal(err)
	}
	var members [][]string
	for i := 1; i <= n; i++ {
		members = append(members, []string{"SLURM_ARRAY_TASK_ID=" + strconv.Itoa(i), "SLURM_ARRAY_TASK_COUNT=" + array[1], "SLURM_ARRAY_TASK_MIN=1"})
	}
	checkMembers(t, script, members)
}

// indexedJob is what a manifest of ours may hold: the decoder is strict, so a
// field that is misspelt or in the wrong place is found here.
type indexedJob struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		CompletionMode       string `yaml:"completionMode"`
		Completions          int
		Parallelism          int
		BackoffLimitPerIndex int `yaml:"backoffLimitPerIndex"`
		PodFailurePolicy     struct {
			Rules []struct {
				Action          string
				OnPodConditions []struct{ Type, Status string } `yaml:"onPodConditions"`
				OnExitCodes     *struct {
					ContainerName string `yaml:"containerName"`
					Operator      string
					Values        []int
				} `yaml:"onExitCodes"`
			}
		} `yaml:"podFailurePolicy"`
		Template struct {
			Spec struct {
				RestartPolicy                 string `yaml:"restartPolicy"`
				TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
				Containers                    []container
				Volumes                       []struct {
					Name                  string
					ConfigMap             *struct{ Name string } `yaml:"configMap"`
					PersistentVolumeClaim *struct {
						ClaimName string `yaml:"claimName"`
					} `yaml:"persistentVolumeClaim"`
					EmptyDir *struct{} `yaml:"emptyDir"`
				}
			}
		}
	}
}

type container struct {
	Name, Image   string
	Command, Args []string
	Env           []struct {
		Name, Value string
		ValueFrom   *struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Resources    struct{ Requests, Limits map[string]string }
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

func TestKubernetesManifest(t *testing.T) {
	var job indexedJob
	dec := yaml.NewDecoder(bytes.NewReader([]byte(block(t, "yaml", "apiVersion: batch/v1"))))
	dec.KnownFields(true)
	if err := dec.Decode(&job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || job.Spec.CompletionMode != "Indexed" || len(pod.Containers) != 1 {
		t.Fatalf("not an Indexed Job of one container: %+v", job)
	}
	// A policy by exit codes is only allowed where pods are never restarted,
	// and FailIndex only with a limit for each index.
	if pod.RestartPolicy != "Never" || job.Spec.BackoffLimitPerIndex == 0 {
		t.Error("the failure policy would be refused")
	}
	c := pod.Containers[0]
	for _, rule := range job.Spec.PodFailurePolicy.Rules {
		if rule.OnExitCodes != nil && rule.OnExitCodes.ContainerName != c.Name {
			t.Errorf("a rule is about container %q", rule.OnExitCodes.ContainerName)
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %q", m.Name)
		}
	}
	count := ""
	for _, e := range c.Env {
		if e.Name == "JOB_COMPLETION_COUNT" {
			count = e.Value
		}
	}
	if count != strconv.Itoa(job.Spec.Completions) || len(c.Args) != 1 || strings.Join(c.Command, " ") != "/bin/sh -c" {
		t.Fatalf("%d completions, count %q, command %q", job.Spec.Completions, count, c.Command)
	}
	var members [][]string
	for i := range job.Spec.Completions {
		members = append(members, []string{"JOB_COMPLETION_INDEX=" + strconv.Itoa(i), "JOB_COMPLETION_COUNT=" + count})
	}
	checkMembers(t, c.Args[0], members)
}
