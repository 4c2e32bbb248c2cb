package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"rally/internal/session"
	"rally/internal/session/loop"
	"rally/internal/session/store"
)

type sessionsOptions struct {
	app      *app
	json     bool
	here     bool
	children bool
	limit    int
}

func newSessionsCmd(a *app) *cobra.Command {
	o := &sessionsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List sessions, newest first: who runs what since when",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return group(cmd, args)
			}
			return runSessions(o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print a JSON array")
	f.BoolVar(&o.here, "here", false, "only sessions of this directory")
	f.BoolVar(&o.children, "children", false, "child sessions too")
	f.IntVarP(&o.limit, "limit", "n", 0, "at most `N`")
	cmd.AddCommand(newSessionsRmCmd(a, nil))
	return cmd
}

func runSessions(o *sessionsOptions) error {
	a, ctx := o.app, context.Background()
	filter := store.ListFilter{Roots: !o.children, Limit: o.limit}
	if o.here {
		var err error
		if filter.Directory, err = a.directory(); err != nil {
			return err
		}
	}
	list, err := a.list(ctx, filter)
	if err != nil {
		return err
	}
	rows := make([]sessionRow, len(list))
	for i := range list {
		rows[i] = rowOf(&list[i])
	}
	if o.json {
		return a.printJSON(rows)
	}
	return a.print(sessionTable(rows, a.now().UnixMilli()))
}

// list is empty where there is no session file yet.
func (a *app) list(ctx context.Context, filter store.ListFilter) (list []store.Info, err error) {
	s, err := a.openStore(ctx, "", true)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer a.closeStore(s) //nolint:contextcheck // it is closed after ctx has ended, too
	return s.List(ctx, filter)
}

// sessionRow is one session of the list.
type sessionRow struct {
	ID        string         `json:"id"`
	ParentID  string         `json:"parentID,omitempty"`
	Title     string         `json:"title"`
	Directory string         `json:"directory"`
	Agent     string         `json:"agent"`
	Model     string         `json:"model"`
	Messages  int            `json:"messages"`
	Tokens    session.Tokens `json:"tokens"`
	Cost      *session.Money `json:"cost"`
	Status    session.Status `json:"status"`
	Turn      *turnRow       `json:"turn"` // what runs or waits; null when idle
	Todos     []session.Todo `json:"todos,omitempty"`
	Created   int64          `json:"created"`
	Updated   int64          `json:"updated"`
}

// turnRow says who serves a turn, since when, in which step.
type turnRow struct {
	ID     string            `json:"id"`
	State  session.TurnState `json:"state"`
	PID    int               `json:"pid"`
	Host   string            `json:"host"`
	Alive  bool              `json:"alive"` // false: its process is gone; continue takes it over
	Steps  int               `json:"steps"`
	Opened int64             `json:"opened,omitempty"`
}

func rowOf(info *store.Info) sessionRow {
	s := &info.Session
	row := sessionRow{
		ID: s.ID, ParentID: s.ParentID, Title: s.Title, Directory: s.Directory, Agent: s.Agent, Model: s.Model.String(),
		Messages: info.Messages, Tokens: info.Tokens, Cost: info.Cost, Status: info.Status, Todos: s.Todos,
		Created: s.Created, Updated: info.Last,
	}
	if t := info.Turn; t != nil {
		row.Turn = &turnRow{ID: t.ID, State: t.State, PID: t.OwnerPID, Host: t.OwnerHost, Steps: t.Steps, Opened: t.Opened}
		row.Turn.Alive = loop.Identity(t.OwnerPID) == t.OwnerHost
	}
	if row.Status.Type == "" || row.Turn == nil || !row.Turn.Alive {
		row.Status = session.Status{Type: session.StatusIdle}
	}
	return row
}

func sessionTable(rows []sessionRow, now int64) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tUPDATED\tSTATUS\tDIRECTORY\tTITLE")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.ID, age(now-r.Updated), r.doing(now), oneLine(r.Directory, 60), oneLine(r.Title, 60))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// doing is who works on the session, in which step, since when.
func (r *sessionRow) doing(now int64) string {
	t := r.Turn
	switch {
	case t == nil:
		return "idle"
	case !t.Alive:
		return "cut off"
	case t.State == session.TurnPending:
		return fmt.Sprintf("waiting (pid %d)", t.PID)
	}
	return fmt.Sprintf("%s for %s, step %d (pid %d)", r.Status.Type, age(now-t.Opened), t.Steps, t.PID)
}

// age is a span in its largest unit.
func age(ms int64) string {
	d := time.Duration(max(0, ms)) * time.Millisecond
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

type sessionsRmOptions struct {
	app *app
	ids []string
}

func newSessionsRmCmd(a *app, runF func(*sessionsRmOptions) error) *cobra.Command {
	o := &sessionsRmOptions{app: a}
	return &cobra.Command{
		Use:   "rm ID…",
		Short: "Delete sessions with their child sessions",
		RunE: func(_ *cobra.Command, args []string) error {
			if o.ids = args; len(args) == 0 {
				return usagef("see: rally sessions", "no session is named")
			}
			if runF != nil {
				return runF(o)
			}
			return runSessionsRm(o)
		},
	}
}

func runSessionsRm(o *sessionsRmOptions) error {
	a, ctx := o.app, context.Background()
	s, err := a.openStore(ctx, "", false)
	if err != nil {
		return err
	}
	defer a.closeStore(s)
	var ids []string // all are looked up before the first is deleted
	for _, id := range o.ids {
		found, err := s.Resolve(ctx, id)
		if err != nil {
			return err
		}
		ids = append(ids, found.ID)
	}
	for _, id := range ids {
		if err := a.deleteSession(ctx, s, id); err != nil {
			return err
		}
	}
	return nil
}
