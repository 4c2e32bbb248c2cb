package tools

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"golang.org/x/net/html/charset"

	"rally/internal/session"
)

//go:embed webfetch.md
var webFetchText string

// The bounds of a fetch.
const (
	maxFetch         = 5 << 20
	fetchTimeout     = 30 * time.Second
	maxFetchTimeout  = 120 * time.Second
	maxFetchRedirect = 10
)

const webFetchSchema = `{"type":"object","properties":{
"url":{"type":"string","description":"With http:// or https://"},
"format":{"type":"string","enum":["markdown","text","html"],"description":"What HTML becomes; markdown if absent"},
"timeout":{"type":"number","minimum":0,"description":"Seconds; 30 if absent, 120 at most"}},
"required":["url"],"additionalProperties":false}`

type webFetchArgs struct {
	URL     string  `json:"url"`
	Format  string  `json:"format"`
	Timeout float64 `json:"timeout"`
}

func newWebFetch(o Options) Tool {
	return tool[webFetchArgs]{
		name: "webfetch", text: webFetchText, schema: webFetchSchema,
		access: func(_ *Env, args webFetchArgs) ([]Access, error) {
			if _, err := args.target(); err != nil {
				return nil, err
			}
			return []Access{{Permission: "webfetch", Patterns: []string{args.URL}}}, nil
		},
		run: func(ctx context.Context, env *Env, args webFetchArgs) (Result, error) {
			return runWebFetch(ctx, env, newGuard(env.Environ, o), args)
		},
	}
}

func (a webFetchArgs) target() (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(a.URL))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, tell("URL must start with http:// or https:// and name a host.")
	}
	return u, nil
}

func (a webFetchArgs) limit() time.Duration {
	if a.Timeout <= 0 {
		return fetchTimeout
	}
	return min(time.Duration(a.Timeout*float64(time.Second)), maxFetchTimeout)
}

func runWebFetch(ctx context.Context, env *Env, g *guard, args webFetchArgs) (Result, error) {
	u, err := args.target()
	if err != nil {
		return Result{}, err
	}
	limited, cancel := context.WithTimeout(ctx, args.limit())
	defer cancel()
	body, header, err := fetch(limited, g, u, args.Format)
	if err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			return Result{}, tell("The request timed out after %s. Try again with a larger timeout (at most 120 seconds) or another address.", args.limit())
		}
		return Result{}, err
	}
	contentType := header.Get("Content-Type")
	if contentType == "" {
		contentType = http.DetectContentType(body)
	}
	meta := session.Metadata{}
	result := Result{Title: fmt.Sprintf("%s (%s)", args.URL, contentType), Metadata: meta}
	if kind := attachmentType(body); kind != "" {
		return fetchedFile(env, result, u, body, kind)
	}
	result.Output, err = fetchedText(body, contentType, args.Format)
	return result, err
}

// fetch gets the body of u, decompressed and bounded.
func fetch(ctx context.Context, g *guard, u *url.URL, format string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, nil, tell("The URL cannot be fetched: %v", err)
	}
	req.Header.Set("User-Agent", "Mozilla/5.0 (compatible; rally webfetch)")
	req.Header.Set("Accept-Language", "en-US,en;q=0.9")
	req.Header.Set("Accept", "text/html;q=1.0, application/xhtml+xml;q=0.9, text/markdown;q=0.9, text/plain;q=0.8, */*;q=0.1")
	if format == "markdown" || format == "" {
		req.Header.Set("Accept", "text/markdown;q=1.0, text/html;q=0.9, text/plain;q=0.8, */*;q=0.1")
	}
	client := http.Client{Transport: g.transport(), CheckRedirect: checkRedirect}
	res, err := client.Do(req)
	if err != nil {
		return nil, nil, fetchError(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, nil, tell("Request failed with status code %d (%s).", res.StatusCode, http.StatusText(res.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxFetch+1))
	if err != nil {
		return nil, nil, fetchError(err)
	}
	if len(body) > maxFetch {
		return nil, nil, tell("Response too large (exceeds 5MB limit). Fetch a smaller page, or download it with bash and read parts of it.")
	}
	return body, res.Header, nil
}

// fetchError is the cause without the request's own words around it.
func fetchError(err error) error {
	var t told
	if errors.As(err, &t) {
		return t
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return tell("The page could not be fetched: %v", err)
}

// checkRedirect follows redirects on one host only: the gate has decided
// about that host and no other.
func checkRedirect(req *http.Request, via []*http.Request) error {
	bare := func(r *http.Request) string { return strings.TrimPrefix(strings.ToLower(r.URL.Hostname()), "www.") }
	switch {
	case len(via) > maxFetchRedirect:
		return tell("The page redirects more than %d times.", maxFetchRedirect)
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return tell("The page redirects to %s, which is neither http nor https.", req.URL)
	case bare(req) != bare(via[0]):
		return tell("The page redirects to another host. If you want that page, call webfetch with its URL: %s", req.URL)
	}
	return nil
}

func fetchedFile(_ *Env, result Result, u *url.URL, body []byte, kind string) (Result, error) {
	part, note, err := attach(body, kind, path.Base(u.Path))
	if err != nil {
		return Result{}, tell("The file cannot be shown: %v", err)
	}
	result.Output = "Image fetched successfully"
	if kind == "application/pdf" {
		result.Output = "PDF fetched successfully"
	}
	if note != "" {
		result.Output += " (" + note + ")"
	}
	result.Attachments = []*session.File{part}
	return result, nil
}

// fetchedText decodes the body as its headers or it itself says, and converts
// HTML.
func fetchedText(body []byte, contentType, format string) (string, error) {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = "text/plain"
	}
	r, err := charset.NewReader(bytes.NewReader(body), contentType)
	if err != nil {
		r = bytes.NewReader(body)
	}
	decoded, err := io.ReadAll(r)
	if err != nil {
		return "", tell("The page could not be decoded: %v", err)
	}
	text := strings.ToValidUTF8(string(decoded), "\ufffd")
	if isBinary([]byte(text[:min(len(text), sniffSize)])) {
		return "", tell("The address holds %s, which is not text. Download it with bash if you need it.", kind)
	}
	html := kind == "text/html" || kind == "application/xhtml+xml"
	switch {
	case !html || format == "html":
		return text, nil
	case format == "text":
		return htmlText(text), nil
	}
	return htmlMarkdown(text), nil
}
