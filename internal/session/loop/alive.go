package loop

import (
	"fmt"
	"os"
	"strings"
)

// Identity names this machine and this process beyond its number, which the
// system gives to another process later: "host" or "host:start", with the
// process's start time in clock ticks since boot where the system tells it.
func Identity(pid int) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if start := startTime(pid); start != "" {
		return host + ":" + start
	}
	return host
}

// alive reports whether the process that calls itself identity is there. Where
// that cannot be known it is not: the lease keeps two from serving at once.
func alive(pid int, identity string) bool {
	return pid > 0 && startTime(pid) != "" && Identity(pid) == identity
}

// startTime is field 22 of /proc/PID/stat (proc(5)); empty when there is no
// such process.
func startTime(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses and may hold
	// spaces and parentheses itself.
	_, rest, ok := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), " ")
	if !ok {
		return ""
	}
	const afterName = 22 - 3
	fields := strings.Fields(rest)
	if len(fields) <= afterName || fields[0] == "Z" {
		return ""
	}
	return fields[afterName]
}
