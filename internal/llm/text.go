package llm

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"html"
	"net/url"
	"strings"
	"unicode/utf8"
)

var (
	hiddenHTML = lazy(`(?is)<(script|style|head)\b.*?</(?:script|style|head)>|<!--.*?-->`)
	titleHTML  = lazy(`(?is)<title[^>]*>(.*?)</title>`)
	tagHTML    = lazy(`(?s)<[^>]*>`)
	blanks     = lazy(`\s+`)
	keyShape   = lazy(`\b(sk|key|gsk|xai|AIza)(?:-[A-Za-z]+)?[-_][A-Za-z0-9_\-]{12,}`)
	bearer     = lazy(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=\-]{8,}`)
)

// plainText is what a person can read of a body that is no JSON.
func plainText(body []byte, contentType string) string {
	text := string(body[:min(len(body), 64<<10)])
	if strings.Contains(contentType, "html") || strings.HasPrefix(strings.TrimSpace(text), "<") {
		title := ""
		if m := titleHTML().FindStringSubmatch(text); m != nil {
			title = m[1] + ". "
		}
		text = title + tagHTML().ReplaceAllString(hiddenHTML().ReplaceAllString(text, " "), " ")
		text = html.UnescapeString(text)
		if cut := 300; len(text) > cut { // an error page, not an answer
			text = cutText(blanks().ReplaceAllString(text, " "), cut)
		}
	}
	return strings.TrimSpace(blanks().ReplaceAllString(text, " "))
}

// clean masks secrets and bounds a text for people.
func (c *Classifier) clean(text string, limit int) string {
	for _, secret := range c.Secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	text = keyShape().ReplaceAllString(text, "$1-***")
	text = bearer().ReplaceAllString(text, "$1 ***")
	return cutText(strings.ToValidUTF8(text, "\uFFFD"), limit)
}

// cutText cuts at a whole character.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// rootCause is the innermost text of a connection error: what wraps it names
// the URL, which may hold a key.
func rootCause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}

func isTLS(err error) bool {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var verify *tls.CertificateVerificationError
	return errors.As(err, &unknown) || errors.As(err, &invalid) || errors.As(err, &host) || errors.As(err, &verify)
}
