package llm

import (
	"encoding/json"
	"maps"
	"strings"

	"rally/internal/session"
)

// Calls puts the fragments of a stream's tool calls together.
//
// Servers number calls differently: some give an index, some only an id, some
// neither, and proxies say index 0 for every call. A fragment belongs to
//
//  1. the call with its index, if it has one; but with another id as well it
//     begins a new call once the old one is complete or the fragment brings a
//     name,
//  2. else the call with its id,
//  3. else, if it brings a name, a new call, unless it only repeats the name
//     of a call whose arguments are still open,
//  4. else the last call.
//
// The zero Calls is ready but makes no ids; it is not for concurrent use.
type Calls struct {
	// NewID makes the id of a call that came without one.
	NewID func() string

	all   []*PartialCall
	index map[int]*PartialCall
	id    map[string]*PartialCall
}

// PartialCall is a tool call as far as it has come.
type PartialCall struct {
	// Pos is the call's place among the stream's calls, from 0; it never
	// changes.
	Pos int
	// ID is the provider's id; Done fills it in where none came.
	ID       string
	Name     string
	Extra    session.Metadata
	Executed bool
	Result   json.RawMessage

	args    strings.Builder
	indexed bool
}

// Args is the text of the arguments so far. It is whatever the model wrote,
// valid JSON or not.
func (c *PartialCall) Args() string { return c.args.String() }

// Complete reports whether the arguments are nothing or one whole JSON value.
func (c *PartialCall) Complete() bool {
	args := strings.TrimSpace(c.args.String())
	if len(args) > 64 && args[0] == '{' && args[len(args)-1] != '}' {
		return false // spares reading long arguments again with each fragment
	}
	return args == "" || json.Valid([]byte(args))
}

// Add takes a fragment and returns the call it belongs to; isNew says that
// the fragment began it.
func (c *Calls) Add(d CallDelta) (call *PartialCall, isNew bool) {
	call = c.find(d)
	if call == nil {
		call = &PartialCall{Pos: len(c.all)}
		c.all = append(c.all, call)
		isNew = true
	}
	c.register(call, d)
	switch {
	case call.Name == "":
		call.Name = d.Name
	case d.Name != "" && d.Name != call.Name && call.args.Len() == 0:
		call.Name += d.Name // a few servers stream the name in pieces
	}
	call.args.WriteString(d.Args)
	if len(d.Extra) > 0 {
		if call.Extra == nil {
			call.Extra = session.Metadata{}
		}
		maps.Copy(call.Extra, d.Extra)
	}
	call.Executed = call.Executed || d.Executed
	if d.Result != nil {
		call.Result = d.Result
	}
	return call, isNew
}

// Done lists the calls in the order they began, each with an id of its own.
func (c *Calls) Done() []*PartialCall {
	seen := make(map[string]bool, len(c.all))
	for _, call := range c.all {
		if (call.ID == "" || seen[call.ID]) && c.NewID != nil {
			call.ID = c.NewID()
		}
		seen[call.ID] = true
	}
	return c.all
}

func (c *Calls) find(d CallDelta) *PartialCall {
	if d.Index != nil {
		if call := c.index[*d.Index]; call != nil {
			if call.ends(d) {
				return nil
			}
			return call
		}
		if call := c.id[d.ID]; call != nil && !call.indexed {
			return call
		}
		return nil
	}
	if call := c.id[d.ID]; call != nil {
		return call
	}
	if len(c.all) == 0 {
		return nil
	}
	last := c.all[len(c.all)-1]
	switch {
	case d.ID != "" && last.ID == "" && d.Name == "":
		return last // the id came late
	case d.ID != "":
		if d.Name == "" && !last.Complete() {
			return last // a proxy that makes up an id for each fragment
		}
		return nil
	case d.Name == "":
		return last
	case d.Name == last.Name && last.args.Len() > 0 && !last.Complete():
		return last // the name is repeated with each fragment
	}
	return nil
}

// ends reports whether a fragment with the call's own index begins another
// call all the same.
func (c *PartialCall) ends(d CallDelta) bool {
	if d.ID != "" && c.ID != "" && d.ID != c.ID {
		return d.Name != "" || c.args.Len() > 0 && c.Complete()
	}
	if d.ID != "" || d.Name == "" || c.args.Len() == 0 {
		return false
	}
	return (d.Name != c.Name || d.Args != "") && c.Complete()
}

func (c *Calls) register(call *PartialCall, d CallDelta) {
	if c.index == nil {
		c.index, c.id = map[int]*PartialCall{}, map[string]*PartialCall{}
	}
	if d.Index != nil {
		c.index[*d.Index] = call
		call.indexed = true
	}
	if call.ID == "" {
		call.ID = d.ID
	}
	if d.ID != "" && c.id[d.ID] == nil {
		c.id[d.ID] = call
	}
}
