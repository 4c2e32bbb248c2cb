package main

import (
	"os"
	"time"
)

func main() {
	os.Exit(run(process{
		args: os.Args[1:], stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		environ: os.Environ(), pid: os.Getpid(), now: time.Now,
	}))
}
