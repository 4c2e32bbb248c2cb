package prompt

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"rally/internal/session"
)

// part adds a part that a caller gave ready made.
func (x *expansion) part(p session.Part) {
	switch p := p.(type) {
	case *session.Text:
		x.text(p, nil)
	case *session.File:
		x.givenFile(p)
	case *session.AgentRef:
		if x.once("agent\x00" + p.Name) {
			x.agentRef(p)
		}
	case *session.Subtask:
		x.add(p)
	case *session.Reasoning, *session.Tool, *session.StepStart, *session.StepFinish, *session.Snapshot,
		*session.Patch, *session.Retry, *session.Compaction:
		x.say("A %s part cannot be part of a prompt and was left out.", p.Kind())
	}
}

// givenFile expands a file part by where its content is.
func (x *expansion) givenFile(f *session.File) {
	if server, uri, ok := resourceOf(f); ok {
		x.resource(f, server, uri)
		return
	}
	scheme, rest, _ := strings.Cut(f.URL, ":")
	switch scheme {
	case "data":
		x.dataFile(f, rest)
	case "file":
		u, err := url.Parse(f.URL)
		if err != nil || u.Path == "" {
			x.say("The attached file %s was left out: %q is not the URL of a file.", f.Filename, f.URL)
			return
		}
		path := filepath.FromSlash(u.Path)
		name := f.Filename
		if name == "" {
			name = path
		}
		x.file(path, name, queryLines(u.Query()))
	default:
		x.add(f)
	}
}

// queryLines reads the range of file:///a.go?start=10&end=20.
func queryLines(q url.Values) Lines {
	from, err := strconv.Atoi(q.Get("start"))
	if err != nil {
		return Lines{}
	}
	to, err := strconv.Atoi(q.Get("end"))
	if err != nil {
		to = 0
	}
	return Lines{From: max(from, 1), To: to}
}

// dataFile adds a file whose content is in its URL. Only text needs to be
// written out; media go to the model as they are.
func (x *expansion) dataFile(f *session.File, rest string) {
	if f.Mime != mimeText {
		x.add(f)
		return
	}
	head, body, _ := strings.Cut(rest, ",")
	text, err := url.PathUnescape(body)
	if strings.HasSuffix(head, ";base64") {
		var raw []byte
		raw, err = base64.StdEncoding.DecodeString(body)
		text = string(raw)
	}
	if err != nil {
		x.say("The attached file %s was left out: its content cannot be decoded: %s", f.Filename, err)
		return
	}
	x.say("Called the Read tool with the following input: %s", callText(f.Filename, 0, 0))
	x.say("%s", strings.ToValidUTF8(text, "\uFFFD"))
	x.add(f)
}

// ResourceContent is one piece of an MCP resource: text, or base64 data.
type ResourceContent struct {
	URI  string
	Mime string
	Text string
	Blob string // base64
}

// maxBlob is how many bytes of a resource become an attachment.
const maxBlob = 10 << 20

// resourceOf is the server and address of a file part that stands for an MCP
// resource.
func resourceOf(f *session.File) (server, uri string, ok bool) {
	var source struct {
		Type   string `json:"type"`
		Client string `json:"clientName"`
		URI    string `json:"uri"`
	}
	if len(f.Source) == 0 || json.Unmarshal(f.Source, &source) != nil || source.Type != "resource" {
		return "", "", false
	}
	return source.Client, source.URI, true
}

func (x *expansion) resource(f *session.File, server, uri string) {
	if !x.once("resource\x00" + server + "\x00" + uri) {
		return
	}
	x.say("Reading MCP resource: %s (%s)", f.Filename, uri)
	contents, err := x.fetch(server, uri)
	if err != nil {
		x.say("Failed to read MCP resource %s: %s", f.Filename, err)
		return
	}
	if len(contents) == 0 {
		x.say("MCP resource %s is empty.", f.Filename)
	}
	for _, c := range contents {
		if c.Text != "" {
			x.say("%s", c.Text)
		}
		if c.Blob != "" {
			x.blob(f, c)
		}
	}
}

// blob attaches binary content of a kind and size that models take.
func (x *expansion) blob(f *session.File, c ResourceContent) {
	mime, name := c.Mime, c.URI
	if mime == "" {
		mime = f.Mime
	}
	if name == "" {
		name = f.Filename
	}
	data := strings.Join(strings.Fields(c.Blob), "")
	size := len(data)*3/4 - strings.Count(data[max(len(data)-2, 0):], "=")
	switch mime {
	case "application/pdf", "image/gif", "image/jpeg", "image/png", "image/webp":
	default:
		x.say("[Binary MCP resource omitted: %s (%s, %s) is not a supported attachment type]", name, mime, byteSize(size))
		return
	}
	if size > maxBlob {
		x.say("[Binary MCP resource omitted: %s (%s, %s) exceeds 10 MB]", name, mime, byteSize(size))
		return
	}
	x.say("[Binary MCP resource attached: %s (%s)]", name, mime)
	x.add(&session.File{Mime: mime, Filename: name, URL: "data:" + mime + ";base64," + data})
}

// byteSize prints a size for people, rounded up.
func byteSize(n int) string {
	const kb, mb = 1 << 10, 1 << 20
	switch {
	case n < kb:
		return strconv.Itoa(n) + " B"
	case n < mb:
		return strconv.Itoa((n+kb-1)/kb) + " KB"
	}
	return strconv.Itoa((n+mb-1)/mb) + " MB"
}
