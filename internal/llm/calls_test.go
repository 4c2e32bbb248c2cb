package llm

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

func at(i int) *int { return &i }

func build(fragments []CallDelta) []string {
	n := 0
	c := Calls{NewID: func() string { n++; return fmt.Sprintf("new%d", n) }}
	for _, f := range fragments {
		c.Add(f)
	}
	var out []string
	for _, call := range c.Done() {
		out = append(out, fmt.Sprintf("%s %s %s", call.ID, call.Name, call.Args()))
	}
	return out
}

func TestCalls(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []CallDelta
		want []string
	}{
		{"by index", []CallDelta{{Index: at(0), ID: "a", Name: "read"}, {Index: at(1), ID: "b", Name: "glob"}, {Index: at(0), Args: "{"}, {Index: at(1), Args: "[]"}, {Index: at(0), Args: "}"}}, []string{"a read {}", "b glob []"}},
		{"no index, ids", []CallDelta{{ID: "a", Name: "read", Args: "{}"}, {ID: "b", Name: "glob", Args: "{}"}}, []string{"a read {}", "b glob {}"}},
		{"no index, id at first only", []CallDelta{{ID: "a", Name: "read"}, {Args: "{"}, {Args: "}"}, {ID: "b", Name: "glob", Args: "{}"}}, []string{"a read {}", "b glob {}"}},
		{"neither index nor id", []CallDelta{{Name: "read", Args: "{}"}, {Name: "read", Args: "{}"}, {Name: "glob"}, {Args: "{}"}}, []string{"new1 read {}", "new2 read {}", "new3 glob {}"}},
		{"name repeated", []CallDelta{{Name: "read", Args: `{"a"`}, {Name: "read", Args: ":1}"}}, []string{`new1 read {"a":1}`}},
		{"always index 0", []CallDelta{{Index: at(0), ID: "a", Name: "read", Args: "{}"}, {Index: at(0), ID: "b", Name: "read", Args: "{}"}}, []string{"a read {}", "b read {}"}},
		{"always index 0, no ids", []CallDelta{{Index: at(0), Name: "read", Args: "{}"}, {Index: at(0), Name: "read", Args: "{}"}}, []string{"new1 read {}", "new2 read {}"}},
		{"another id for each fragment", []CallDelta{{Index: at(0), ID: "a", Name: "read"}, {Index: at(0), ID: "b", Args: `{"p":`}, {Index: at(0), ID: "c", Args: "1}"}}, []string{`a read {"p":1}`}},
		{"empty ids", []CallDelta{{Index: at(0), Name: "read", Args: "{}"}, {Index: at(1), Name: "glob", Args: "{}"}}, []string{"new1 read {}", "new2 glob {}"}},
		{"id comes late", []CallDelta{{Name: "read"}, {ID: "a", Args: "{}"}}, []string{"a read {}"}},
		{"same id twice", []CallDelta{{Index: at(0), ID: "a", Name: "read", Args: "{}"}, {Index: at(1), ID: "a", Name: "glob", Args: "{}"}}, []string{"a read {}", "new1 glob {}"}},
		{"name in pieces", []CallDelta{{Index: at(0), ID: "a", Name: "re"}, {Index: at(0), Name: "ad"}, {Index: at(0), Args: "{}"}}, []string{"a read {}"}},
		{"no name", []CallDelta{{Index: at(0), ID: "a", Args: "{}"}}, []string{"a  {}"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, build(tt.in)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCallsKeepExtras(t *testing.T) {
	var c Calls
	c.Add(CallDelta{Index: at(0), ID: "a", Name: "read", Extra: session.Metadata{"x": json.RawMessage(`1`)}})
	call, isNew := c.Add(CallDelta{Index: at(0), Extra: session.Metadata{"y": json.RawMessage(`2`)}, Executed: true, Result: json.RawMessage(`3`)})
	if d := cmp.Diff(session.Metadata{"x": json.RawMessage(`1`), "y": json.RawMessage(`2`)}, call.Extra); d != "" || isNew || !call.Executed || string(call.Result) != "3" {
		t.Errorf("got %+v, new %v: %s", call, isNew, d)
	}
}

// Cutting the arguments of calls in any place gives the same calls.
func FuzzCalls(f *testing.F) {
	f.Add(`{"path":"a b"}`, []byte{1, 2}, true, true)
	f.Add(`"}{`, []byte{0}, false, true)
	f.Add(``, []byte{}, true, false)
	f.Fuzz(func(t *testing.T, args string, cuts []byte, index, id bool) {
		var whole, cut []CallDelta
		for i, name := range []string{"read", "glob"} {
			first := CallDelta{Name: name}
			rest := CallDelta{}
			if index {
				first.Index, rest.Index = at(i), at(i)
			}
			if id {
				first.ID = "id-" + name
			}
			one := first
			one.Args = args
			whole = append(whole, one)
			cut = append(cut, first)
			left := args
			for _, c := range cuts {
				n := min(int(c), len(left))
				rest.Args, left = left[:n], left[n:]
				cut = append(cut, rest)
			}
			rest.Args = left
			cut = append(cut, rest)
		}
		if d := cmp.Diff(build(whole), build(cut)); d != "" {
			t.Error(d)
		}
	})
}
