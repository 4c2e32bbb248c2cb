package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"rally/internal/session"
	"rally/internal/tools"
)

const (
	maxError = 8 << 10  // of what a server says that failed
	maxBlob  = 10 << 20 // of what is attached
)

// resultOf makes a result of a server's answer: its texts separated by blank
// lines, and what models can look at as attachments. Whatever is left out is
// named in the text.
func resultOf(server string, r *sdk.CallToolResult) (tools.Result, error) {
	var out content
	for _, c := range r.Content {
		out.add(c)
	}
	if r.StructuredContent != nil && !out.holds(r.StructuredContent) {
		if text, err := plainJSON(r.StructuredContent); err == nil {
			out.say("%s", text)
		}
	}
	out.omitted()
	text := strings.Join(out.texts, "\n\n")
	if r.IsError {
		if strings.TrimSpace(text) == "" {
			return tools.Result{}, tell("The tool of MCP server %q failed and did not say why.", server)
		}
		return tools.Result{}, told(cut(text, maxError))
	}
	if text == "" && len(out.files) == 0 {
		text = "(no output)"
	}
	return tools.Result{Output: text, Attachments: out.files}, nil
}

// content collects what came.
type content struct {
	texts  []string
	files  []*session.File
	broken int // images that could not be made to fit
}

func (c *content) say(format string, args ...any) {
	c.texts = append(c.texts, fmt.Sprintf(format, args...))
}

func (c *content) add(item sdk.Content) {
	switch v := item.(type) {
	case *sdk.TextContent:
		if v.Text != "" {
			c.texts = append(c.texts, strings.ToValidUTF8(v.Text, "\uFFFD"))
		}
	case *sdk.ImageContent:
		c.blob(v.Data, v.MIMEType, "")
	case *sdk.AudioContent:
		c.say("[Audio omitted: %s, %d bytes]", firstSet(v.MIMEType, "unknown type"), len(v.Data))
	case *sdk.ResourceLink:
		c.say("[Resource %s: %s]", v.URI, strings.Join(strings.Fields(firstSet(v.Title, v.Name)+" "+v.Description), " "))
	case *sdk.EmbeddedResource:
		c.resource(v.Resource)
	default:
		c.say("[Content of an unknown kind omitted]")
	}
}

func (c *content) resource(r *sdk.ResourceContents) {
	switch {
	case r == nil:
	case r.Text != "":
		c.texts = append(c.texts, strings.ToValidUTF8(r.Text, "\uFFFD"))
	case len(r.Blob) > 0:
		c.blob(r.Blob, r.MIMEType, r.URI)
	}
}

// blob attaches what models take; name is empty for what has none.
func (c *content) blob(data []byte, mime, name string) {
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		fit, fitMime, _, err := tools.FitImage(data, mime)
		if err != nil {
			c.broken++
			return
		}
		data, mime = fit, fitMime
	case "application/pdf":
	default:
		c.say("[Binary content omitted: %s (%s, %d bytes) is not a supported attachment type]",
			firstSet(name, "a part"), firstSet(mime, "unknown type"), len(data))
		return
	}
	if len(data) > maxBlob {
		c.say("[Binary content omitted: %s (%s, %d bytes) exceeds 10 MB]", firstSet(name, "a part"), mime, len(data))
		return
	}
	url := "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
	c.files = append(c.files, &session.File{Mime: mime, Filename: name, URL: url})
}

func (c *content) omitted() {
	switch {
	case c.broken == 1:
		c.say("[1 image omitted: could not be resized below the image size limit.]")
	case c.broken > 1:
		c.say("[%d images omitted: could not be resized below the image size limit.]", c.broken)
	}
}

// holds reports whether one of the texts is the JSON of v already, as the
// protocol asks servers to do for old clients.
func (c *content) holds(v any) bool {
	for _, text := range c.texts {
		var other any
		if json.Unmarshal([]byte(text), &other) == nil && reflect.DeepEqual(v, other) {
			return true
		}
	}
	return false
}

func plainJSON(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSpace(b.String()), err
}
