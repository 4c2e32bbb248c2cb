package batch

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Shard is one of Count shares of the ids; Index counts from 0. The zero
// Shard has all of them.
type Shard struct{ Index, Count int }

// Owns reports whether the task with this id is of the shard. It depends on
// the id alone, so that shards need not know of each other, and lines may be
// added to a task file without moving the others.
func (s Shard) Owns(id string) bool {
	if s.Count <= 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))                          // a hash takes everything
	return h.Sum64()%uint64(s.Count) == uint64(s.Index) //nolint:gosec // neither is below zero
}

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index+1, s.Count) }

// ParseShard reads "i/n", where i counts from 1; "auto", which asks the
// environment that schedulers give the members of an array job; or "auto/n"
// where the environment has the index but not the count. Empty is all.
func ParseShard(s string, getenv func(string) string) (Shard, error) {
	left, right, both := strings.Cut(s, "/")
	switch {
	case s == "":
		return Shard{}, nil
	case left == "auto":
		return autoShard(right, both, getenv)
	case !both:
		return Shard{}, fmt.Errorf("%q is neither i/n nor auto", s)
	}
	i, err1 := strconv.Atoi(left)
	n, err2 := strconv.Atoi(right)
	if err1 != nil || err2 != nil || i < 1 || i > n {
		return Shard{}, fmt.Errorf("%q is not i/n with 1 ≤ i ≤ n", s)
	}
	return Shard{i - 1, n}, nil
}

// array says where a scheduler keeps a member's number and how many there are.
// The number of the first member is in first, where that is a variable, else
// it is base.
type array struct {
	index, count, first string
	base                int
}

func arrays() []array {
	return []array{
		{index: "JOB_COMPLETION_INDEX", count: "JOB_COMPLETION_COUNT"},
		{index: "SLURM_ARRAY_TASK_ID", count: "SLURM_ARRAY_TASK_COUNT", first: "SLURM_ARRAY_TASK_MIN"},
		{index: "CI_NODE_INDEX", count: "CI_NODE_TOTAL", base: 1},
	}
}

func autoShard(count string, given bool, getenv func(string) string) (Shard, error) {
	for _, a := range arrays() {
		if getenv(a.index) == "" {
			continue
		}
		if !given {
			count = getenv(a.count)
		}
		if count == "" {
			return Shard{}, fmt.Errorf("%s is set but %s is not: say how many there are with auto/n", a.index, a.count)
		}
		first := strconv.Itoa(a.base)
		if a.first != "" && getenv(a.first) != "" {
			first = getenv(a.first)
		}
		i, err1 := strconv.Atoi(getenv(a.index))
		n, err2 := strconv.Atoi(count)
		base, err3 := strconv.Atoi(first)
		if i -= base; errors.Join(err1, err2, err3) != nil || i < 0 || i >= n {
			return Shard{}, fmt.Errorf("%s=%s is not one of %s numbers from %s on", a.index, getenv(a.index), count, first)
		}
		return Shard{i, n}, nil
	}
	return Shard{}, errors.New("auto: none of JOB_COMPLETION_INDEX, SLURM_ARRAY_TASK_ID and CI_NODE_INDEX is set")
}
