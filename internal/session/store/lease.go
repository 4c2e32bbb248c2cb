package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Lease is the right to serve a session, held against all other processes of
// this machine and all other holders in this one. The kernel takes it back
// when its process dies, however it dies.
type Lease struct{ lock *flock.Flock }

// leasePoll is how often a waiter tries again.
const leasePoll = 50 * time.Millisecond

// Lease waits until the session is free or ctx ends.
func (s *Store) Lease(ctx context.Context, sessionID string) (*Lease, error) {
	lock, err := s.leaseLock(sessionID)
	if err != nil {
		return nil, err
	}
	if _, err := lock.TryLockContext(ctx, leasePoll); err != nil {
		return nil, fmt.Errorf("lease session %q: %w", sessionID, err)
	}
	return &Lease{lock: lock}, nil
}

// TryLease takes the lease if the session is free; false if it is not.
func (s *Store) TryLease(sessionID string) (*Lease, bool, error) {
	lock, err := s.leaseLock(sessionID)
	if err != nil {
		return nil, false, err
	}
	ok, err := lock.TryLock()
	if err != nil {
		return nil, false, fmt.Errorf("lease session %q: %w", sessionID, err)
	}
	if !ok {
		return nil, false, nil
	}
	return &Lease{lock: lock}, true, nil
}

// Release gives the session back. The file stays: removing it would let two
// processes hold locks on two files of one name.
func (l *Lease) Release() error { return l.lock.Unlock() }

func (s *Store) leaseLock(sessionID string) (*flock.Flock, error) {
	dir, err := s.Folder("locks")
	if err != nil {
		return nil, err
	}
	return flock.New(filepath.Join(dir, lockName(sessionID)), flock.SetPermissions(0o600)), nil
}

// lockName is a file name that no other id has, whatever an imported or
// user-given id holds. Names with a dot cannot be plain ids.
func lockName(id string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	if id != "" && len(id) <= 100 && strings.Trim(id, plain) == "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "id." + hex.EncodeToString(sum[:])
}
