package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// modeVariable makes the test binary a server, or a rally that is killed.
const modeVariable = "MCP_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		os.Exit(serve(mode))
	}
	goleak.VerifyTestMain(m)
}

// serve is a server with a way to misbehave.
func serve(mode string) int {
	switch mode {
	case "dies":
		fmt.Fprintln(os.Stderr, "no database\nat port 5")
		return 3
	case "silent":
		time.Sleep(time.Hour)
	case "deaf": // neither reads nor ends
		signal.Ignore(syscall.SIGTERM, syscall.SIGPIPE)
		time.Sleep(time.Hour)
	case "parent":
		return parent()
	case "junk":
		fmt.Println("npm notice: a new version\n{\"level\":\"info\"}\n[INFO] ready\n\n" + strings.Repeat("x", 200<<10))
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	forkIfAsked(mode)
	in := io.Reader(os.Stdin)
	err := newTestServer(mode).Run(context.Background(), &sdk.IOTransport{
		Reader: io.NopCloser(in), Writer: stdout{}, MaxLineLength: maxMessage,
	})
	if mode == "stubborn" {
		time.Sleep(time.Hour)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 0
}

type stdout struct{}

func (stdout) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdout) Close() error                { return nil }

func forkIfAsked(mode string) {
	if mode != "forks" {
		return
	}
	for _, c := range []string{"exec sleep 412.25", "trap '' TERM; exec sleep 412.25", "exec setsid sleep 412.25"} {
		cmd := exec.Command("sh", "-c", c)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // they hold the pipes open
		_ = cmd.Start()
	}
}

func newTestServer(mode string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1.2"}, &sdk.ServerOptions{Instructions: "Use echo. " + mode})
	add := func(name string, f sdk.ToolHandler) {
		s.AddTool(&sdk.Tool{Name: name, Description: "Does " + name, InputSchema: json.RawMessage(`{"type":"object"}`)}, f)
	}
	text := func(t string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: t}}}
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("said " + string(r.Params.Arguments)), nil
	})
	add("environ", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		dir, _ := os.Getwd()
		return text(dir + "\n" + strings.Join(os.Environ(), "\n")), nil
	})
	add("big", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(strings.Repeat("0123456789abcdef", 20<<20/16)), nil
	})
	add("fails", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := text("the disk is full")
		r.IsError = true
		return r, nil
	})
	add("crash", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "panic: at the disco")
		os.Exit(7)
		return nil, nil
	})
	add("pid", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(fmt.Sprint(os.Getpid())), nil
	})
	add("mixed", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return mixed(), nil })
	add("hang", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
			return nil, errors.New("nobody told it to stop")
		}
		if os.Getenv(modeVariable) != "" { // a process of its own, in a directory of its own
			_ = os.WriteFile("cancelled", []byte("yes"), 0o600)
		}
		return nil, ctx.Err()
	})
	add("steps", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 6 {
			time.Sleep(100 * time.Millisecond)
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 6, Message: "step",
			})
		}
		return text("all steps"), nil
	})
	add("flood", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		line := strings.Repeat("y", 1000) + "\n"
		for range 20_000 {
			_, _ = os.Stderr.WriteString(line)
		}
		for i := range 20_000 {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: "nobody's", Progress: float64(i)})
		}
		return text("flooded"), nil
	})
	add("grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		add("fresh", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("new"), nil })
		return text("grown"), nil
	})
	s.AddResource(&sdk.Resource{URI: "test://text", Name: "text", MIMEType: "text/plain"}, resource)
	s.AddResource(&sdk.Resource{URI: "test://blob", Name: "blob", MIMEType: "image/png"}, resource)
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://n/{n}", Name: "numbers"}, resource)
	s.AddPrompt(&sdk.Prompt{Name: "fix it", Description: "Fixes", Arguments: []*sdk.PromptArgument{
		{Name: "what", Required: true}, {Name: "how"},
	}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
			{Role: "user", Content: &sdk.TextContent{Text: fmt.Sprintf("Fix %s <%s>", r.Params.Arguments["what"], r.Params.Arguments["how"])}},
			{Role: "user", Content: &sdk.TextContent{Text: "Now."}},
		}}, nil
	})
	s.AddReceivingMiddleware(oddities(mode))
	return s
}

// oddities change what a well-behaved server would answer.
func oddities(mode string) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if mode == "modern" && method == "initialize" {
				return nil, fmt.Errorf("%w", errUnknownMethod())
			}
			out, err := next(ctx, method, r)
			if list, ok := out.(*sdk.ListToolsResult); ok && mode == "odd" {
				list.Tools = append(list.Tools,
					&sdk.Tool{Name: "echo.it/now", InputSchema: json.RawMessage(`{}`)},
					&sdk.Tool{Name: "echo.it_now", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"array"}}}`)},
					&sdk.Tool{Name: strings.Repeat("long", 20), InputSchema: json.RawMessage(`{}`)},
					&sdk.Tool{Name: "broken", InputSchema: json.RawMessage(`{"type":"string"}`)},
				)
			}
			return out, err
		}
	}
}

func resource(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	one := &sdk.ResourceContents{URI: r.Params.URI, Text: "content of " + r.Params.URI, MIMEType: "text/plain"}
	switch r.Params.URI {
	case "test://blob":
		one.Text, one.Blob, one.MIMEType = "", picture(), "image/png"
	case "test://n/0":
		return nil, sdk.ResourceNotFoundError(r.Params.URI)
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{one}}, nil
}

func picture() []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2)))
	return b.Bytes()
}

func mixed() *sdk.CallToolResult {
	return &sdk.CallToolResult{
		StructuredContent: map[string]any{"n": 1},
		Content: []sdk.Content{
			&sdk.TextContent{Text: "first"},
			&sdk.ImageContent{Data: picture(), MIMEType: "image/png"},
			&sdk.ImageContent{Data: []byte("no image"), MIMEType: "image/png"},
			&sdk.AudioContent{Data: []byte("la"), MIMEType: "audio/wav"},
			&sdk.ResourceLink{URI: "test://x", Name: "x", Description: "an x"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "test://t", Text: "embedded"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "test://z", Blob: []byte("zip"), MIMEType: "application/zip"}},
		},
	}
}

// parent is a rally that is killed: it says when its servers are up.
func parent() int {
	set, err := Start(context.Background(), []Server{self("kid", "stubborn"), self("cat", "plain")}, Options{Dir: ".", Environ: os.Environ()})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("up", len(set.Tools()))
	time.Sleep(time.Hour)
	return 0
}

// self is the test binary as a server.
func self(name, mode string) Server {
	exe, _ := os.Executable()
	exe, _ = filepath.Abs(exe)
	return Server{
		Name: name, Command: []string{exe, "mode=" + mode}, Env: []string{modeVariable + "=" + mode},
		Enabled: true, Timeout: 20 * time.Second,
	}
}
