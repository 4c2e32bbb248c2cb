package config

import (
	"cmp"
	"slices"
	"strings"
)

// Near gives up to three candidates that someone who typed name may have
// meant, the closest first.
func Near(name string, candidates []string) []string {
	type scored struct {
		name string
		cost int
	}
	var found []scored
	wanted := strings.ToLower(name)
	for _, c := range candidates {
		have := strings.ToLower(c)
		cost := distance(wanted, have)
		within := len(wanted) >= 3 && (strings.Contains(have, wanted) || len(have) >= 3 && strings.Contains(wanted, have))
		if cost > max(1, (min(len(wanted), len(have))+1)/3) && !within {
			continue
		}
		found = append(found, scored{c, cost})
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Or(a.cost-b.cost, strings.Compare(a.name, b.name)) })
	var out []string
	for _, f := range found[:min(3, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// distance is Levenshtein's, where swapping two neighbours is one step. Names
// longer than 64 bytes are compared by their start.
func distance(a, b string) int {
	a, b = a[:min(64, len(a))], b[:min(64, len(b))]
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
