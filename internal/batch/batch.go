package batch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Ends of a batch before all its tasks were run, as the cause of the context
// that running tasks see.
var (
	ErrCostLimit = errors.New("the cost limit of the batch was reached")
	ErrTimeLimit = errors.New("the time limit of the batch was reached")
	ErrFailFast  = errors.New("a task failed")
)

// Options say how a batch is run.
type Options struct {
	Source  *Source
	Results *Results
	Jobs    int // at a time; less than 1 counts as 1
	// RetryFailed runs tasks again whose newest row is a failure.
	RetryFailed bool
	// FailFast ends the batch at the first failure: running tasks are cut.
	FailFast bool
	// MaxCost in US dollars ends the batch, and so does MaxTime; 0 is no limit.
	MaxCost float64
	MaxTime time.Duration
	// Run runs a task and gives its row. It must not panic, and must return
	// soon after ctx has ended. It may be called from several goroutines. What
	// it says to spent counts against MaxCost until the row is there.
	Run func(ctx context.Context, t Task, spent func(usd float64)) Result
	// Finished is told of every row that is safe; nil for nobody. It is called
	// from several goroutines.
	Finished func(Outcome)
}

// Progress is how far a batch is. Completed, Failed and Cut count the newest
// rows of this shard, those of earlier starts included.
type Progress struct {
	Total     int // tasks of this shard
	Completed int
	Failed    int
	Cut       int
	Running   int
	Ran       int // rows of this start
	Cost      float64
}

// Left is how many tasks have no row.
func (p *Progress) Left() int { return p.Total - p.Completed - p.Failed - p.Cut }

func (p *Progress) add(o *Outcome) {
	switch {
	case o.Completed():
		p.Completed++
	case o.Cut():
		p.Cut++
	default:
		p.Failed++
	}
}

// Batch runs the tasks of a source, each once.
type Batch struct {
	Options
	todo []int // into Source.Entries

	mu       sync.Mutex
	next     int // into todo
	progress Progress
	live     map[int]float64 // spent by the running task of a worker
	cancel   context.CancelCauseFunc
}

// New looks up what is done and what is to do. Cut tasks are always to do.
func New(o Options) *Batch {
	b := &Batch{Options: o, live: map[int]float64{}, progress: Progress{Total: len(o.Source.Entries), Cost: o.Results.Cost()}}
	for i := range o.Source.Entries {
		row, found := o.Results.Newest(o.Source.Entries[i].ID)
		switch {
		case !found || row.Cut() || !row.Completed() && o.RetryFailed:
			b.todo = append(b.todo, i)
		case row.Completed():
			b.progress.Completed++
		default:
			b.progress.Failed++
		}
	}
	return b
}

// Todo lists what Run is going to run.
func (b *Batch) Todo() []*Entry {
	out := make([]*Entry, 0, len(b.todo))
	for _, i := range b.todo {
		out = append(out, &b.Source.Entries[i])
	}
	return out
}

// Progress is how far the batch is now.
func (b *Batch) Progress() Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.progress
	for _, usd := range b.live {
		p.Cost += usd
	}
	return p
}

// Run runs what is to do and returns when no task runs any more. The error
// says why it ended early: a limit, a failure with FailFast, a row that could
// not be written, or the cause of ctx.
func (b *Batch) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.cancel = cancel
	if b.MaxTime > 0 {
		timer := time.AfterFunc(b.MaxTime, func() { cancel(ErrTimeLimit) })
		defer timer.Stop()
	}
	b.mu.Lock()
	b.checkCost()
	b.mu.Unlock()
	var workers sync.WaitGroup
	for w := range min(max(b.Jobs, 1), max(len(b.todo), 1)) {
		workers.Go(func() { b.work(ctx, w) })
	}
	workers.Wait()
	if p := b.Progress(); p.Left() == 0 && p.Cut == 0 {
		return nil // nothing was left undone, so nothing ended it early
	}
	return context.Cause(ctx)
}

// work runs tasks until there are none, or the batch is over.
func (b *Batch) work(ctx context.Context, worker int) {
	for {
		e := b.take(ctx)
		if e == nil {
			return
		}
		row := b.Options.Run(ctx, b.Source.Task(e), func(usd float64) { b.spend(worker, usd) })
		o, err := b.Results.Append(row)
		if err != nil {
			b.cancel(err) // what cannot be kept need not be made
		}
		b.finish(worker, &o, err == nil)
		if err == nil && b.Finished != nil {
			b.Finished(o)
		}
	}
}

// take is the next task; nil when there is none or the batch is over.
func (b *Batch) take(ctx context.Context) *Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() != nil || b.next == len(b.todo) {
		return nil
	}
	b.next++
	b.progress.Running++
	return &b.Source.Entries[b.todo[b.next-1]]
}

func (b *Batch) spend(worker int, usd float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[worker] += usd
	b.checkCost()
}

// checkCost ends the batch at its limit. The caller holds mu.
func (b *Batch) checkCost() {
	if b.MaxCost <= 0 {
		return
	}
	sum := b.progress.Cost
	for _, usd := range b.live {
		sum += usd
	}
	if sum >= b.MaxCost {
		b.cancel(ErrCostLimit)
	}
}

func (b *Batch) finish(worker int, o *Outcome, kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.progress
	p.Running--
	if o.Cost != nil {
		p.Cost += *o.Cost
	} else {
		p.Cost += b.live[worker]
	}
	delete(b.live, worker)
	if !kept {
		return
	}
	p.Ran++
	p.add(o)
	if b.FailFast && !o.Completed() && !o.Cut() {
		b.cancel(ErrFailFast)
	}
	b.checkCost()
}
