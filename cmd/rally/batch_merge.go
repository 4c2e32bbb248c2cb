package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"rally/internal/batch"
	"rally/internal/session/loop"
)

func newBatchMergeCmd(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "merge RESULTS…",
		Short: "Put the result files of shards together: the newest row of every task",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("rally batch merge a.jsonl b.jsonl", "there is nothing to merge")
			}
			return a.mergeResults(output, args)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`; default: stdout")
	return cmd
}

func (a *app) mergeResults(output string, paths []string) error {
	if output == "" || output == "-" {
		ignored, err := merged(a.stdout, paths)
		a.sayIgnored(ignored)
		return err
	}
	if info, err := os.Stat(output); err == nil {
		for _, path := range paths {
			if other, err := os.Stat(path); err == nil && os.SameFile(info, other) {
				return usagef("give another name", "-o would write over %s", path)
			}
		}
	}
	f, err := os.Create(output)
	if err != nil {
		return usagef("", "-o: %w", err)
	}
	ignored, err := merged(f, paths)
	a.sayIgnored(ignored)
	return errors.Join(err, f.Close())
}

func merged(w io.Writer, paths []string) (ignored int, err error) {
	_, ignored, err = batch.Merge(w, paths...)
	if errors.Is(err, os.ErrNotExist) {
		err = &loop.UsageError{Err: err}
	}
	return ignored, err
}

func (a *app) sayIgnored(n int) {
	if n > 0 {
		sayNotice(a.stderr, fmt.Sprintf("%d lines are not results and are left out", n))
	}
}
