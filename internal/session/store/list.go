package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"rally/internal/session"
)

// ListFilter chooses sessions; its zero value chooses all.
type ListFilter struct {
	Directory string // exactly this real directory; empty: any
	Roots     bool   // without child sessions
	Limit     int    // 0: no limit
}

// Info is a session as a list shows it. Sums do not include child sessions.
type Info struct {
	Session  session.Session
	Status   session.Status
	Turn     *session.Turn // the open one, else the oldest pending one, else nil
	Messages int
	Tokens   session.Tokens
	Cost     *session.Money // nil where a finished message's cost is unknown
	Last     int64          // time of the newest activity, in milliseconds
}

// List tells about sessions, the newest activity first, whatever the clocks
// said.
func (s *Store) List(ctx context.Context, f ListFilter) ([]Info, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = -1 // SQLite's "no limit"
	}
	const q = "WITH s AS (SELECT * FROM session WHERE (?1 = '' OR directory = ?1) AND (NOT ?2 OR parent_id = '') ORDER BY rev DESC LIMIT ?3)\n" +
		"SELECT " + sessionColumns + `, s.status, count(m.key), coalesce(sum(m.total), 0), coalesce(sum(m.input), 0), coalesce(sum(m.output), 0),
		coalesce(sum(m.reasoning), 0), coalesce(sum(m.cache_read), 0), coalesce(sum(m.cache_write), 0), coalesce(sum(m.cost), 0),
		coalesce(sum(m.role = 'assistant' AND m.completed > 0 AND m.cost IS NULL), 0)
		FROM s LEFT JOIN message m ON m.session_id = s.id GROUP BY s.key ORDER BY s.rev DESC`
	var out []Info
	err := s.read(ctx, func(tx *sql.Tx) error {
		turns, err := aliveTurns(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, q, f.Directory, f.Roots, limit)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // rows.Err tells
		for rows.Next() {
			info, err := scanInfo(rows)
			if err != nil {
				return err
			}
			info.Turn = turns[info.Session.ID]
			out = append(out, info)
		}
		return rows.Err()
	})
	return out, s.fail("list sessions", err)
}

func scanInfo(rows *sql.Rows) (Info, error) {
	var info Info
	var status string
	var cost session.Money
	var unknown int
	t := &info.Tokens
	var err error
	info.Session, err = scanSession(rows, &status, &info.Messages, &t.Total, &t.Input, &t.Output, &t.Reasoning,
		&t.Cache.Read, &t.Cache.Write, &cost, &unknown)
	if err != nil {
		return info, err
	}
	info.Last = info.Session.Updated
	if unknown == 0 {
		info.Cost = &cost
	}
	if err := json.Unmarshal([]byte(status), &info.Status); err != nil {
		return info, fmt.Errorf("decode status of session %q: %w", info.Session.ID, err)
	}
	return info, nil
}

// aliveTurns finds each session's open turn, else its oldest pending one.
func aliveTurns(ctx context.Context, q querier) (map[string]*session.Turn, error) {
	turns, err := queryTurns(ctx, q, "WHERE t.state <> 'closed' ORDER BY t.state = 'pending', t.n")
	if err != nil {
		return nil, err
	}
	out := map[string]*session.Turn{}
	for _, t := range turns {
		if out[t.SessionID] == nil {
			out[t.SessionID] = &t
		}
	}
	return out, nil
}

// Resolve finds the session that id names: its full id or a prefix of it that
// no other one has. It returns a NotFoundError or an AmbiguousError.
func (s *Store) Resolve(ctx context.Context, id string) (session.Session, error) {
	out, err := getSession(ctx, s.r, id)
	if !errors.Is(err, sql.ErrNoRows) {
		return out, s.fail("read session", err)
	}
	if id == "" {
		return out, &NotFoundError{Kind: "session", ID: id}
	}
	const q = "SELECT id FROM session WHERE id >= ?1 AND id < ?1 || char(0x10FFFF) ORDER BY id LIMIT 10"
	ids, err := column(ctx, s.r, q, id)
	switch {
	case err != nil:
		return out, s.fail("read session", err)
	case len(ids) == 0:
		return out, s.noSession(ctx, id)
	case len(ids) > 1:
		return out, &AmbiguousError{Prefix: id, Candidates: ids}
	}
	return s.Session(ctx, ids[0])
}

// noSession looks among the newest sessions for ids that a typing error may
// have meant.
func (s *Store) noSession(ctx context.Context, id string) error {
	ids, err := column(ctx, s.r, "SELECT id FROM session ORDER BY rev DESC LIMIT 200")
	if err != nil {
		return s.fail("read session", err)
	}
	const slips = 3
	near := map[string]int{}
	for _, other := range ids {
		// A prefix was typed perhaps: compare with as much of the other id.
		if d := distance(id, other[:min(len(other), len(id))]); d <= min(slips, len(id)/2) {
			near[other] = d
		}
	}
	ids = slices.DeleteFunc(ids, func(other string) bool { _, ok := near[other]; return !ok })
	slices.SortStableFunc(ids, func(a, b string) int { return near[a] - near[b] })
	return &NotFoundError{Kind: "session", ID: id, Near: ids[:min(len(ids), 3)]}
}

// distance counts the single-byte edits between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
