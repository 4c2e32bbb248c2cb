package llm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"
)

const (
	maxAnswer = 64 << 20 // bytes of an answer in one piece
	maxPage   = 1 << 20
)

// Exchange is one request and its answer over HTTP: what is the same for all
// wire formats. The formats' own part is a Decoder.
type Exchange struct {
	Timeouts Timeouts
	Errors   *Classifier
	// Send makes the request and returns an answer of success. Its error is an
	// *Error for what the server refused, else the connection's.
	Send func(context.Context) (*http.Response, error)
	// Decode makes the decoder that emits into the sink.
	Decode func(*Sink) Decoder
}

// Decoder turns the events of one wire format into ours.
type Decoder interface {
	// Event takes one server-sent event; done ends the stream in order.
	Event(name string, data []byte) (done bool, err error)
	// Whole takes an answer that came as one JSON value.
	Whole(data []byte) error
	// Finished reports whether the answer has said why it ended.
	Finished() bool
	// Flush emits what is held back when the answer breaks off.
	Flush()
	// Finish emits the rest: usage, then Finish.
	Finish()
}

// Sink takes a decoder's events.
type Sink struct {
	yield   func(Event, error) bool
	watch   *Watch
	stopped bool
}

// Emit passes an event with content on; false says that nobody listens any
// more.
func (s *Sink) Emit(e Event) bool {
	s.watch.Content()
	if !s.stopped && !s.yield(e, nil) {
		s.stopped = true
	}
	return !s.stopped
}

// Stopped reports whether nobody listens any more.
func (s *Sink) Stopped() bool { return s.stopped }

// Finished says that the finish reason came, so that a connection which stays
// open is not waited for.
func (s *Sink) Finished() { s.watch.Finished() }

// Stream makes the exchange; it is what Provider.Stream returns.
func (x Exchange) Stream(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		streamCtx, watch := NewWatch(ctx, x.Timeouts)
		defer watch.Stop()
		res, err := x.Send(streamCtx)
		if err != nil {
			yield(nil, x.judge(ctx, watch, err, false, false))
			return
		}
		defer res.Body.Close() //nolint:errcheck // nothing depends on it
		sink := &Sink{yield: yield, watch: watch}
		d := x.Decode(sink)
		if !sink.Emit(Connected{}) {
			return
		}
		err = x.read(res.Body, sink, d)
		if err != nil {
			err = x.judge(ctx, watch, err, true, d.Finished())
		}
		switch {
		case sink.stopped:
		case err == nil:
			d.Finish()
		default:
			d.Flush()
			if !sink.stopped {
				yield(nil, err)
			}
		}
	}
}

func (x Exchange) judge(ctx context.Context, watch *Watch, err error, begun, finished bool) error {
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return watch.Judge(ctx, x.Errors, err, begun, finished)
}

// read decodes an answer of success to its end: a stream, or one JSON value
// from a server that does not stream. The first byte tells, since the content
// type is wrong often.
func (x Exchange) read(body io.Reader, sink *Sink, d Decoder) error {
	r := bufio.NewReader(body)
	first, err := firstByte(r)
	if err != nil {
		return err
	}
	switch first {
	case '{', '[':
		whole, err := io.ReadAll(io.LimitReader(r, maxAnswer))
		if err != nil {
			return err
		}
		if !json.Valid(whole) {
			return io.ErrUnexpectedEOF
		}
		return d.Whole(whole)
	case '<':
		page, err := io.ReadAll(io.LimitReader(r, maxPage))
		if err != nil {
			return err
		}
		e := x.Errors.Response(http.StatusOK, http.Header{"Content-Type": {"text/html"}}, page)
		e.Class, e.Message = BadRequest, "the server answered with a web page, so base_url is probably wrong: "+e.Message
		return e
	}
	return x.events(NewSSE(r), sink, d)
}

// events reads until the decoder is done or the stream ends. An end before
// the answer said why is io.ErrUnexpectedEOF.
func (x Exchange) events(sse *SSE, sink *Sink, d Decoder) error {
	for !sink.stopped {
		ev, err := sse.Next()
		switch {
		case errors.Is(err, io.EOF) && d.Finished():
			return nil
		case errors.Is(err, io.EOF):
			if stray := sse.Stray(); json.Valid(stray) {
				return x.Errors.Object(stray)
			}
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		switch strings.TrimSpace(string(ev.Data[:min(len(ev.Data), 16)])) {
		case "":
			continue
		case "[DONE]":
			return nil
		}
		if done, err := d.Event(ev.Name, ev.Data); done || err != nil {
			return err
		}
	}
	return nil
}

// BadChunk is the Error of an event that is not JSON.
func (c *Classifier) BadChunk(err error) *Error {
	return &Error{Class: Incomplete, Provider: c.Provider, Message: "the stream holds a chunk that is not JSON: " + err.Error(), Err: err}
}

// DecodeLoose is json.Unmarshal that leaves members of a wrong type out.
func DecodeLoose(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return nil
	}
	return err
}

// firstByte peeks at the first byte that is neither blank nor part of a byte
// order mark.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.Peek(1)
		if err != nil {
			return 0, err
		}
		switch b[0] {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF:
			if _, err := r.Discard(1); err != nil {
				return 0, err
			}
			continue
		}
		return b[0], nil
	}
}
