package llm

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rally/internal/session"
)

func TestClasses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int // 0 is an object inside a 200
		body   string
		want   Class
		code   string
	}{
		{"OpenAI bad key", 401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, Auth, "invalid_api_key"},
		{"forbidden page", 403, `<html><body>Forbidden</body></html>`, Auth, ""},
		{"quota with 429", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, Quota, "insufficient_quota"},
		{"quota with 403", 403, `{"error":{"message":"quota used up","type":"insufficient_quota","code":"insufficient_quota"}}`, Quota, "insufficient_quota"},
		{"billing", 400, `{"error":{"code":"billing_hard_limit_reached","message":"x"}}`, Quota, "billing_hard_limit_reached"},
		{"free usage", 429, `{"error":{"type":"FreeUsageLimitError","message":"x"}}`, Quota, "FreeUsageLimitError"},
		{"usage not included", 403, `{"error":{"type":"usage_not_included"}}`, Quota, "usage_not_included"},
		{"payment", 402, `{"error":{"message":"Insufficient credits","code":402}}`, Quota, ""},
		{"rate limit", 429, `{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}`, RateLimit, "rate_limit_exceeded"},
		{"Gemini's quota is a rate limit", 429, `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details","status":"RESOURCE_EXHAUSTED"}}]`, RateLimit, "RESOURCE_EXHAUSTED"},
		{"tokens per minute", 429, `{"error":{"message":"Request too large: maximum context length is 5 tokens per minute"}}`, RateLimit, ""},
		{"no body", 500, ``, Server, ""},
		{"overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Server, "overloaded_error"},
		{"proxy timeout", 504, `<html><head><title>504 Gateway Time-out</title></head></html>`, Server, ""},
		{"conflict", 409, `{}`, Server, ""},
		{"too large, page", 413, `<html><body>413 Request Entity Too Large</body></html>`, TooLarge, ""},
		{"too large, Anthropic", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, TooLarge, "request_too_large"},
		{"bad request", 400, `{"error":{"message":"bad request","type":"invalid_request_error"}}`, BadRequest, "invalid_request_error"},
		{"unknown model", 404, `{"error":"model 'x' not found"}`, BadRequest, ""},
		{"FastAPI", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, BadRequest, ""},
		{"filter of Azure", 400, `{"error":{"message":"filtered","code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, ContentFilter, "content_filter"},
		{"redirect", 302, ``, BadRequest, ""},
		{"stream: code", 0, `{"error":{"code":502,"message":"upstream busy"},"choices":[]}`, Server, ""},
		{"stream: code as text", 0, `{"error":{"code":"429","message":"slow"}}`, RateLimit, ""},
		{"stream: words", 0, `{"error":{"message":"Too Many Requests"}}`, RateLimit, ""},
		{"stream: invalid", 0, `{"error":{"type":"invalid_request_error","message":"no"}}`, BadRequest, "invalid_request_error"},
		{"stream: anything", 0, `{"error":{"message":"internal"}}`, Server, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := Classifier{Provider: "p"}
			e := c.Object([]byte(tt.body))
			if tt.status != 0 {
				e = c.Response(tt.status, http.Header{}, []byte(tt.body))
			}
			if e.Class != tt.want || e.Code != tt.code {
				t.Errorf("got %s %q, want %s %q (%s)", e.Class, e.Code, tt.want, tt.code, e.Message)
			}
			if e.Message == "" || strings.Contains(e.Message, "<") {
				t.Errorf("message %q is no text for people", e.Message)
			}
		})
	}
}

func TestOverflowOfServers(t *testing.T) {
	for server, body := range map[string]string{
		"OpenAI":       `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`,
		"Responses":    `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error"}}`,
		"Anthropic":    `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`,
		"Bedrock":      `{"message":"Input is too long for requested model."}`,
		"Gemini":       `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`,
		"llama.cpp":    `{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error"}}`,
		"vLLM":         `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}`,
		"vLLM, newer":  `{"error":{"message":"'max_tokens' is too large: 5000. This model's maximum context length is 4096 tokens","type":"BadRequestError","code":400}}`,
		"Ollama":       `{"error":"input length exceeds the context length"}`,
		"LM Studio":    `{"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length"}`,
		"Groq":         `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error"}}`,
		"xAI":          `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`,
		"Mistral":      `{"object":"error","message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length","type":"invalid_request_error"}`,
		"TGI":          "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000\",\"error_type\":\"validation\"}",
		"Moonshot":     `{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192","type":"invalid_request_error"}}`,
		"MiniMax":      `{"error":{"message":"invalid params, context window exceeds limit"}}`,
		"SGLang":       `{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (8192 tokens)."}`,
		"LiteLLM":      `{"error":{"type":"ContextWindowExceededError","message":"x"}}`,
		"DashScope":    `{"error":{"message":"Range of input length should be [1, 30720]","type":"invalid_request_error"}}`,
		"OpenRouter":   `{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens","code":400}}`,
		"Copilot":      `{"error":{"message":"prompt token count of 70000 exceeds the limit of 64000 tokens","code":"model_max_prompt_tokens_exceeded"}}`,
		"Cerebras":     ``,
		"llama-cpp-py": `{"error":{"message":"Requested tokens (9000) exceed context window of 8192"}}`,
	} {
		t.Run(server, func(t *testing.T) {
			c := Classifier{}
			if e := c.Response(http.StatusBadRequest, http.Header{}, []byte(body)); e.Class != Overflow {
				t.Errorf("class %s of %q", e.Class, e.Message)
			}
			if body == "" {
				return
			}
			if e := c.Object([]byte(body)); e.Class != Overflow {
				t.Errorf("class %s in a stream", e.Class)
			}
		})
	}
	patterns, err := CompilePatterns([]string{`memory of the model is full`})
	if err != nil {
		t.Fatal(err)
	}
	c := Classifier{Overflow: patterns}
	if e := c.Response(400, http.Header{}, []byte(`{"error":"The Memory of the model is full"}`)); e.Class != Overflow {
		t.Errorf("configured pattern: %s", e.Class)
	}
	if _, err := CompilePatterns([]string{"("}); err == nil {
		t.Error("a broken pattern was taken")
	}
}

// Invariant 15: a key that a server echoes does not get into an Error.
func TestErrorsHoldNoKeys(t *testing.T) {
	c := Classifier{Provider: "p", Secrets: []string{"hunter2-hunter2"}}
	body := `{"error":{"message":"bad key hunter2-hunter2, sk-proj-abcdefghijklmnop, Authorization: Bearer abc.def.ghi-jkl"}}`
	for _, e := range []*Error{c.Response(401, http.Header{}, []byte(body)), c.Object([]byte(body)), c.Transport(errors.New(body), true)} {
		all := e.Error() + e.Body + e.Session().Data.Message
		for _, secret := range []string{"hunter2-hunter2", "abcdefghijklmnop", "abc.def"} {
			if strings.Contains(all, secret) {
				t.Errorf("%q is in %q", secret, all)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := Classifier{Now: func() time.Time { return now }}
	retryInfo := `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31s"}]}}`
	for _, tt := range []struct {
		name, header, value, body string
		want                      time.Duration
	}{
		{"seconds", "Retry-After", "2", "", 2 * time.Second},
		{"parts of seconds", "Retry-After", "0.5", "", 500 * time.Millisecond},
		{"milliseconds", "Retry-After-Ms", "50", "", 50 * time.Millisecond},
		{"date", "Retry-After", now.Add(time.Minute).Format(http.TimeFormat), "", time.Minute},
		{"days", "Retry-After", "864000", "", 240 * time.Hour},
		{"RetryInfo", "", "", retryInfo, 31 * time.Second},
		{"nonsense", "Retry-After", "soon", "", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			h.Set(tt.header, tt.value)
			e := c.Response(429, h, []byte(tt.body))
			got := time.Duration(-1)
			if e.RetryAfter != nil {
				got = *e.RetryAfter
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	p := Policy{Attempts: 5, MaxWait: time.Minute}
	after := func(d time.Duration) error { return &Error{Class: RateLimit, Status: 429, RetryAfter: &d} }
	for _, tt := range []struct {
		name    string
		attempt int
		err     error
		wait    time.Duration
		retry   bool
	}{
		{"first", 1, &Error{Class: Server}, 2 * time.Second, true},
		{"second", 2, &Error{Class: Network}, 4 * time.Second, true},
		{"fourth", 4, &Error{Class: Timeout}, 16 * time.Second, true},
		{"last", 5, &Error{Class: Server}, 0, false},
		{"asked to wait", 1, after(7 * time.Second), 7 * time.Second, true},
		{"asked for too long", 1, after(time.Hour), 0, false},
		{"asked for nothing", 1, after(0), 2 * time.Second, true},
		{"quota", 1, &Error{Class: Quota}, 0, false},
		{"auth", 1, &Error{Class: Auth}, 0, false},
		{"overflow", 1, &Error{Class: Overflow}, 0, false},
		{"cut", 1, &Error{Class: Incomplete}, 2 * time.Second, true},
		{"not ours", 1, io.EOF, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wait, retry := p.Next(tt.attempt, tt.err)
			if wait != tt.wait || retry != tt.retry {
				t.Errorf("got %s %v, want %s %v", wait, retry, tt.wait, tt.retry)
			}
		})
	}
	p.Attempts = 100
	if wait, _ := p.Next(60, &Error{Class: Network}); wait != backoffCap {
		t.Errorf("without headers the wait is %s, want %s", wait, backoffCap)
	}
	if wait, _ := p.Next(60, &Error{Class: Server, Status: 500}); wait != time.Minute {
		t.Errorf("the wait is %s, want max_wait", wait)
	}
	p.Jitter = func() float64 { return 0.5 }
	if wait, _ := p.Next(1, after(10*time.Second)); wait < 10*time.Second || wait > 11*time.Second {
		t.Errorf("with jitter the wait is %s", wait)
	}
}

func TestSessionError(t *testing.T) {
	c := Classifier{Provider: "p"}
	got := c.Response(400, http.Header{}, []byte(`{"error":{"message":"prompt is too long"}}`)).Session()
	want := &session.Error{Name: session.ContextOverflowError, Data: session.ErrorData{
		Message: "prompt is too long", ProviderID: "p", StatusCode: 400, ResponseBody: `{"error":{"message":"prompt is too long"}}`,
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
