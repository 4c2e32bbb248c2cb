package prompt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"rally/internal/session"
)

// Input is what a user gives with a prompt.
type Input struct {
	Text string
	// Opaque are regions of Text where references are not looked for: what a
	// command's shell spans printed. In order, not overlapping.
	Opaque []Range
	// Parts are text, file, agent and subtask parts in the shape of an
	// export; they follow Text.
	Parts []session.Part
	Files []Attachment // they come last
}

// Lookup is what the names in a prompt may stand for, and the way to it.
type Lookup struct {
	// Root is tried before Directory. Both absolute; Home may be empty.
	Root, Directory, Home string
	Agents                []session.Agent
	References            []session.Reference

	// Stat looks at an absolute path, following links. It only tells whether
	// a name means a file; what is in it comes from Read alone.
	Stat func(path string) (fs.FileInfo, error)
	// Read is the read tool behind the permission gate; offset and limit are
	// 0 where not given. Its error is told to the model, a refusal included.
	Read func(ctx context.Context, path string, offset, limit int) (output string, attachments []*session.File, err error)
	// Resource reads an MCP resource; nil means there are no servers.
	Resource func(ctx context.Context, server, uri string) ([]ResourceContent, error)
	// TaskDenied reports that rules keep the model from starting an agent by
	// itself; nil means they do not.
	TaskDenied func(agent string) bool
}

// Expand turns input into the parts of a user message: each text unchanged,
// followed by what the references in it stand for, in their order and each
// once. What cannot be read becomes a text that says so: a prompt never fails
// here. The parts have no ids yet.
func Expand(ctx context.Context, in Input, look Lookup) []session.Part {
	x := &expansion{Lookup: look, seen: map[string]bool{}}
	x.read = func(path string, offset, limit int) (string, []*session.File, error) {
		return look.Read(ctx, path, offset, limit)
	}
	x.fetch = func(server, uri string) ([]ResourceContent, error) {
		if look.Resource == nil {
			return nil, fmt.Errorf("no MCP server %q is connected", server)
		}
		return look.Resource(ctx, server, uri)
	}
	if in.Text != "" {
		x.text(&session.Text{Text: in.Text}, in.Opaque)
	}
	for _, p := range in.Parts {
		x.part(p)
	}
	for _, f := range in.Files {
		x.file(x.abs(f.Path), filepath.Base(f.Path), f.Lines)
	}
	return x.out
}

// expansion is one call of Expand.
type expansion struct {
	Lookup
	read  func(path string, offset, limit int) (string, []*session.File, error)
	fetch func(server, uri string) ([]ResourceContent, error)
	seen  map[string]bool
	out   []session.Part
}

func (x *expansion) add(p session.Part) { x.out = append(x.out, p) }

// say adds a text of ours.
func (x *expansion) say(format string, args ...any) {
	x.add(&session.Text{Text: fmt.Sprintf(format, args...), Synthetic: true})
}

// once reports whether key is met for the first time.
func (x *expansion) once(key string) bool {
	if x.seen[key] {
		return false
	}
	x.seen[key] = true
	return true
}

func (x *expansion) text(t *session.Text, opaque []Range) {
	x.add(t)
	if t.Synthetic || t.Ignored {
		return
	}
	for _, m := range mentions(t.Text, opaque) {
		x.mention(m)
	}
}

// mention adds what a name stands for; nothing if it stands for nothing, but
// a text where it has the alias of a reference.
func (x *expansion) mention(m mention) {
	if !x.once(fmt.Sprintf("name\x00%t\x00%s", m.bracket, m.name)) {
		return
	}
	problem := ""
	for _, name := range candidates(m.name) {
		if name == "" {
			continue
		}
		if ref, rest, ok := x.alias(name); ok && !m.bracket {
			if problem = x.reference(ref, rest, name); problem == "" {
				return
			}
			continue
		}
		if x.path(name) || !m.bracket && x.agent(name) {
			return
		}
	}
	if problem != "" && x.once(problem) {
		x.say("%s", problem)
	}
}

// alias finds the folder outside the project that the first element of name
// stands for.
func (x *expansion) alias(name string) (ref session.Reference, rest string, ok bool) {
	alias, rest, _ := strings.Cut(name, "/")
	for _, r := range x.References {
		if r.Name == alias {
			return r, rest, true
		}
	}
	return session.Reference{}, "", false
}

// reference takes a path within a reference, or says what is wrong with it.
func (x *expansion) reference(ref session.Reference, rest, name string) (problem string) {
	target := filepath.Join(ref.Path, filepath.FromSlash(rest))
	if !inside(ref.Path, target) {
		return fmt.Sprintf("Path escapes configured reference @%s: %s", ref.Name, rest)
	}
	if !x.whole(target, name) {
		return fmt.Sprintf("Path does not exist inside configured reference @%s: %s", ref.Name, rest)
	}
	return ""
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// path takes name if it is that of a file or folder, seen from the home
// directory, the project's root or the directory.
func (x *expansion) path(name string) bool {
	if name == "~" || strings.HasPrefix(name, "~/") {
		return x.Home != "" && x.whole(filepath.Join(x.Home, name[1:]), name)
	}
	local := filepath.FromSlash(name)
	if filepath.IsAbs(local) {
		return x.whole(local, name)
	}
	return x.whole(filepath.Join(x.Root, local), name) ||
		x.Directory != x.Root && x.whole(filepath.Join(x.Directory, local), name)
}

func (x *expansion) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(x.Directory, path)
}

// whole takes path if it exists, as it is or without a range of lines.
func (x *expansion) whole(path, name string) bool {
	if x.exists(path) {
		x.file(path, name, Lines{})
		return true
	}
	short, lines, ok := cutLines(path)
	if !ok || !x.exists(short) {
		return false
	}
	name, _, _ = cutLines(name)
	x.file(short, name, lines)
	return true
}

// exists reports whether something is at path. A place that may not be looked
// at counts: the read says what the matter is.
func (x *expansion) exists(path string) bool {
	if strings.ContainsRune(path, 0) {
		return false
	}
	_, err := x.Stat(path)
	return err == nil || errors.Is(err, fs.ErrPermission)
}

// file adds what the read tool shows of path, in the form of a call that has
// been made, and the file itself.
func (x *expansion) file(path, name string, lines Lines) {
	path = filepath.Clean(path)
	if !x.once(fmt.Sprintf("%s\x00%d-%d", path, lines.From, lines.To)) {
		return
	}
	offset, limit := lines.offsetLimit()
	output, attachments, err := x.read(path, offset, limit)
	if err != nil {
		x.say("Read tool failed to read %s with the following error: %s", path, err)
		return
	}
	x.say("Called the Read tool with the following input: %s", callText(path, offset, limit))
	x.say("%s", output)
	if len(attachments) == 0 {
		x.add(&session.File{Mime: x.mime(path), Filename: name, URL: fileURL(path)})
	}
	for _, f := range attachments {
		if f.Filename == "" {
			f.Filename = name
		}
		x.add(f)
	}
}

// mime is the kind of what the read tool showed as text.
func (x *expansion) mime(path string) string {
	if info, err := x.Stat(path); err == nil && info.IsDir() {
		return mimeDirectory
	}
	return mimeText
}

const (
	mimeText      = "text/plain"
	mimeDirectory = "application/x-directory"
)

// callText is the input of a read call as JSON.
func callText(path string, offset, limit int) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		FilePath string `json:"filePath"`
		Offset   int    `json:"offset,omitempty"`
		Limit    int    `json:"limit,omitempty"`
	}{path, offset, limit})
	if err != nil { // strings and numbers always encode
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// agent takes name if it is that of an agent the task tool can start.
func (x *expansion) agent(name string) bool {
	for _, a := range x.Agents {
		if a.Name == name && !a.Hidden && a.Mode != session.ModePrimary {
			if x.once("agent\x00" + name) {
				x.agentRef(&session.AgentRef{Name: name})
			}
			return true
		}
	}
	return false
}

// agentRef adds the agent and asks the model to start it.
func (x *expansion) agentRef(ref *session.AgentRef) {
	hint := ""
	if x.TaskDenied != nil && x.TaskDenied(ref.Name) {
		hint = " Invoked by user; guaranteed to exist."
	}
	x.add(ref)
	x.say("Use the message and context above to write a prompt, and call the task tool with it and with subagent: %s.%s", ref.Name, hint)
}
