package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"rally/internal/tools"
)

// ResourceContent is one piece of a resource: text, or base64 data.
type ResourceContent struct {
	URI  string
	Mime string
	Text string
	Blob string // base64
}

// Resource reads a resource of the named server. The error is prose.
func (s *Set) Resource(ctx context.Context, server, uri string) ([]ResourceContent, error) {
	r, err := s.read(ctx, server, uri)
	if err != nil {
		return nil, err
	}
	var out []ResourceContent
	for _, c := range r.Contents {
		if c == nil {
			continue
		}
		one := ResourceContent{URI: c.URI, Mime: c.MIMEType, Text: strings.ToValidUTF8(c.Text, "\uFFFD")}
		if len(c.Blob) > 0 {
			one.Blob = base64.StdEncoding.EncodeToString(c.Blob)
		}
		out = append(out, one)
	}
	return out, nil
}

func (s *Set) read(ctx context.Context, server, uri string) (*sdk.ReadResourceResult, error) {
	one, err := s.find(server)
	if err != nil {
		return nil, err
	}
	return ask(ctx, one, func(ctx context.Context, l *link) (*sdk.ReadResourceResult, error) {
		return l.session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
	})
}

// ask makes one request that may be repeated: where the connection was lost it
// is made on a new one.
func ask[T any](ctx context.Context, s *server, f func(context.Context, *link) (T, error)) (T, error) {
	var zero T
	limit, cancel := context.WithTimeoutCause(ctx, max(s.timeout, minSilence), errSilent)
	defer cancel()
	for again := false; ; again = true {
		l, err := s.use(limit)
		if err != nil {
			return zero, err
		}
		r, err := await(limit, s, func() (T, error) { return f(limit, l) })
		switch {
		case err == nil:
			return r, nil
		case limit.Err() != nil && ctx.Err() == nil:
			return zero, s.callError(ctx, l, errSilent)
		case again || ctx.Err() != nil || !l.lost(err) && (l.remote == nil || !l.remote.gone()):
			return zero, s.callError(ctx, l, err)
		}
		l.stop()
	}
}

// listResources and readResource are the tools for the resources of all
// servers.
type (
	listResources struct{ set *Set }
	readResource  struct{ set *Set }
)

// Name implements tools.Tool.
func (listResources) Name() string { return "list_mcp_resources" }

// Description implements tools.Tool.
func (listResources) Description() string {
	return "Lists the resources that the connected MCP servers offer (their names, addresses and what they are), " +
		"and the templates of addresses that can be filled in. Read one with read_mcp_resource."
}

// Schema implements tools.Tool.
func (listResources) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{
"server":{"type":"string","description":"The server to ask; all of them if absent"}},"additionalProperties":false}`)
}

// Access implements tools.Tool.
func (t listResources) Access(_ *tools.Env, args json.RawMessage) ([]tools.Access, error) {
	servers, err := t.servers(args)
	if err != nil {
		return nil, err
	}
	out := tools.Access{Permission: "read"}
	for _, one := range servers {
		out.Patterns = append(out.Patterns, "mcp:"+one.conf.Name+":*")
	}
	return []tools.Access{out}, nil
}

// servers are those that are asked: at least one.
func (t listResources) servers(args json.RawMessage) ([]*server, error) {
	var a struct {
		Server string `json:"server"`
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, fmt.Errorf("decode the arguments: %w", err)
	}
	var out []*server
	if a.Server != "" {
		one, err := t.set.find(a.Server)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	} else {
		for _, one := range t.set.servers {
			if one.offered().resources {
				out = append(out, one)
			}
		}
	}
	if len(out) == 0 {
		return nil, tell("No MCP server offers resources.")
	}
	return out, nil
}

// Run implements tools.Tool.
func (t listResources) Run(ctx context.Context, _ *tools.Env, args json.RawMessage) (tools.Result, error) {
	if err := ctx.Err(); err != nil {
		return tools.Result{}, err
	}
	servers, err := t.servers(args)
	if err != nil {
		return tools.Result{}, err
	}
	var b strings.Builder
	for _, one := range servers {
		r, err := one.resources(ctx)
		switch {
		case ctx.Err() != nil:
			return tools.Result{}, ctx.Err()
		case err != nil:
			fmt.Fprintf(&b, "%s: %v\n", one.conf.Name, err)
		case len(r) == 0:
			fmt.Fprintf(&b, "%s: no resources\n", one.conf.Name)
		}
		for _, line := range r {
			fmt.Fprintf(&b, "%s: %s\n", one.conf.Name, line)
		}
	}
	return tools.Result{Output: strings.TrimSuffix(b.String(), "\n")}, nil
}

// resources lists them, one line each, templates last.
func (s *server) resources(ctx context.Context) ([]string, error) {
	return ask(ctx, s, func(ctx context.Context, l *link) ([]string, error) {
		all, err := collect(l.session.Resources(ctx, nil))
		if err != nil {
			return nil, err
		}
		var out []string
		for _, r := range all {
			out = append(out, resourceLine(r.URI, r.Name, r.MIMEType, r.Description))
		}
		templates, err := collect(l.session.ResourceTemplates(ctx, nil))
		if err != nil && !isUnknownMethod(err) {
			return nil, err
		}
		for _, r := range templates {
			out = append(out, resourceLine(r.URITemplate, r.Name, r.MIMEType, r.Description)+" (template)")
		}
		return out, nil
	})
}

func resourceLine(uri, name, mime, description string) string {
	line := uri + " " + name
	if mime != "" {
		line += " (" + mime + ")"
	}
	if description != "" {
		line += " - " + cut(description, 200)
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(line, "?")), " ")
}

// Name implements tools.Tool.
func (readResource) Name() string { return "read_mcp_resource" }

// Description implements tools.Tool.
func (readResource) Description() string {
	return "Reads a resource of a connected MCP server by its address. list_mcp_resources says what there is."
}

// Schema implements tools.Tool.
func (readResource) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{
"server":{"type":"string","description":"The name of the server"},
"uri":{"type":"string","description":"The address of the resource"}},"required":["server","uri"],"additionalProperties":false}`)
}

type readArgs struct {
	Server string `json:"server"`
	URI    string `json:"uri"`
}

// Access implements tools.Tool.
func (t readResource) Access(_ *tools.Env, args json.RawMessage) ([]tools.Access, error) {
	var a readArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, fmt.Errorf("decode the arguments: %w", err)
	}
	if _, err := t.set.find(a.Server); err != nil {
		return nil, err
	}
	return []tools.Access{{Permission: "read", Patterns: []string{"mcp:" + a.Server + ":" + a.URI}}}, nil
}

// Run implements tools.Tool.
func (t readResource) Run(ctx context.Context, _ *tools.Env, args json.RawMessage) (tools.Result, error) {
	var a readArgs
	if err := json.Unmarshal(args, &a); err != nil {
		return tools.Result{}, fmt.Errorf("decode the arguments: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return tools.Result{}, err
	}
	r, err := t.set.read(ctx, a.Server, a.URI)
	if err != nil {
		return tools.Result{}, err
	}
	var out content
	for _, c := range r.Contents {
		out.resource(c)
	}
	out.omitted()
	text := strings.Join(out.texts, "\n\n")
	if text == "" && len(out.files) == 0 {
		text = "(the resource is empty)"
	}
	return tools.Result{Output: text, Title: a.URI, Attachments: out.files}, nil
}
