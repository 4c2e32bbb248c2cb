package mcp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is one server of the configuration over its whole life: it may be
// connected more than once.
type server struct {
	conf    Server
	opts    *Options
	timeout time.Duration
	life    context.Context // ended by close
	stop    context.CancelFunc
	changed atomic.Bool // its lists are not what they were
	work    sync.WaitGroup

	// mu is held while it is connected, which takes up to its timeout: only
	// await waits for it.
	mu     sync.Mutex
	link   *link       // nil before the first connection
	reused atomic.Bool // it was started again already

	state  sync.Mutex // guards what follows; held briefly
	closed bool       // no work begins any more
	offer  offer
	err    error // why it is missing
	took   time.Duration
}

// errEnding is what a call gets that comes too late.
var errEnding = errors.New("the run is ending")

// offer is what a server has.
type offer struct {
	tools        []*sdk.Tool
	prompts      []*sdk.Prompt
	resources    bool
	instructions string
	info         *sdk.Implementation
}

func newServer(conf Server, o *Options) *server {
	s := &server{conf: conf, opts: o, timeout: conf.Timeout}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// await runs f and returns when it has ended or ctx has: the SDK may block on
// a server that does not read. What f began is waited for by close.
func await[T any](ctx context.Context, s *server, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	var zero T
	if !s.begin(func() {
		v, err := f()
		done <- outcome{v, err}
	}) {
		return zero, errEnding
	}
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
}

// begin runs f beside us unless close has been called.
func (s *server) begin(f func()) bool {
	s.state.Lock()
	defer s.state.Unlock()
	if !s.closed {
		s.work.Go(f)
	}
	return !s.closed
}

// start connects for the first time and lists what there is.
func (s *server) start(ctx context.Context) {
	began := s.now()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	l, found, err := s.connect(ctx)
	s.link = l
	s.state.Lock()
	defer s.state.Unlock()
	s.offer, s.err, s.took = found, err, s.now().Sub(began)
}

func (s *server) now() time.Time {
	if s.opts.Now == nil {
		return time.Time{}
	}
	return s.opts.Now()
}

// connect makes a connection on which everything was listed.
func (s *server) connect(ctx context.Context) (*link, offer, error) {
	l, err := s.dial(ctx, legacyVersion)
	if isUnknownMethod(err) {
		l.close()
		l, err = s.dial(ctx, "") // a server that knows only what came after
	}
	if err == nil {
		var found offer
		if found, err = await(ctx, s, func() (offer, error) { return list(ctx, l.session) }); err == nil {
			return l, found, nil
		}
	}
	err = s.explain(ctx, l, err)
	if l != nil && !s.begin(l.close) {
		l.close()
	}
	return nil, offer{}, err
}

// use is the live connection; a server that died is started again, once if it
// is a program.
func (s *server) use(ctx context.Context) (*link, error) {
	return await(ctx, s, func() (*link, error) { //nolint:contextcheck // a start outlives the call that needed it first
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.life.Err() != nil:
			return nil, errEnding
		case s.link == nil:
			return nil, tell("MCP server %q is not connected: %v.", s.conf.Name, s.missing())
		case !s.link.dead():
			return s.link, nil
		case s.reused.Load() && s.link.program != nil:
			return nil, tell("MCP server %q ended twice and is not started again. Go on without it.", s.conf.Name)
		}
		s.reused.Store(true)
		s.link.close()
		ctx, cancel := context.WithTimeout(s.life, s.timeout)
		defer cancel()
		l, _, err := s.connect(ctx)
		if err != nil {
			return nil, tell("MCP server %q ended and could not be started again: %v.", s.conf.Name, err)
		}
		s.link = l
		s.changed.Store(true)
		return l, nil
	})
}

// missing is why there is no connection.
func (s *server) missing() error {
	s.state.Lock()
	defer s.state.Unlock()
	return s.err
}

// offered is what it had when it was last listed.
func (s *server) offered() offer {
	s.state.Lock()
	defer s.state.Unlock()
	return s.offer
}

// refresh lists again. What fails leaves the old lists; calls will tell.
func (s *server) refresh(ctx context.Context) {
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l == nil || l.dead() || !s.changed.Swap(false) && l.remote == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	found, err := await(ctx, s, func() (offer, error) { return list(ctx, l.session) })
	if err != nil {
		return
	}
	s.state.Lock()
	defer s.state.Unlock()
	s.offer = found
}

// close ends it, whatever it is doing.
func (s *server) close() {
	s.stop()
	s.state.Lock()
	s.closed = true
	s.state.Unlock()
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
	s.work.Wait()
}

// explain says for people why err happened on l, which may be nil.
func (s *server) explain(ctx context.Context, l *link, err error) error {
	if l == nil {
		return err
	}
	slow := errors.Is(err, context.DeadlineExceeded)
	if l.remote != nil {
		if why := l.remote.explain(s.conf.Name, l.connected() != nil); why != nil {
			return why
		}
	}
	var wire *jsonrpc.Error
	if l.program != nil && errors.As(err, &wire) {
		return errors.New(cut(wire.Message, 600))
	}
	if l.program != nil && (slow || l.lost(err)) {
		how := l.program.ended(ctx)
		switch {
		case slow && how != "":
			return fmt.Errorf("it did not answer within %v; %s", s.timeout, how)
		case !slow && how != "":
			return errors.New(how)
		}
	}
	var lost *url.Error
	switch {
	case slow:
		return fmt.Errorf("it did not answer within %v", s.timeout)
	case errors.As(err, &lost) && !errors.Is(err, context.Canceled):
		return fmt.Errorf("it cannot be reached: %w", lost.Err)
	}
	return errors.New(withoutSecrets(err, s.conf))
}

// list asks for everything a server says it has.
func list(ctx context.Context, session *sdk.ClientSession) (offer, error) {
	init := session.InitializeResult()
	out := offer{instructions: init.Instructions, info: init.ServerInfo}
	has := init.Capabilities
	if has == nil {
		has = &sdk.ServerCapabilities{}
	}
	var err error
	if has.Tools != nil {
		if out.tools, err = collect(session.Tools(ctx, nil)); err != nil {
			return out, fmt.Errorf("list its tools: %w", err)
		}
	}
	if has.Prompts != nil {
		if out.prompts, err = collect(session.Prompts(ctx, nil)); err != nil {
			return out, fmt.Errorf("list its prompts: %w", err)
		}
	}
	out.resources = has.Resources != nil
	return out, nil
}

// maxListed bounds a list of a server that never comes to its end.
const maxListed = 2000

// collect drops what is null.
func collect[T any](all iter.Seq2[*T, error]) ([]*T, error) {
	var out []*T
	for v, err := range all {
		if err != nil {
			return out, err
		}
		if v != nil {
			out = append(out, v)
		}
		if len(out) == maxListed {
			break
		}
	}
	return out, nil
}
