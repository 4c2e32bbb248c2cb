package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"rally/internal/tools"
)

// maxMessage bounds one message of a server.
const maxMessage = 64 << 20

// How a server's program is ended: its stdin is closed, then it has patience
// until TERM, and grace until KILL.
const (
	patience = 500 * time.Millisecond
	grace    = time.Second
)

// program is a server that runs here. It is a transport of the SDK's, too.
type program struct {
	service *tools.Service
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File
	said    *tail
	quiet   chan struct{} // closed when stderr is at its end
}

// startProgram starts command in dir. It is found by the PATH of environ, not
// by ours.
func startProgram(command []string, dir string, environ []string, mark string) (*program, error) {
	path, err := lookPath(command[0], dir, environ)
	if err != nil {
		return nil, err
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		closeAll(childIn, in)
		return nil, err
	}
	errs, childErr, err := os.Pipe()
	if err != nil {
		closeAll(childIn, in, out, childOut)
		return nil, err
	}
	//nolint:gosec,noctx // the user's config names it; its end is ours to order
	cmd := exec.Command(path, command[1:]...)
	cmd.Args[0] = command[0]
	cmd.Dir, cmd.Env = dir, environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, childErr
	service, err := tools.StartService(cmd, mark)
	closeAll(childIn, childOut, childErr) // the child has its own
	if err != nil {
		closeAll(in, out, errs)
		return nil, err
	}
	p := &program{service: service, stdin: in, stdout: out, stderr: errs, said: &tail{}, quiet: make(chan struct{})}
	go func() {
		defer close(p.quiet)
		_, _ = io.Copy(p.said, errs) // what it complains about is only for our own errors
	}()
	return p, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // pipe ends: nothing is lost
	}
}

// Connect implements sdk.Transport.
func (p *program) Connect(ctx context.Context) (sdk.Connection, error) {
	t := sdk.IOTransport{
		Reader: struct {
			io.Reader
			io.Closer
		}{newMessages(p.stdout), p.stdout},
		Writer: p.stdin, MaxLineLength: maxMessage,
	}
	return t.Connect(ctx)
}

// end closes stdin and returns when nothing of the program lives.
func (p *program) end() {
	closeAll(p.stdin)
	p.service.End(patience, grace)
	// A descendant that nobody could find may still hold the other ends.
	closeAll(p.stdout, p.stderr)
	<-p.quiet
}

// ended says how the program ended and what it said last. It gives a program
// that just closed its stdout a moment to be gone.
func (p *program) ended(ctx context.Context) string {
	late := time.NewTimer(patience)
	defer late.Stop()
	how := ""
	select {
	case <-p.service.Ended():
		how = "it ended with " + p.service.How()
	case <-ctx.Done():
	case <-late.C:
	}
	if last := p.said.lastLines(); last != "" {
		if how == "" {
			how = "it said"
		}
		how += ": " + last
	}
	return how
}

// lookPath finds a program as a shell in dir with environ would.
func lookPath(name, dir string, environ []string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	path := ""
	for _, kv := range environ {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		file := filepath.Join(folder, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("the program %q is not in the PATH", name)
}

// messages lets through the lines of a server's stdout that are messages.
// Launchers and careless servers print other things there, and the SDK ends
// the connection at the first of them.
type messages struct {
	in   *bufio.Reader
	rest []byte // of a line that is let through
	long bool   // the line goes on after rest
}

func newMessages(r io.Reader) *messages { return &messages{in: bufio.NewReaderSize(r, 64<<10)} }

// Read implements io.Reader.
func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		first := !m.long
		line, err := m.in.ReadSlice('\n')
		m.long = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !m.long && len(line) == 0 {
			return 0, err
		}
		if first {
			line = bytes.TrimLeft(line, " \t\r\ufeff")
		}
		if !first || isMessage(line, m.long) {
			m.rest = line
			continue
		}
		for m.long {
			_, err = m.in.ReadSlice('\n')
			m.long = errors.Is(err, bufio.ErrBufferFull)
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// isMessage judges a line, or the beginning of a long one.
func isMessage(line []byte, long bool) bool {
	return len(line) > 0 && (line[0] == '{' || line[0] == '[') && (long || bytes.Contains(line, []byte(`"jsonrpc"`)))
}

// tail keeps the end of what a program printed.
type tail struct {
	mu  sync.Mutex
	end []byte
}

const (
	maxTail  = 4 << 10
	maxLines = 5
)

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end = append(t.end, p...); len(t.end) > maxTail {
		t.end = append(t.end[:0], t.end[len(t.end)-maxTail:]...)
	}
	return len(p), nil
}

// lastLines is the end of it in one line.
func (t *tail) lastLines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(string(t.end), "?")) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return cut(strings.Join(lines[max(0, len(lines)-maxLines):], " / "), 600)
}

// cut shortens text for people.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
