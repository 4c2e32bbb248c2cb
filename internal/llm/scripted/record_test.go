package scripted_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/llm"
	"rally/internal/llm/openai"
	"rally/internal/llm/scripted"
)

func serve(t *testing.T, yaml string, o scripted.ServeOptions) *scripted.Server {
	t.Helper()
	s, err := scripted.Parse("test", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := s.Serve(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

// What was recorded plays back to the same events, and no key or cookie is in
// the record (Invariant 15).
func TestRecordAndReplay(t *testing.T) {
	const secret = "sk-very-secret-4711"
	srv := serve(t, `
replies:
  - {reasoning: why, text: "héllo\n\n  two\ttabs", chunk: 2, calls: [{name: read, args: {a: 1}}]}
  - error: {status: 429, message: "key `+secret+` is slow", headers: {Retry-After: "1", Set-Cookie: "id=cookie-4711"}}
  - {text: cut off, chunk: 1, cut: 3}
`, scripted.ServeOptions{})
	var script bytes.Buffer
	recorder := scripted.NewRecorder(&script, []string{secret})
	adapter := func(url string, c *http.Client) llm.Provider {
		return openai.NewChat(openai.Options{
			Provider: "p", BaseURL: url, Key: secret, Client: c, Errors: llm.Classifier{Provider: "p"},
			Timeouts: llm.Timeouts{FirstByte: 5 * time.Second, Idle: 5 * time.Second},
		})
	}
	type outcome struct {
		Events []llm.Event
		Class  llm.Class
	}
	run := func(p llm.Provider, texts ...string) (out []outcome) {
		for _, text := range texts {
			var o outcome
			for e, err := range p.Stream(t.Context(), ask(text)) {
				if err != nil {
					o.Class = llm.ClassOf(err)
					break
				}
				o.Events = append(o.Events, e)
			}
			out = append(out, o)
		}
		return out
	}
	want := run(adapter(srv.URL, recorder.Wrap(&http.Client{})), "a", "b", "c")
	if err := recorder.Err(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{secret, "cookie-4711"} {
		if strings.Contains(script.String(), s) {
			t.Errorf("%q is in the record:\n%s", s, script.String())
		}
	}

	again := serve(t, script.String(), scripted.ServeOptions{Strict: true})
	got := run(adapter(again.URL, &http.Client{}), "a", "b", "c")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("replay (-recorded +played):\n%s\n%s", d, script.String())
	}
	if d := again.Differences(); d != nil {
		t.Errorf("differences: %v", d)
	}

	other := serve(t, script.String(), scripted.ServeOptions{})
	run(adapter(other.URL, &http.Client{}), "a", "x")
	if d := cmp.Diff([]string{"request 2 differs from the recorded one: message 1 is another one"}, other.Differences()); d != "" {
		t.Error(d)
	}
	strict := serve(t, script.String(), scripted.ServeOptions{Strict: true})
	if got := run(adapter(strict.URL, &http.Client{}), "x"); got[0].Class != llm.BadRequest {
		t.Errorf("strict replay: %+v", got)
	}
}
