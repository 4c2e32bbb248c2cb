package batch

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// Report writes a Markdown table of the tasks of src: what became of each by
// its newest row. dir is left out of the names of files.
func Report(w io.Writer, title, dir string, src *Source, results *Results) error {
	var p Progress
	p.Total = len(src.Entries)
	for i := range src.Entries {
		if o, ok := results.Newest(src.Entries[i].ID); ok {
			p.add(&o)
		}
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s\n\n%d tasks: %d completed, %d failed, %d cut, %d not run; all rows cost $%.4f.\n\n",
		cell(title), p.Total, p.Completed, p.Failed, p.Cut, p.Left(), results.Cost())
	fmt.Fprintf(b, "A session is read with `rally export ID --format markdown`.\n\n")
	fmt.Fprintf(b, "| task | status | cost | time | changed files | session |\n|---|---|---:|---:|---|---|\n")
	for i := range src.Entries {
		id := src.Entries[i].ID
		o, ok := results.Newest(id)
		if !ok {
			fmt.Fprintf(b, "| %s | not run | | | | |\n", cell(id))
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", cell(id), status(&o), usd(o.Cost),
			time.Duration(o.DurationMS)*time.Millisecond, files(&o, dir), code(o.SessionID))
	}
	return b.Flush()
}

func status(o *Outcome) string {
	if o.Message == "" || o.Completed() {
		return o.Reason
	}
	return o.Reason + ": " + cell(o.Message)
}

func usd(cost *float64) string {
	if cost == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%.4f", *cost)
}

func files(o *Outcome, dir string) string {
	names := make([]string, 0, len(o.Files)+1)
	for _, f := range o.Files {
		if rel, err := filepath.Rel(dir, f); err == nil && filepath.IsLocal(rel) {
			f = rel
		}
		names = append(names, code(f))
	}
	if more := o.FileCount - len(o.Files); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(cell(s), "`", "'") + "`"
}

// cell is text that stays in its cell and means nothing to Markdown.
func cell(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\x1b", "").Replace(s)
}
