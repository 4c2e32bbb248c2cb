package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"rally/internal/session"
)

// A journal is the log of one invocation: JSON lines in the file of
// --log-file, or on stderr. It is for finding out what happened, not a second
// output: it holds no prompt, no answer and no tool output. Without either
// flag it is off and costs nothing.
type journal struct {
	*slog.Logger
	masked *masker
	file   *os.File
}

// openJournal prepares the log; close ends it.
func (a *app) openJournal() (*journal, error) {
	level, path := firstSet(a.global.logLevel, a.env("RALLY_LOG_LEVEL")), a.global.logFile
	if level == "" && path == "" {
		return &journal{Logger: slog.New(slog.DiscardHandler), masked: &masker{}}, nil
	}
	var threshold slog.Level
	if level != "" {
		if err := threshold.UnmarshalText([]byte(level)); err != nil {
			return nil, usagef("debug, info, warn or error", "--log-level: %q is not a level", level)
		}
	}
	j := &journal{masked: &masker{w: a.stderr}}
	if path != "" {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, usagef("choose another file for --log-file", "the log cannot be written: %w", err)
		}
		j.file, j.masked.w = file, file
	}
	j.Logger = slog.New(slog.NewJSONHandler(j.masked, &slog.HandlerOptions{Level: threshold})).With("pid", a.pid)
	return j, nil
}

func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Close() // a log that cannot be closed has nobody left to tell
	}
}

// event notes what a turn reports, by name and ids.
func (j *journal) event(ctx context.Context, e session.Event) {
	level, attrs := slog.LevelInfo, []slog.Attr{slog.String("session", e.SessionID)}
	switch b := e.Body.(type) {
	case session.Delta:
		return
	case session.Opened:
		attrs = append(attrs, slog.String("directory", b.Session.Directory), slog.String("agent", b.Session.Agent), slog.String("model", b.Session.Model.String()))
	case session.TurnBegan:
		attrs = append(attrs, slog.String("turn", b.TurnID))
	case session.PartStarted:
		level, attrs = slog.LevelDebug, append(attrs, partAttrs(b.Part)...)
	case session.PartEnded:
		level, attrs = slog.LevelDebug, append(attrs, partAttrs(b.Part)...)
	case session.Discard:
		attrs = append(attrs, slog.String("message", b.MessageID))
	case session.Permission:
		attrs = append(attrs, slog.String("tool", b.Tool), slog.String("action", string(b.Action)), slog.String("rule", b.Rule))
	case session.StatusChanged:
		attrs = append(attrs, slog.String("status", string(b.Status.Type)), slog.Int("attempt", b.Status.Attempt), slog.String("text", b.Status.Message))
	case session.Compacted:
		attrs = append(attrs, slog.Int64("before", b.Before), slog.Int64("after", b.After))
	case session.Failed:
		level = slog.LevelError
		attrs = append(attrs, slog.String("error", string(b.Error.Name)), slog.Int("status", b.Error.Data.StatusCode), slog.String("text", b.Error.Data.Message))
	case session.TurnEnded:
		attrs = append(attrs, slog.String("turn", b.TurnID), slog.String("reason", string(b.Reason)))
	case session.Notice:
		level, attrs = slog.LevelWarn, append(attrs, slog.String("text", b.Text))
	}
	name := strings.TrimPrefix(fmt.Sprintf("%T", e.Body), "session.")
	j.LogAttrs(ctx, level, name, attrs...)
}

func partAttrs(p session.Part) []slog.Attr {
	attrs := []slog.Attr{slog.String("part", p.Head().ID), slog.String("type", string(p.Kind()))}
	switch p := p.(type) {
	case *session.Tool:
		attrs = append(attrs, slog.String("tool", p.Tool), slog.String("status", string(p.State.Status)))
	case *session.StepFinish:
		attrs = append(attrs, slog.String("reason", string(p.Reason)), slog.Int64("tokens", p.Tokens.Sum()))
	case *session.Text, *session.Reasoning, *session.File, *session.StepStart, *session.Snapshot, *session.Patch,
		*session.AgentRef, *session.Subtask, *session.Retry, *session.Compaction:
	}
	return attrs
}

// masker replaces secrets in what is written to w. A log line comes in one
// write, so none is cut in two. Invariant 15.
type masker struct {
	w       io.Writer
	mu      sync.Mutex
	secrets []string
}

// hide adds values that must never be written. Very short ones are left:
// masking every "a" would hide the log and not the secret.
func (m *masker) hide(secrets ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range secrets {
		if len(s) >= 6 && !slices.Contains(m.secrets, s) {
			m.secrets = append(m.secrets, s)
		}
	}
}

func (m *masker) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	line := string(b)
	for _, s := range m.secrets {
		line = strings.ReplaceAll(line, s, "***")
	}
	if _, err := io.WriteString(m.w, line); err != nil {
		return 0, err
	}
	return len(b), nil
}

// firstSet is the first of its arguments that is not empty.
func firstSet(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
