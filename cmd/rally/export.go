package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"rally/internal/session"
	"rally/internal/session/store"
)

type exportOptions struct {
	app      *app
	id       string
	last     bool
	format   string
	children bool
}

func newExportCmd(a *app, runF func(*exportOptions) error) *cobra.Command {
	o := &exportOptions{app: a}
	cmd := &cobra.Command{
		Use:   "export [ID]",
		Short: "Print a whole session",
		Long: "Export prints a session with its messages and parts, in the shape that OpenCode's\n" +
			"export has: {info, messages: [{info, parts}]}. As jsonl the session and each\n" +
			"message are a line of their own.\n\n" +
			"Without an ID it takes the newest session of this directory.\n\n" +
			"EXIT STATUS\n  0  printed\n  2  no such session",
		Args: oneID,
		RunE: func(_ *cobra.Command, args []string) error {
			if o.id = firstOf(args); o.id != "" && o.last {
				return usagef("leave one of them out", "an ID and --last both name a session")
			}
			if o.format != "json" && o.format != "jsonl" {
				return usagef("json or jsonl", "--format: %q is not one of its values", o.format)
			}
			if runF != nil {
				return runF(o)
			}
			return runExport(o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.last, "last", false, "the newest session of this directory; so is no ID")
	f.StringVar(&o.format, "format", "json", "json or jsonl (`FORMAT`)")
	f.BoolVar(&o.children, "children", false, "child sessions too")
	return cmd
}

func runExport(o *exportOptions) error {
	a, ctx := o.app, context.Background()
	s, err := a.openStore(ctx, "", true)
	if err != nil {
		return err
	}
	defer a.closeStore(s)
	found, err := a.pick(ctx, s, o.id)
	if err != nil {
		return err
	}
	doc, err := loadExport(ctx, s, found, o.children)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(a.stdout, 1<<16)
	write := doc.write
	if o.format == "jsonl" {
		write = doc.writeLines
	}
	writeErr := write(out)
	return a.outputClosed(errors.Join(writeErr, out.Flush()))
}

// exported is a session as it leaves rally.
type exported struct {
	Info     exportedInfo      `json:"info"`
	Messages []exportedMessage `json:"messages"`
	Children []*exported       `json:"children,omitempty"`
}

type exportedMessage struct {
	Info  *session.Message  `json:"info"`
	Parts []json.RawMessage `json:"parts"`
}

// exportedInfo has OpenCode's names.
type exportedInfo struct {
	ID        string          `json:"id"`
	ParentID  string          `json:"parentID,omitempty"`
	Directory string          `json:"directory"`
	Title     string          `json:"title"`
	Agent     string          `json:"agent"`
	Model     exportedModel   `json:"model"`
	Version   string          `json:"version"`
	Summary   exportedSummary `json:"summary"`
	Cost      *session.Money  `json:"cost"`
	Tokens    session.Tokens  `json:"tokens"`
	Rules     []session.Rule  `json:"permission"`
	Todos     []session.Todo  `json:"todos,omitempty"`
	Revert    *session.Revert `json:"revert,omitempty"`
	Time      struct {
		Created int64 `json:"created"`
		Updated int64 `json:"updated"`
	} `json:"time"`
}

type exportedModel struct {
	ID       string `json:"id"`
	Provider string `json:"providerID"`
	Variant  string `json:"variant,omitempty"`
}

type exportedSummary struct {
	Additions int `json:"additions"`
	Deletions int `json:"deletions"`
	Files     int `json:"files"`
}

func loadExport(ctx context.Context, s *store.Store, from session.Session, children bool) (*exported, error) {
	history, err := s.History(ctx, from.ID)
	if err != nil {
		return nil, err
	}
	doc := &exported{Info: infoOf(from, history), Messages: []exportedMessage{}}
	for i := range history {
		m := exportedMessage{Info: &history[i], Parts: []json.RawMessage{}}
		for _, p := range history[i].Parts {
			raw, err := session.EncodePart(p)
			if err != nil {
				return nil, err
			}
			m.Parts = append(m.Parts, raw)
		}
		doc.Messages = append(doc.Messages, m)
	}
	if !children {
		return doc, nil
	}
	ids, err := s.Children(ctx, from.ID)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		below, err := s.Session(ctx, id)
		if err != nil {
			return nil, err
		}
		child, err := loadExport(ctx, s, below, true)
		if err != nil {
			return nil, err
		}
		doc.Children = append(doc.Children, child)
	}
	return doc, nil
}

// infoOf sums up what the history used and changed.
func infoOf(s session.Session, history []session.Message) exportedInfo {
	info := exportedInfo{
		ID: s.ID, ParentID: s.ParentID, Directory: s.Directory, Title: s.Title, Agent: s.Agent,
		Model:   exportedModel{ID: s.Model.ID, Provider: s.Model.Provider, Variant: s.Model.Variant},
		Version: s.Version, Cost: new(session.Money), Rules: orEmpty(s.Rules), Todos: s.Todos, Revert: s.Revert,
	}
	info.Time.Created, info.Time.Updated = s.Created, s.Updated
	files := map[string]bool{}
	for i := range history {
		m := &history[i]
		for _, d := range m.Diffs {
			info.Summary.Additions += d.Additions
			info.Summary.Deletions += d.Deletions
			files[d.File] = true
		}
		if m.Role != session.Assistant {
			continue
		}
		info.Tokens = info.Tokens.Add(m.Tokens)
		switch {
		case m.Cost == nil && m.Completed > 0:
			info.Cost = nil
		case m.Cost != nil && info.Cost != nil:
			*info.Cost += *m.Cost
		}
	}
	info.Summary.Files = len(files)
	return info
}

// write prints the document, indented for people.
func (d *exported) write(w io.Writer) error {
	raw, err := encode(d)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	_, err = b.WriteTo(w)
	return err
}

// writeLines prints the session and its messages as a line each, child
// sessions after it.
func (d *exported) writeLines(w io.Writer) error {
	type sessionLine struct {
		Type string       `json:"type"`
		Info exportedInfo `json:"info"`
	}
	type messageLine struct {
		Type string `json:"type"`
		exportedMessage
	}
	lines := []any{sessionLine{"session", d.Info}}
	for _, m := range d.Messages {
		lines = append(lines, messageLine{"message", m})
	}
	for _, l := range lines {
		raw, err := encode(l)
		if err != nil {
			return err
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
	}
	for _, child := range d.Children {
		if err := child.writeLines(w); err != nil {
			return err
		}
	}
	return nil
}

// encode is v as one line of JSON, with < and > as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}
