package loop

import (
	"context"
	_ "embed" // the tool's description
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"rally/internal/session"
	"rally/internal/tools"
)

//go:embed skill.md
var skillText string

// skillFiles is how many of a skill's files are named.
const skillFiles = 10

// maxSkill bounds the text of a skill in bytes.
const maxSkill = 256 << 10

const skillSchema = `{"type":"object","properties":{"name":{"type":"string","description":"The name of the skill"}},
"required":["name"],"additionalProperties":false}`

// skillTool gives the model the instructions of a skill.
type skillTool struct{ skills []session.Skill }

func (skillTool) Name() string            { return "skill" }
func (skillTool) Description() string     { return strings.TrimSpace(skillText) }
func (skillTool) Schema() json.RawMessage { return json.RawMessage(skillSchema) }

func (k skillTool) find(raw json.RawMessage) (session.Skill, error) {
	var args struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return session.Skill{}, err
	}
	var names []string
	for _, s := range k.skills {
		if s.Name == args.Name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return session.Skill{}, fmt.Errorf("skill %q not found. Available skills: %s", args.Name, strings.Join(names, ", "))
}

func (k skillTool) Access(_ *tools.Env, raw json.RawMessage) ([]tools.Access, error) {
	s, err := k.find(raw)
	if err != nil {
		return nil, err
	}
	return []tools.Access{{Permission: "skill", Patterns: []string{s.Name}}}, nil
}

func (k skillTool) Run(_ context.Context, _ *tools.Env, raw json.RawMessage) (tools.Result, error) {
	s, err := k.find(raw)
	if err != nil {
		return tools.Result{}, err
	}
	b, err := os.ReadFile(s.File)
	if err != nil {
		return tools.Result{}, fmt.Errorf("skill %s cannot be read: %w", s.Name, err)
	}
	text := strings.ToValidUTF8(string(b[:min(len(b), maxSkill)]), "\uFFFD")
	var out strings.Builder
	fmt.Fprintf(&out, "<skill_content name=%q>\n# Skill: %s\n\n%s\n\nBase directory for this skill: %s\nRelative paths in it are meant from there.\n",
		s.Name, s.Name, strings.TrimSpace(withoutFrontMatter(text)), s.Dir)
	out.WriteString("Note: file list is sampled.\n<skill_files>\n")
	for _, file := range filesOf(s) {
		fmt.Fprintf(&out, "<file>%s</file>\n", file)
	}
	out.WriteString("</skill_files>\n</skill_content>")
	return tools.Result{Output: out.String(), Title: "Loaded skill: " + s.Name}, nil
}

// withoutFrontMatter is text without a YAML block at its head: the block is
// for whoever lists skills.
func withoutFrontMatter(text string) string {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return text
	}
	if _, body, ok := strings.Cut(rest, "\n---\n"); ok {
		return body
	}
	return text
}

// filesOf names the first files of a skill's folder, in the order of a walk.
func filesOf(s session.Skill) []string {
	var out []string
	// A folder that cannot be walked has no files to name.
	_ = filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || len(out) == skillFiles {
			return fs.SkipAll
		}
		if d.Type().IsRegular() && path != s.File {
			out = append(out, path)
		}
		return nil
	})
	return out
}
