package openai_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"rally/internal/llm"
	"rally/internal/llm/openai"
	"rally/internal/llm/scripted"
)

func serve(t *testing.T, yaml string) *scripted.Server {
	t.Helper()
	s, err := scripted.Parse("test", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := s.Serve(t.Context(), scripted.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv
}

func chat(url string) *openai.Chat {
	return openai.NewChat(openai.Options{
		Provider: "test", BaseURL: url, Key: "sk-test", Client: &http.Client{},
		Timeouts: llm.Timeouts{FirstByte: 5 * time.Second, Idle: 5 * time.Second},
		Errors:   llm.Classifier{Provider: "test", Secrets: []string{"sk-test"}},
	})
}

func collect(ctx context.Context, p llm.Provider, req *llm.Request) (events []llm.Event, err error) {
	for e, streamErr := range p.Stream(ctx, req) {
		if streamErr != nil {
			return events, streamErr
		}
		events = append(events, e)
	}
	return events, nil
}

func request(text string) *llm.Request {
	return &llm.Request{
		Model:    llm.Model{Provider: "test", ID: "m"},
		Messages: []llm.Message{{Role: llm.User, Content: []llm.Content{llm.Text{Text: text}}}},
	}
}

func TestTourSpeaks(t *testing.T) {
	s, err := scripted.Tour(true)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := s.Serve(t.Context(), scripted.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	p := chat(srv.URL)
	for range 5 {
		events, err := collect(t.Context(), p, request("go"))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", events)
	}
	for _, r := range srv.Requests() {
		if !json.Valid(r.Body) {
			t.Errorf("request is not JSON: %s", r.Body)
		}
		t.Log(string(r.Body))
	}
}
