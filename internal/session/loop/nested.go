package loop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rally/internal/session"
	"rally/internal/tools"
)

// metaLoaded is the key under which a read lists the instruction files that
// came with it.
const metaLoaded = "loaded"

// maxNested bounds the text of one such file in bytes.
const maxNested = 64 << 10

// withInstructions adds to what a read shows the instruction files that stand
// above the file and are not known yet: a folder may have rules of its own.
func (x *executor) withInstructions(r tools.Result) tools.Result {
	if x.Nested == nil {
		return r
	}
	var stamps []session.FileStamp
	if json.Unmarshal(r.Metadata[session.MetaFiles], &stamps) != nil {
		return r
	}
	for _, s := range stamps {
		for _, path := range x.unknownInstructions(filepath.Dir(s.Path)) {
			b, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			b = b[:min(len(b), maxNested)]
			r.Output += fmt.Sprintf("\n\n<system-reminder>\nInstructions from: %s\n%s\n</system-reminder>",
				path, strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD")))
			x.loaded = append(x.loaded, path)
			r.Metadata.Set(metaLoaded, x.loadedBy(r.Metadata, path))
		}
	}
	return r
}

func (x *executor) loadedBy(meta session.Metadata, path string) []string {
	var list []string
	_ = json.Unmarshal(meta[metaLoaded], &list) // none yet
	return append(list, path)
}

// unknownInstructions are the instruction files from dir up to, and without,
// the session's directory; one for each folder at most. Files outside it load
// nothing.
func (x *executor) unknownInstructions(dir string) []string {
	var out []string
	for ; dir != x.session.Directory && tools.Inside(x.session.Directory, dir); dir = filepath.Dir(dir) {
		for _, path := range x.Nested(dir) {
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				continue
			}
			if !slices.Contains(x.loaded, path) {
				out = append(out, path)
			}
			break
		}
	}
	slices.Reverse(out) // the general ones first
	return out
}

// loadedInstructions are the files whose text the model has been shown: with
// the system prompt or by an earlier read.
func (t *turn) loadedInstructions(history []session.Message) []string {
	var out []string
	for _, i := range t.context.Instructions {
		out = append(out, i.Path)
	}
	for i := range history {
		for _, call := range history[i].ToolCalls() {
			var list []string
			if json.Unmarshal(call.State.Metadata[metaLoaded], &list) == nil {
				out = append(out, list...)
			}
		}
	}
	return out
}
