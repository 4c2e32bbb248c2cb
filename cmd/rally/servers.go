package main

import (
	"context"
	"sync"

	"rally/internal/config"
	"rally/internal/llm"
	"rally/internal/session/prompt"
	"rally/internal/tools"
	"rally/internal/tools/mcp"
)

// servers is loop.Options.More: the configured MCP servers, started when the
// first turn is served and ended with the workshop; nil where there are none.
func (w *workshop) servers() func(context.Context) ([]tools.Tool, []prompt.ServerInstruction, error) {
	if len(w.cfg.MCP) == 0 {
		return nil
	}
	var once sync.Once
	var set *mcp.Set
	var err error
	return func(ctx context.Context) ([]tools.Tool, []prompt.ServerInstruction, error) {
		once.Do(func() {
			if set, err = w.startServers(ctx); err == nil {
				w.closers = append(w.closers, set.Close)
			}
		})
		if err != nil {
			return nil, nil, err
		}
		var said []prompt.ServerInstruction
		for _, i := range set.Instructions() {
			said = append(said, prompt.ServerInstruction{Server: i.Server, Text: i.Text})
		}
		return set.Tools(), said, nil
	}
}

func (w *workshop) startServers(ctx context.Context) (*mcp.Set, error) {
	via := llm.Transport{Getenv: w.app.env, CAFile: w.cfg.CAFile, Connect: w.cfg.Timeouts.Connect}
	client, err := via.Client()
	if err != nil {
		return nil, err
	}
	return mcp.Start(ctx, mcpServers(w.cfg), mcp.Options{
		Dir: w.directory, Environ: tools.ChildEnviron(w.app.environ, w.secretVariables()), Client: client,
		Reserved: w.toolNames(), Version: version, Notice: w.notice, Now: w.app.now,
	})
}

// mcpServers are the configuration's, in the words of package mcp.
func mcpServers(cfg *config.Config) []mcp.Server {
	var out []mcp.Server
	for _, m := range cfg.MCP {
		out = append(out, mcp.Server{
			Name: m.Name, Command: m.Command, Env: m.Env, URL: m.URL, Headers: m.Headers, Timeout: m.Timeout,
			Required: m.Required, Enabled: m.Enabled == nil || *m.Enabled,
		})
	}
	return out
}
