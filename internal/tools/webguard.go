package tools

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// guard keeps webfetch away from addresses that only this machine or its
// network can reach. It looks at the address that is dialled, so a redirect
// or a name that changes its address between two looks gains nothing.
//
// A proxy of the environment is used and may itself be anywhere. What is
// asked of it is looked up here first; a name that only the proxy can look up
// is left to the proxy.
type guard struct {
	options Options
	proxy   func(*url.URL) (*url.URL, error)
	proxies map[string]bool // host:port of the proxies
	own     map[netip.Addr]bool
}

func newGuard(environ []string, o Options) *guard {
	first := func(names ...string) string {
		for _, n := range names {
			if v := getenv(environ, n); v != "" {
				return v
			}
		}
		return ""
	}
	config := httpproxy.Config{
		HTTPProxy: first("HTTP_PROXY", "http_proxy"), HTTPSProxy: first("HTTPS_PROXY", "https_proxy"),
		NoProxy: first("NO_PROXY", "no_proxy"), CGI: first("REQUEST_METHOD") != "",
	}
	return &guard{options: o, proxy: config.ProxyFunc(), proxies: map[string]bool{}, own: ownAddresses()}
}

// ownAddresses are those of this machine's interfaces.
func ownAddresses() map[netip.Addr]bool {
	own := map[netip.Addr]bool{}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return own // the special ranges are refused in any case
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own[p.Addr().Unmap()] = true
		}
	}
	return own
}

// transport serves one fetch: it keeps no connections.
func (g *guard) transport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSClientConfig:     &tls.Config{RootCAs: g.options.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: 15 * time.Second,
		DialContext:         g.dial,
		Proxy: func(req *http.Request) (*url.URL, error) {
			p, err := g.proxy(req.URL)
			if err != nil || p == nil {
				return p, err
			}
			g.proxies[hostPort(p)] = true
			return p, g.lookUp(req.Context(), req.URL.Hostname())
		},
	}
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		switch u.Scheme {
		case "https":
			port = "443"
		case "socks5", "socks5h":
			port = "1080"
		default:
			port = "80"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 15 * time.Second}
	if !g.proxies[address] {
		d.Control = g.control
	}
	return d.DialContext(ctx, network, address)
}

// control sees the address after the name was looked up, before it is dialled.
func (g *guard) control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return tell("The address %s cannot be checked.", address)
	}
	return g.check(a.Addr())
}

// lookUp checks a host that a proxy will connect to.
func (g *guard) lookUp(ctx context.Context, host string) error {
	if a, err := netip.ParseAddr(host); err == nil {
		return g.check(a)
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil //nolint:nilerr // only the proxy knows the name
	}
	for _, a := range list {
		if err := g.check(a); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) check(a netip.Addr) error {
	if g.options.AllowPrivate || (!private(a) && !g.own[plainAddr(a)]) {
		return nil
	}
	return tell("The address %s belongs to this machine or a private network, which webfetch does not reach. "+
		"Use bash (such as curl) if the task needs it and you may.", a)
}

// plainAddr takes an IPv4 address out of the IPv6 forms that carry one.
func plainAddr(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	b := a.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a), netip.MustParsePrefix("::/96").Contains(a) && !a.IsLoopback() && !a.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:16]))
	case netip.MustParsePrefix("2002::/16").Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return a
}

// private reports whether a is anything but a public unicast address.
func private(a netip.Addr) bool {
	a = plainAddr(a)
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return true
	}
	for _, p := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "fec0::/10",
	} {
		if netip.MustParsePrefix(p).Contains(a) {
			return true
		}
	}
	return false
}
