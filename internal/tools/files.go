package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"sync"

	"rally/internal/session"
)

// Files knows in which state a session last saw each file, so that nothing
// it has not seen is overwritten. It is safe for concurrent use.
//
// It does not order writers: the executor runs the calls of one step that
// share one of Access.Paths one after another.
type Files struct {
	mu   sync.Mutex
	seen map[string]session.FileStamp
}

// NewFiles returns a Files that has seen nothing.
func NewFiles() *Files { return &Files{seen: map[string]session.FileStamp{}} }

// Seed takes in the stamps that an earlier call left in its metadata. Calls
// are given oldest first.
func (f *Files) Seed(meta session.Metadata) {
	var stamps []session.FileStamp
	if json.Unmarshal(meta[session.MetaFiles], &stamps) != nil {
		return
	}
	for _, s := range stamps {
		f.note(s)
	}
}

func (f *Files) note(s session.FileStamp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[s.Path] = s
}

func (f *Files) forget(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seen, path)
}

// stamp is what the session last saw of path.
func (f *Files) stamp(path string) (session.FileStamp, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.seen[path]
	return s, ok
}

// changed reports whether the file at path is not what the session last saw
// of it. A file the session never saw has not changed. content is the whole
// file.
func (f *Files) changed(path string, info fs.FileInfo, content []byte) bool {
	s, ok := f.stamp(path)
	if !ok || (s.Size == info.Size() && s.Mtime == info.ModTime().UnixNano()) {
		return false
	}
	return s.Hash == "" || s.Hash != hashOf(content)
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// stampOf is the stamp of a file whose whole content has the given hash.
func stampOf(path string, info fs.FileInfo, hash string) session.FileStamp {
	return session.FileStamp{Path: path, Hash: hash, Size: info.Size(), Mtime: info.ModTime().UnixNano()}
}

// saw remembers the stamps and puts them into meta.
func saw(env *Env, meta session.Metadata, stamps ...session.FileStamp) {
	for _, s := range stamps {
		env.Files.note(s)
	}
	meta.Set(session.MetaFiles, stamps)
}
