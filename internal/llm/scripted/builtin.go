package scripted

import (
	"embed"
	"fmt"
	"path"
)

//go:embed builtin/*.yaml
var builtins embed.FS

// Builtin lists the scripts that come with rally.
func Builtin() []string { return []string{"tour", "tour-sh"} }

func builtin(name string) (*Script, bool, error) {
	for _, known := range Builtin() {
		if name != known {
			continue
		}
		data, err := builtins.ReadFile(path.Join("builtin", known+".yaml"))
		if err != nil {
			return nil, true, fmt.Errorf("built-in script %s: %w", known, err)
		}
		s, err := Parse(known, data)
		return s, true, err
	}
	return nil, false, nil
}

// Tour is the built-in demonstration: a small module with a failing test that
// the script reads, mends and tests. Without Go on the machine the module is
// a shell script.
func Tour(haveGo bool) (*Script, error) {
	name := "tour"
	if !haveGo {
		name = "tour-sh"
	}
	s, _, err := builtin(name)
	return s, err
}
