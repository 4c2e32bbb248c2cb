package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"rally/internal/llm"
	"rally/internal/llm/anthropic"
	"rally/internal/llm/openai"
	"rally/internal/llm/scripted"
	"rally/internal/session"
)

// scriptedID is the provider that answers from a script. A script is served on
// a loopback port of this process and spoken to like any other provider.
const (
	scriptedID      = "scripted"
	scriptedContext = 200_000
	scriptedOutput  = 8_192
)

// scriptNames are the built-in scripts.
func scriptNames() []string { return scripted.Builtin() }

// play serves the scripts of one process, each when it is first asked for. It
// is safe for concurrent use.
type play struct {
	app      *app
	ctx      context.Context // of the run; models are found without one
	timeouts llm.Timeouts
	strict   bool         // a request that is not the recorded one fails
	notice   func(string) // nil: differences are not named
	record   *scripted.Recorder

	mu      sync.Mutex
	playing map[string]*playing // by the model's id
}

// playing is a script that is served, and the client for it.
type playing struct {
	server *scripted.Server
	client llm.Provider
}

// script loads scripted/NAME or scripted/FILE.
func (p *play) script(ref session.Model) (*scripted.Script, error) {
	load := scripted.Load
	if ref.ID == "tour" {
		load = func(string) (*scripted.Script, error) { return scripted.Tour(p.app.hasProgram("go")) }
	}
	s, err := load(ref.ID)
	if err != nil {
		return nil, usagef("docs/scripted.md describes the format", "model %s: %w", ref, err)
	}
	return s, nil
}

func (p *play) find(ref session.Model) (llm.Provider, llm.Model, error) {
	model := llm.Model{
		Provider: scriptedID, ID: ref.ID, Context: scriptedContext, Output: scriptedOutput, Price: &llm.Price{},
		Reasoning: llm.ReasoningMode{ThinkTags: true},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.playing[ref.ID]
	if now == nil {
		var err error
		if now, err = p.begin(ref); err != nil {
			return nil, model, err
		}
		if p.playing == nil {
			p.playing = map[string]*playing{}
		}
		p.playing[ref.ID] = now
	}
	return now.client, model, nil
}

// begin serves a script and makes the client for the wire format it is
// recorded in.
func (p *play) begin(ref session.Model) (*playing, error) {
	script, err := p.script(ref)
	if err != nil {
		return nil, err
	}
	via, err := llm.Transport{Connect: p.timeouts.Connect}.Client()
	if err != nil {
		return nil, err
	}
	if p.record != nil {
		via = p.record.Wrap(via)
	}
	server, err := script.Serve(p.ctx, scripted.ServeOptions{Strict: p.strict})
	if err != nil {
		return nil, err
	}
	errs := llm.Classifier{Provider: scriptedID, Now: p.app.now}
	o := openai.Options{Provider: scriptedID, BaseURL: server.URL, Client: via, Timeouts: p.timeouts, Errors: errs}
	switch script.API() {
	case "messages":
		return &playing{server, anthropic.New(anthropic.Options{
			Provider: scriptedID, BaseURL: server.URL, Client: via, Timeouts: p.timeouts, Errors: errs,
		})}, nil
	case "responses":
		return &playing{server, openai.NewResponses(o)}, nil
	default:
		return &playing{server, openai.NewChat(o)}, nil
	}
}

// stage gives a script the files it wants to find, in a fresh folder that
// becomes the session's directory: nothing is written into the user's own.
// Without such files it is "".
func (p *play) stage(ref session.Model) (string, error) {
	script, err := p.script(ref)
	if err != nil || len(script.Files) == 0 {
		return "", err
	}
	dir, err := os.MkdirTemp(p.app.env("TMPDIR"), "rally-tour-")
	if err != nil {
		return "", fmt.Errorf("make a folder for %s: %w", ref, err)
	}
	for _, f := range script.Files {
		if err := writeStaged(dir, f); err != nil {
			return "", fmt.Errorf("write the files of %s: %w", ref, err)
		}
	}
	return filepath.EvalSymlinks(dir)
}

func writeStaged(dir string, f scripted.File) error {
	path := filepath.Join(dir, filepath.FromSlash(f.Path))
	if !filepath.IsLocal(filepath.FromSlash(f.Path)) {
		return fmt.Errorf("%s leaves the folder", f.Path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(f.Mode)
	if mode == 0 {
		mode = 0o644
	}
	return os.WriteFile(path, []byte(f.Content), mode)
}

func (p *play) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, now := range p.playing {
		if different := now.server.Differences(); len(different) > 0 && p.notice != nil {
			p.notice(fmt.Sprintf("the run differs from what %s recorded: %s", name, different[0]))
		}
		_ = now.server.Close() // it served only us
	}
}

// hasProgram reports whether the process's own PATH leads to a program.
func (p *process) hasProgram(name string) bool {
	for dir := range strings.SplitSeq(p.env("PATH"), string(os.PathListSeparator)) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
