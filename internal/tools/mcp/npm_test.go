package mcp

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rally/internal/tools"
)

// published installs the servers that everybody knows, once a machine.
func published(t *testing.T) (bin string) {
	t.Helper()
	if testing.Short() {
		t.Skip("npm packages are not installed with -short")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed: ", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip("there is no cache folder for npm packages: ", err)
	}
	dir := filepath.Join(cache, "rally-test-mcp")
	bin = filepath.Join(dir, "node_modules", ".bin")
	if _, err := os.Stat(filepath.Join(bin, "mcp-server-filesystem")); err == nil {
		return bin
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts",
		"@modelcontextprotocol/server-everything@2026.8.31", "@modelcontextprotocol/server-filesystem@2026.8.31")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("npm cannot install the servers here: %v: %.500s", err, out)
	}
	return bin
}

// everything is a call of each tool that server-everything has.
var everything = map[string]string{
	"echo": `{"message":"hello"}`, "get-sum": `{"a":2,"b":3}`, "get-annotated-message": `{"messageType":"error","includeImage":true}`,
	"get-structured-content": `{"location":"New York"}`, "get-resource-reference": `{"resourceType":"Text","resourceId":1}`,
	"get-resource-links": `{"count":2}`, "simulate-research-query": `{"topic":"tea"}`, "trigger-long-running-operation": `{"duration":1,"steps":3}`,
	"gzip-file-as-resource": `{"name":"x.gz","data":"data:text/plain,hello","outputType":"resource"}`,
}

func TestServerEverything(t *testing.T) {
	bin := published(t)
	set, said := begin(t, Options{}, Server{
		Name: "every", Command: []string{filepath.Join(bin, "mcp-server-everything")}, Enabled: true, Timeout: 30 * time.Second,
	})
	if len(*said) > 0 {
		t.Fatal(*said)
	}
	outputs := map[string]tools.Result{}
	for _, tool := range set.Tools() {
		name, ours := strings.CutPrefix(tool.Name(), "every_")
		if !ours {
			continue
		}
		args, err := tools.Arguments(tool.Schema(), everything[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r, err := tool.Run(t.Context(), &tools.Env{}, args)
		// Tasks are an experiment that the SDK does not have.
		if err != nil && !strings.Contains(err.Error(), "requires task augmentation") {
			t.Errorf("%s: %v", name, err)
		}
		outputs[name] = r
	}
	if len(outputs) < 10 {
		t.Errorf("%d tools", len(outputs))
	}
	for name, want := range map[string]string{"echo": "Echo: hello", "get-sum": "5", "get-structured-content": "temperature", "trigger-long-running-operation": "completed"} {
		if !strings.Contains(outputs[name].Output, want) {
			t.Errorf("%s: %q", name, outputs[name].Output)
		}
	}
	if n := len(outputs["get-tiny-image"].Attachments); n != 1 {
		t.Errorf("%d images", n)
	}
	if got := output(t, set, "list_mcp_resources", ""); !strings.Contains(got, "demo://") {
		t.Error(got)
	}
	if len(set.Prompts()) == 0 || len(set.Instructions()) != 1 {
		t.Errorf("%v %v", set.Prompts(), set.Instructions())
	}
	set.Close()
	gone(t, "mcp-server-everything")
}

func TestServerFilesystem(t *testing.T) {
	bin := published(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "a.txt")
	set, said := begin(t, Options{Dir: t.TempDir()}, Server{
		Name: "files", Command: []string{filepath.Join(bin, "mcp-server-filesystem"), dir}, Enabled: true, Timeout: 30 * time.Second,
	})
	if len(*said) > 0 {
		t.Fatal(*said)
	}
	args, err := json.Marshal(map[string]string{"path": file, "content": "written"})
	if err != nil {
		t.Fatal(err)
	}
	output(t, set, "files_write_file", string(args))
	if got, err := os.ReadFile(file); string(got) != "written" {
		t.Error(string(got), err)
	}
	fails(t, set, "files_write_file", `{"path":"/etc/rally","content":""}`, "outside allowed directories")
}
