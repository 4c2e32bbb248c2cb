package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// legacyVersion is the newest protocol that begins with "initialize". It is
// tried first: all servers know that message, while many hang, or end, at one
// they do not know.
const legacyVersion = "2025-11-25"

// link is one connection to a server.
type link struct {
	session *sdk.ClientSession // nil until it is connected
	program *program           // or
	remote  *remote
	ended   chan struct{} // closed when the session is over
	life    context.Context
	stop    context.CancelFunc // ends the calls

	once   sync.Once
	mu     sync.Mutex
	closed bool // guarded by mu, as session is until dial returns
	token  int
	owed   int // calls that were cancelled
	calls  map[string]func(*sdk.ProgressNotificationParams)
}

// dial opens one connection. The link is returned with an error, too, once
// there is something to close.
func (s *server) dial(ctx context.Context, version string) (*link, error) {
	l := &link{ended: make(chan struct{}), calls: map[string]func(*sdk.ProgressNotificationParams){}}
	var transport sdk.Transport
	var err error
	if s.conf.URL != "" {
		if l.remote, err = newRemote(s.life, s.conf, s.opts.Client); err != nil { //nolint:contextcheck // a connection outlives the start
			return nil, err
		}
		transport = l.remote.transport(s.conf, s.opts.Client)
	} else {
		environ := append(s.opts.Environ[:len(s.opts.Environ):len(s.opts.Environ)], s.conf.Env...)
		if l.program, err = startProgram(s.conf.Command, s.opts.Dir, environ, "mcp/"+rand.Text()); err != nil {
			return nil, err
		}
		transport = l.program
	}
	l.life, l.stop = context.WithCancel(s.life)
	client := s.client(l)
	_, err = await(ctx, s, func() (struct{}, error) {
		session, err := client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
		if err == nil {
			err = l.adopt(session)
		}
		return struct{}{}, err
	})
	if err != nil {
		return l, err
	}
	session := l.session
	if !s.begin(func() {
		_ = session.Wait() // why it ended is asked of the program
		close(l.ended)
	}) {
		return l, errEnding
	}
	return l, nil
}

// adopt makes session the link's, unless that was closed meanwhile.
func (l *link) adopt(session *sdk.ClientSession) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = session.Close()
		return errEnding
	}
	l.session = session
	return nil
}

// connected is the session, nil before there is one.
func (l *link) connected() *sdk.ClientSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// client is the SDK's client for one connection.
func (s *server) client(l *link) *sdk.Client {
	touch := func() { s.changed.Store(true) }
	return sdk.NewClient(&sdk.Implementation{Name: "rally", Version: s.opts.Version}, &sdk.ClientOptions{
		Capabilities:               &sdk.ClientCapabilities{}, // no roots: they would overrule the configured arguments
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { touch() },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { touch() },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { touch() },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			l.progress(r.Params)
		},
	})
}

// dead reports whether the session is over.
func (l *link) dead() bool {
	if l.connected() == nil {
		return true
	}
	select {
	case <-l.ended:
		return true
	default:
		return l.life.Err() != nil
	}
}

// lost reports whether err came because the connection is over; the session
// may not have noticed yet.
func (l *link) lost(err error) bool {
	return l.dead() || errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE)
}

// close ends the connection and, of a program, all processes. It returns when
// they are gone and may be called again.
func (l *link) close() {
	l.once.Do(func() {
		l.mu.Lock()
		l.closed = true
		session := l.session
		owed := l.owed + len(l.calls)
		l.mu.Unlock()
		l.stop()
		if l.remote != nil {
			l.leave(session, owed)
			l.remote.stop()
		}
		if l.program != nil {
			l.program.end()
		}
		if session != nil {
			_ = session.Close() // nothing is left to be said on it
		}
	})
}

// leave tells a remote server which calls were cancelled and that we go, if it
// listens.
func (l *link) leave(session *sdk.ClientSession, owed int) {
	if session == nil {
		return
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	l.remote.settle(owed, late.C)
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = session.Close()
	}()
	late.Reset(patience)
	select {
	case <-left:
	case <-late.C:
	}
}

// watch registers a call's interest in progress and returns its token. forget
// is told whether the call was cancelled.
func (l *link) watch(f func(*sdk.ProgressNotificationParams)) (token string, forget func(cancelled bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token++
	token = strconv.Itoa(l.token)
	l.calls[token] = f
	return token, func(cancelled bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, token)
		if cancelled {
			l.owed++
		}
	}
}

func (l *link) progress(p *sdk.ProgressNotificationParams) {
	if p == nil {
		return
	}
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	f := l.calls[token]
	l.mu.Unlock()
	if f != nil {
		f(p)
	}
}

// isUnknownMethod reports a server's answer that it does not know "initialize".
func isUnknownMethod(err error) bool {
	var wire *jsonrpc.Error
	return errors.As(err, &wire) && (wire.Code == jsonrpc.CodeMethodNotFound || wire.Code == sdk.CodeUnsupportedProtocolVersion)
}
