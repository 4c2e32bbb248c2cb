package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"rally/internal/batch"
)

const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
)

// scoreboard tells people how far a batch is: a bar on a terminal, a line now
// and then elsewhere. All that a batch says goes through it, so that nothing
// is written into the bar. It is safe for concurrent use.
type scoreboard struct {
	out   io.Writer
	quiet bool
	now   func() time.Time
	isBar bool

	mu  sync.Mutex
	bar *progressbar.ProgressBar // nil until it is shown
}

func newScoreboard(a *app, quiet bool) *scoreboard {
	return &scoreboard{out: a.stderr, quiet: quiet, now: a.now, isBar: !quiet && isTerminal(a.stderr) && a.env("TERM") != "dumb"}
}

// say shows a remark.
func (s *scoreboard) say(text string) {
	if s.quiet {
		return
	}
	s.line(func() { sayNotice(s.out, text) })
}

func (s *scoreboard) line(write func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar != nil {
		_ = s.bar.Clear() // a bar that cannot be drawn is no trouble of the batch
	}
	write()
}

// finished is batch.Options.Finished: what went well needs no line.
func (s *scoreboard) finished(o batch.Outcome) {
	if s.quiet || o.Completed() {
		return
	}
	text := o.Reason
	if o.Message != "" {
		text += ": " + o.Message
	}
	s.line(func() { fmt.Fprintf(s.out, "rally: task %s: %s\n", oneLine(o.TaskID, 80), oneLine(text, 200)) })
}

// follow shows the progress of b until stop is called.
func (s *scoreboard) follow(b *batch.Batch) (stop func()) {
	if s.quiet {
		return func() {}
	}
	first := b.Progress()
	every := lineEvery
	if s.isBar {
		every = barEvery
		s.mu.Lock()
		s.bar = progressbar.NewOptions(first.Total, progressbar.OptionSetWriter(s.out), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth(), progressbar.OptionUseANSICodes(true))
		s.mu.Unlock()
	}
	began := s.now()
	tick := time.NewTicker(every)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				s.show(b.Progress(), began)
			}
		}
	}()
	return func() {
		tick.Stop()
		close(quit)
		<-done
		s.line(func() {})
		s.mu.Lock()
		s.bar = nil
		s.mu.Unlock()
	}
}

func (s *scoreboard) show(p batch.Progress, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := p.Completed + p.Failed + p.Cut
	if s.bar != nil {
		s.bar.Describe(fmt.Sprintf("%d failed, %d running, $%.4f", p.Failed, p.Running, p.Cost))
		_ = s.bar.Set(done) // see line
		return
	}
	text := fmt.Sprintf("%d of %d done, %d failed, %d running, $%.4f", done, p.Total, p.Failed, p.Running, p.Cost)
	if p.Ran > 0 && p.Left() > 0 {
		each := s.now().Sub(began) / time.Duration(p.Ran)
		text += fmt.Sprintf(", about %s left", (each * time.Duration(p.Left())).Round(time.Second))
	}
	fmt.Fprintf(s.out, "rally: %s\n", text)
}

// summary is the last line.
func (s *scoreboard) summary(p *batch.Progress) {
	if s.quiet {
		return
	}
	text := fmt.Sprintf("%d tasks: %d completed, %d failed", p.Total, p.Completed, p.Failed)
	if p.Cut > 0 {
		text += fmt.Sprintf(", %d cut", p.Cut)
	}
	if p.Left() > 0 {
		text += fmt.Sprintf(", %d not run", p.Left())
	}
	fmt.Fprintf(s.out, "rally: %s; %d ran now, all rows cost $%.4f\n", text, p.Ran, p.Cost)
	if p.Failed > 0 {
		fmt.Fprintln(s.out, "rally: hint: run failed tasks again with --retry-failed")
	}
}

// stopped says why the batch ended early.
func (s *scoreboard) stopped(err error, hint string) {
	sayFailure(s.out, err.Error(), hint)
}
