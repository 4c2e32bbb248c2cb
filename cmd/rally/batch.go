package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rally/internal/batch"
	"rally/internal/config"
	"rally/internal/session"
	"rally/internal/session/loop"
)

const batchHelp = `Batch runs the tasks of a file, some at a time. A task is a line:

  {"id": "a", "prompt": "…"}          or "prompt_file", or "command" with "args"

and may have session, agent, model, files, dir, system, schema, timeout,
max_steps, max_cost and vars. A .txt file has one prompt a line; - is stdin.

Each task becomes a row in the result file: the result line of rally run, with
task_id. The file is all the state there is. The same command again skips what
is completed, runs cut tasks again, and failed ones with --retry-failed.

With --max-cost and --timeout the whole batch has a limit; the cost counts all
rows of the result file. docs/scale.md says how to spread a batch over machines.

EXIT STATUS
  0    all tasks of this shard are completed
  1    some are not
  2    bad flag, config, task file or result file; nothing was sent
  4    --max-cost ended the batch, 124: --timeout
  5    another batch writes this result file
  130  SIGINT, 143: SIGTERM; running tasks are recorded as cut`

// batchOptions are what a batch does beside what each task says.
type batchOptions struct {
	app         *app
	tasks       string
	output      string
	format      string
	template    string
	jobs        int
	retryFailed bool
	failFast    bool
	shard       string
	isolate     string
	report      string
	quiet       bool
	maxCost     string // of the whole, as is timeout
	timeout     time.Duration
	taskTimeout time.Duration
	prompt      promptOptions // of every task that does not say otherwise
	turn        turnOptions
}

func newBatchCmd(a *app, runF func(*batchOptions) error) *cobra.Command {
	o := &batchOptions{app: a}
	cmd := &cobra.Command{
		Use:   "batch TASKS",
		Short: "Run many prompts from a file, some at a time",
		Long:  batchHelp,
		Example: "  rally batch tasks.jsonl --jobs 8 -o results.jsonl\n" +
			"  rally batch files.txt --template review.tmpl --isolate worktree -o results.jsonl\n" +
			"  rally batch tasks.jsonl --shard 2/5 -o part2.jsonl",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("rally batch tasks.jsonl -o results.jsonl", "rally batch takes one task file, got %d arguments", len(args))
			}
			o.tasks = args[0]
			if err := o.validate(cmd); err != nil {
				return err
			}
			if runF != nil {
				return runF(o)
			}
			return runBatch(o)
		},
	}
	o.addFlags(cmd.Flags())
	cmd.AddCommand(newBatchMergeCmd(a))
	return cmd
}

func (o *batchOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "append the results to `FILE` and skip what it has; default: stdout, and skip nothing")
	f.IntVar(&o.jobs, "jobs", 4, "run `N` tasks at a time")
	f.StringVar(&o.format, "format", "", "the lines of the task file are jsonl or txt (`WHAT`); default: by its name")
	f.StringVar(&o.template, "template", "", "make the prompts from `FILE`: {{.name}} is a task's variable")
	f.BoolVar(&o.retryFailed, "retry-failed", false, "run tasks again that failed")
	f.BoolVar(&o.failFast, "fail-fast", false, "end the batch at the first failure")
	f.StringVar(&o.shard, "shard", "", "take the `I/N`-th share of the tasks; auto asks the scheduler's environment")
	f.StringVar(&o.isolate, "isolate", "", "worktree: each task works in a git worktree of its own, and its row has the patch (`HOW`)")
	f.StringVar(&o.report, "report", "", "write a Markdown table of the tasks to `FILE`")
	f.StringVar(&o.maxCost, "max-cost", "", "end the batch when its rows cost `USD`")
	f.DurationVar(&o.timeout, "timeout", 0, "end the batch after `D`, such as 90s or 10m")
	f.DurationVar(&o.taskTimeout, "task-timeout", 0, "end a task after `D`, unless it says otherwise")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "nothing on stderr but errors")

	f.StringVarP(&o.prompt.model, "model", "m", "", "`MODEL` of tasks that name none, as provider/model")
	f.StringVar(&o.prompt.variant, "variant", "", "the model's variant `NAME`")
	f.StringVar(&o.prompt.agent, "agent", "", "agent `NAME` of tasks that name none")
	f.StringVar(&o.prompt.system, "system", "", "use this system prompt: `TEXT` or @FILE")
	f.StringVar(&o.prompt.appendSystem, "append-system", "", "add to the system prompt: `TEXT` or @FILE")
	f.StringVar(&o.prompt.schema, "schema", "", "the answers must match this JSON Schema: `FILE` or JSON")
	o.prompt.rules.addFlags(f)

	t := &o.turn
	f.StringSliceVar(&t.fallback, "fallback-model", nil, "`MODELS` to try in this order when the model stays unreachable: a,b")
	f.IntVar(&t.maxSteps, "max-steps", 0, "end a task after `N` model calls, unless it says otherwise")
	f.Int64Var(&t.maxTokens, "max-tokens", 0, "end a task before it uses more than `N` tokens")
	f.BoolVar(&t.yes, "yes", false, "allow what a rule would ask about; what is denied stays denied")
	f.StringVar(&t.onAsk, "on-ask", "", "what an ask becomes: reject, fail or allow (`WHAT`)")
	addTrustFlags(f, &t.trustProject, &t.hermetic)
}

func (o *batchOptions) validate(cmd *cobra.Command) error {
	o.turn.whenBusy = string(loop.BusyWait) // tasks of one session follow each other
	if err := o.turn.validate(cmd); err != nil {
		return err
	}
	o.turn.set = perTask(cmd.Flags())
	switch {
	case o.jobs < 1:
		return usagef("at least 1", "--jobs %d runs nothing", o.jobs)
	case o.isolate != "" && o.isolate != "worktree":
		return usagef("worktree is the one there is", "--isolate: %q is not one of its values", o.isolate)
	case o.format != "" && o.format != "jsonl" && o.format != "txt":
		return usagef("jsonl or txt", "--format: %q is not one of its values", o.format)
	case o.timeout < 0 || o.taskTimeout < 0:
		return usagef("0 is no limit", "a limit is below zero")
	case o.output == "-":
		o.output = ""
	}
	_, err := parseCost(o.maxCost)
	return err
}

// perTask are the flags without those that hold for the whole batch and would
// otherwise stand above the configuration of every task.
func perTask(all *pflag.FlagSet) *pflag.FlagSet {
	set := pflag.NewFlagSet("task", pflag.ContinueOnError)
	all.VisitAll(func(f *pflag.Flag) {
		if f.Name != "max-cost" && f.Name != "timeout" {
			set.AddFlag(f)
		}
	})
	return set
}

func runBatch(o *batchOptions) error {
	a := o.app
	ctx, cancel, stop := untilSignal(context.Background())
	defer stop()
	src, err := o.source()
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // it was only read
	results, err := o.results()
	if err != nil {
		return err
	}
	defer results.Close() //nolint:errcheck // every row is synced
	c := &crew{options: o, app: a, ctx: ctx, said: map[string]bool{}, kept: map[string]*keptWorkshop{}}
	defer c.close()
	limit, err := parseCost(o.maxCost)
	if err != nil {
		return err
	}
	show := newScoreboard(a, o.quiet)
	b := batch.New(batch.Options{
		Source: src, Results: results, Jobs: o.jobs, RetryFailed: o.retryFailed, FailFast: o.failFast,
		MaxCost: dollars(limit), MaxTime: o.timeout, Run: c.run, Finished: show.finished,
	})
	c.say = show.say
	if err := c.prepare(b.Todo()); err != nil {
		return because(ctx, err)
	}
	report, err := o.openReport()
	if err != nil {
		return err
	}
	// Short turns make much garbage and keep little: collecting it half as often
	// saves a fifth of the time and costs a few megabytes.
	if a.env("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(200))
	}
	stopShow := show.follow(b)
	err = b.Run(ctx)
	stopShow()
	cancel(nil)
	if report != nil {
		err = errors.Join(err, c.writeReport(report, src, results))
	}
	p := b.Progress()
	return o.end(show, &p, err)
}

// end says how the batch ended and gives its exit status.
func (o *batchOptions) end(show *scoreboard, p *batch.Progress, err error) error {
	show.summary(p)
	code := 0
	if p.Completed < p.Total {
		code = 1
	}
	switch {
	case err == nil:
		return exit(code)
	case errors.Is(err, batch.ErrFailFast):
		show.stopped(err, "the rest runs when you start the batch again")
		return exit(1)
	case errors.Is(err, batch.ErrCostLimit):
		show.stopped(err, "go on with the same command and a higher --max-cost")
		return exit(session.ReasonLimitCost.ExitCode())
	case errors.Is(err, batch.ErrTimeLimit):
		show.stopped(err, "go on with the same command")
		return exit(session.ReasonTimeout.ExitCode())
	case o.output == "" && !errors.Is(err, loop.ErrInterrupted) && !errors.Is(err, loop.ErrTerminated):
		return o.app.outputClosed(err)
	}
	return err
}

// source opens the task file.
func (o *batchOptions) source() (*batch.Source, error) {
	shard, err := batch.ParseShard(o.shard, o.app.env)
	if err != nil {
		return nil, usagef("such as 1/4, auto or auto/4", "--shard: %w", err)
	}
	text := o.format == "txt" || o.format == "" && strings.EqualFold(filepath.Ext(o.tasks), ".txt")
	src, err := batch.OpenSource(o.tasks, o.app.stdin, batch.SourceOptions{
		Text: text, Template: o.template != "", Shard: shard, Near: config.Near,
	})
	if err != nil {
		return nil, &loop.UsageError{Err: err}
	}
	return src, nil
}

// results opens the result file, or stdout in its place.
func (o *batchOptions) results() (*batch.Results, error) {
	if o.output == "" {
		return batch.StreamResults(o.app.stdout), nil
	}
	r, err := batch.OpenResults(o.output)
	switch {
	case errors.Is(err, batch.ErrInUse):
		return nil, fmt.Errorf("%w: %w", loop.ErrBusy, err)
	case err != nil:
		return nil, &loop.UsageError{Err: err}
	case r.Repaired:
		sayNotice(o.app.stderr, o.output+": the last line was torn when a batch died, and is gone; its task runs again")
	}
	for _, n := range r.Ignored {
		sayNotice(o.app.stderr, fmt.Sprintf("%s: line %d is not a result and counts nothing", o.output, n))
	}
	return r, nil
}

// openReport finds out early whether the report can be written. It must not
// take the place of what the batch reads or keeps.
func (o *batchOptions) openReport() (*os.File, error) {
	if o.report == "" {
		return nil, nil
	}
	if info, err := os.Stat(o.report); err == nil && info.Mode().IsRegular() {
		for _, path := range []string{o.tasks, o.output, o.template} {
			if other, err := os.Stat(path); err == nil && os.SameFile(info, other) {
				return nil, usagef("give another name", "--report would write over %s", path)
			}
		}
	}
	f, err := os.OpenFile(o.report, os.O_WRONLY|os.O_CREATE, 0o644) //nolint:gosec // a report is for others
	if err != nil {
		return nil, usagef("", "--report: %w", err)
	}
	return f, nil
}

func (c *crew) writeReport(f *os.File, src *batch.Source, results *batch.Results) error {
	dir, err := c.app.directory()
	if info, statErr := f.Stat(); err == nil && statErr == nil && info.Mode().IsRegular() {
		err = f.Truncate(0)
	}
	if err == nil {
		err = batch.Report(f, filepath.Base(c.options.tasks), dir, src, results)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func dollars(m session.Money) float64 { return float64(m) / 1e12 }
