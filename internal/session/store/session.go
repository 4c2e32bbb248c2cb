package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"rally/internal/session"
)

const sessionColumns = `s.id, s.parent_id, s.title, s.directory, s.agent, s.provider, s.model, s.variant,
	s.rules, s.revert, s.todos, s.version, s.created, s.updated`

// querier is *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// scanner is *sql.Row or *sql.Rows.
type scanner interface{ Scan(dest ...any) error }

// Session reads one session by its full id; NotFoundError if there is none.
func (s *Store) Session(ctx context.Context, id string) (session.Session, error) {
	out, err := getSession(ctx, s.r, id)
	if errors.Is(err, sql.ErrNoRows) {
		return out, s.noSession(ctx, id)
	}
	return out, s.fail("read session", err)
}

func getSession(ctx context.Context, q querier, id string) (session.Session, error) {
	return scanSession(q.QueryRowContext(ctx, "SELECT "+sessionColumns+" FROM session s WHERE s.id = ?", id))
}

// Last is the root session of exactly this real directory with the newest
// activity; NotFoundError if there is none.
func (s *Store) Last(ctx context.Context, dir string) (session.Session, error) {
	out, err := scanSession(s.r.QueryRowContext(ctx, "SELECT "+sessionColumns+
		" FROM session s WHERE s.directory = ? AND s.parent_id = '' ORDER BY s.rev DESC LIMIT 1", dir))
	if errors.Is(err, sql.ErrNoRows) {
		return out, &NotFoundError{Kind: "session in directory", ID: dir}
	}
	return out, s.fail("read session", err)
}

// SetStatus says what the session is doing now. It does not count as activity.
func (s *Store) SetStatus(ctx context.Context, sessionID string, status session.Status) error {
	return s.write(ctx, relaxed, func(tx *Tx) error { return tx.SetStatus(sessionID, status) })
}

// SetStatus is Store.SetStatus within the transaction.
func (tx *Tx) SetStatus(sessionID string, status session.Status) error {
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	return tx.exec("UPDATE session SET status = ? WHERE id = ?", string(data), sessionID)
}

// Children lists the ids of the sessions whose parent is id, oldest first.
func (s *Store) Children(ctx context.Context, id string) ([]string, error) {
	out, err := column(ctx, s.r, "SELECT id FROM session WHERE parent_id = ? ORDER BY key", id)
	return out, s.fail("list child sessions", err)
}

const descendants = `WITH RECURSIVE tree (id, key) AS (
	SELECT id, key FROM session WHERE parent_id = ?1 AND ?1 <> ''
	UNION SELECT c.id, c.key FROM session c JOIN tree ON c.parent_id = tree.id)
	SELECT id FROM tree ORDER BY key`

// Descendants lists the ids of all sessions below id, itself not included,
// parents before their children.
func (s *Store) Descendants(ctx context.Context, id string) ([]string, error) {
	out, err := column(ctx, s.r, descendants, id)
	return out, s.fail("list child sessions", err)
}

// Delete removes a session and all its descendants with everything in them.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.write(ctx, relaxed, func(tx *Tx) error {
		ids, err := column(tx.ctx, tx.tx, descendants, id)
		if err != nil {
			return err
		}
		for _, child := range ids {
			if err := tx.exec("DELETE FROM session WHERE id = ?", child); err != nil {
				return err
			}
		}
		n, err := tx.affected("DELETE FROM session WHERE id = ?", id)
		if err == nil && n == 0 {
			return &NotFoundError{Kind: "session", ID: id}
		}
		return err
	})
}

// Session reads the session as the transaction sees it, so that it can be
// changed and saved without losing what others wrote meanwhile.
func (tx *Tx) Session(id string) (session.Session, error) {
	v, err := getSession(tx.ctx, tx.tx, id)
	if errors.Is(err, sql.ErrNoRows) {
		return v, &NotFoundError{Kind: "session", ID: id}
	}
	return v, err
}

// SaveSession inserts the session or replaces everything in its row but
// Created and Version.
func (tx *Tx) SaveSession(v session.Session) error {
	if _, err := tx.nextRev(v.ID); err != nil {
		return err
	}
	args, err := sessionValues(&v)
	if err != nil {
		return err
	}
	n, err := tx.affected(`UPDATE session SET parent_id = ?2, title = ?3, directory = ?4, agent = ?5, provider = ?6, model = ?7,
		variant = ?8, rules = ?9, revert = ?10, todos = ?11 WHERE id = ?1`, args...)
	if err != nil || n > 0 {
		return err
	}
	return tx.insertSession(v)
}

// insertSession fills in the creation time and version that v leaves open.
func (tx *Tx) insertSession(v session.Session) error {
	args, err := sessionValues(&v)
	if err != nil {
		return err
	}
	if _, err := tx.nextRev(v.ID); err != nil {
		return err
	}
	if v.Created == 0 {
		v.Created = tx.s.opts.Now()
	}
	if v.Version == "" {
		v.Version = tx.s.opts.Version
	}
	idle, err := json.Marshal(session.Status{Type: session.StatusIdle})
	if err != nil {
		return err
	}
	return tx.exec(`INSERT INTO session (id, parent_id, title, directory, agent, provider, model, variant, rules, revert, todos,
		version, created, updated, status) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14)`,
		append(args, v.Version, v.Created, string(idle))...)
}

func sessionValues(v *session.Session) ([]any, error) {
	rules, err := jsonList(v.Rules)
	if err != nil {
		return nil, err
	}
	todos, err := jsonList(v.Todos)
	if err != nil {
		return nil, err
	}
	var revert any
	if v.Revert != nil {
		b, err := json.Marshal(v.Revert)
		if err != nil {
			return nil, err
		}
		revert = string(b)
	}
	return []any{
		v.ID, v.ParentID, v.Title, v.Directory, v.Agent, v.Model.Provider, v.Model.ID, v.Model.Variant, rules, revert, todos,
	}, nil
}

func jsonList[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "[]", nil
	}
	b, err := json.Marshal(list)
	return string(b), err
}

// scanSession reads sessionColumns and then whatever else the query selected.
func scanSession(row scanner, more ...any) (session.Session, error) {
	var v session.Session
	var rules, todos string
	var revert sql.NullString
	dest := []any{
		&v.ID, &v.ParentID, &v.Title, &v.Directory, &v.Agent, &v.Model.Provider, &v.Model.ID, &v.Model.Variant,
		&rules, &revert, &todos, &v.Version, &v.Created, &v.Updated,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return v, err
	}
	err := errors.Join(decodeList(rules, &v.Rules), decodeList(todos, &v.Todos))
	if revert.Valid {
		err = errors.Join(err, json.Unmarshal([]byte(revert.String), &v.Revert))
	}
	if err != nil {
		return v, fmt.Errorf("decode session %q: %w", v.ID, err)
	}
	return v, nil
}

// decodeList leaves an empty list nil, as it was when it was stored.
func decodeList[T any](data string, list *[]T) error {
	if data == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(data), list)
}

// column reads a query of one text column.
func column(ctx context.Context, q querier, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err tells
	var out []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}
