package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"rally/internal/tools"
)

// tool is one tool of a server. Its permission is its name.
type tool struct {
	server *server
	name   string
	remote string // its name at the server
	text   string
	title  string
	schema inputSchema
}

// maxDescription bounds what a server may say in every request.
const maxDescription = 16 << 10

func newTool(s *server, t *sdk.Tool, taken names) (tools.Tool, error) {
	if t.Name == "" {
		return nil, errors.New("it has no name")
	}
	schema, err := mendSchema(t.InputSchema)
	if err != nil {
		return nil, err
	}
	name := taken.take(s.conf.Name, t.Name)
	if name == "" {
		return nil, errors.New("there are two of it")
	}
	text := strings.TrimSpace(t.Description)
	if text == "" {
		text = fmt.Sprintf("The tool %s of MCP server %s.", firstSet(t.Title, t.Name), s.conf.Name)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	return tool{server: s, name: name, remote: t.Name, text: cut(text, maxDescription), title: t.Title, schema: schema}, nil
}

func firstSet(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// Name implements tools.Tool.
func (t tool) Name() string { return t.name }

// Description implements tools.Tool.
func (t tool) Description() string { return t.text }

// Schema implements tools.Tool.
func (t tool) Schema() json.RawMessage { return t.schema.text }

// Access implements tools.Tool. Nobody knows what a server does: it may
// change files, whatever it says of itself.
func (t tool) Access(*tools.Env, json.RawMessage) ([]tools.Access, error) {
	return []tools.Access{{Permission: t.name, Patterns: []string{"*"}, Changes: true}}, nil
}

// Run implements tools.Tool.
func (t tool) Run(ctx context.Context, env *tools.Env, args json.RawMessage) (tools.Result, error) {
	if err := ctx.Err(); err != nil {
		return tools.Result{}, err
	}
	args, err := t.schema.originals(args)
	if err != nil {
		return tools.Result{}, err
	}
	params := &sdk.CallToolParams{Name: t.remote, Arguments: args}
	r, err := t.server.call(ctx, params, env.Progress)
	if err != nil {
		return tools.Result{}, err
	}
	return resultOf(t.server.conf.Name, r)
}

// originals gives the arguments that had to be renamed their own names back.
func (s inputSchema) originals(args json.RawMessage) (json.RawMessage, error) {
	if len(s.renamed) == 0 {
		return args, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(args, &members); err != nil {
		return nil, fmt.Errorf("decode the arguments: %w", err)
	}
	for name, original := range s.renamed {
		if v, ok := members[name]; ok {
			delete(members, name)
			members[original] = v
		}
	}
	return json.Marshal(members)
}

// errSilent ends a call that gave no sign of life.
var errSilent = errors.New("silent for too long")

// call calls a tool. A remote server that has forgotten us is connected to
// again and asked once more: it did not take the first call. A program that
// ended meanwhile is not: what the call did is not known.
func (s *server) call(ctx context.Context, params *sdk.CallToolParams, progress func(string)) (*sdk.CallToolResult, error) {
	for again := false; ; again = true {
		l, err := s.use(ctx)
		if err != nil {
			return nil, err
		}
		r, err := s.callOn(ctx, l, params, progress)
		if err == nil {
			return r, nil
		}
		if l.remote != nil && l.remote.gone() && !again && ctx.Err() == nil {
			l.stop()
			continue
		}
		return nil, s.callError(ctx, l, err)
	}
}

// callOn is one attempt of a call. Each sign of progress gives it its whole
// time again.
func (s *server) callOn(ctx context.Context, l *link, params *sdk.CallToolParams, progress func(string)) (*sdk.CallToolResult, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.life, func() { cancel(errEnding) })() //nolint:contextcheck // both of them end it
	silence := max(s.timeout, minSilence)
	timer := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer timer.Stop()
	token, forget := l.watch(func(p *sdk.ProgressNotificationParams) {
		timer.Reset(silence)
		if progress != nil {
			progress(progressLine(p))
		}
	})
	defer func() { forget(ctx.Err() != nil) }()
	one := *params
	one.Meta = nil // the SDK writes into it
	one.SetProgressToken(token)
	return await(ctx, s, func() (*sdk.CallToolResult, error) { return l.session.CallTool(ctx, &one) })
}

func progressLine(p *sdk.ProgressNotificationParams) string {
	line := fmt.Sprintf("%v", p.Progress)
	if p.Total > 0 {
		line += fmt.Sprintf(" of %v", p.Total)
	}
	if p.Message != "" {
		line += ": " + cut(p.Message, 2000)
	}
	return line
}

// callError says to the model what went wrong.
func (s *server) callError(ctx context.Context, l *link, err error) error {
	var wire *jsonrpc.Error
	name := s.conf.Name
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errEnding):
		return err
	case errors.Is(err, errSilent):
		return tell("MCP server %q gave neither an answer nor a sign of progress for %v, so the call was cancelled. "+
			"It may have done a part of its work: look before you repeat it.", name, max(s.timeout, minSilence))
	case l.program != nil && l.lost(err):
		l.stop() // it may not have noticed yet
		next := "It is started again with the next call."
		if s.reused.Load() {
			next = "It is not started a second time: go on without it."
		}
		return tell("MCP server %q was lost during the call; %v. It may have done a part of its work: look before you repeat it. %s",
			name, s.explain(ctx, l, err), next)
	case l.remote == nil && errors.As(err, &wire):
		return tell("MCP server %q refused the call: %s", name, cut(wire.Message, maxError))
	}
	return tell("The call to MCP server %q failed: %s", name, cut(s.explain(ctx, l, err).Error(), maxError))
}
