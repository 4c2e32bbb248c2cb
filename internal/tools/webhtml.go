package tools

import (
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxNested is how deep a page may be nested to be converted: the converter
// calls itself for each level.
const maxNested = 512

// htmlMarkdown converts a page to Markdown; one it cannot convert becomes
// plain text.
func htmlMarkdown(page string) string {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil || nested(doc) > maxNested {
		return htmlText(page)
	}
	prune(doc)
	c := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	out, err := c.ConvertNode(doc)
	if err != nil {
		return htmlText(page)
	}
	return strings.TrimSpace(string(out))
}

// silent reports whether an element has no text worth reading.
func silent(n *html.Node) bool {
	if n.Type != html.ElementNode {
		return false
	}
	switch n.DataAtom.String() {
	case "script", "style", "noscript", "iframe", "object", "embed", "template", "svg", "nav", "title":
		return true
	}
	return false
}

// prune takes silent elements out of the page.
func prune(doc *html.Node) {
	var gone []*html.Node
	for n := range doc.Descendants() {
		if silent(n) {
			gone = append(gone, n)
		}
	}
	for _, n := range gone {
		if n.Parent != nil {
			n.Parent.RemoveChild(n)
		}
	}
}

// nested is how deep the page is nested, found without recursion.
func nested(doc *html.Node) int {
	deepest, depth := 0, 0
	for n := doc; n != nil; {
		deepest = max(deepest, depth)
		switch {
		case n.FirstChild != nil:
			n, depth = n.FirstChild, depth+1
			continue
		case n == doc:
			return deepest
		}
		for n != doc && n.NextSibling == nil {
			n, depth = n.Parent, depth-1
		}
		if n == doc {
			return deepest
		}
		n = n.NextSibling
	}
	return deepest
}

// htmlText is the text of a page, a line for each block. It reads tokens, so
// no page is too deep for it.
func htmlText(page string) string {
	z := html.NewTokenizer(strings.NewReader(page))
	var b strings.Builder
	skip := 0
	for {
		switch z.Next() {
		case html.ErrorToken:
			return tidy(b.String())
		case html.StartTagToken:
			n := tagNode(z)
			if silent(n) {
				skip++
			}
			if blockTag(n.DataAtom) {
				b.WriteByte('\n')
			}
		case html.EndTagToken:
			n := tagNode(z)
			if silent(n) && skip > 0 {
				skip--
			}
			if blockTag(n.DataAtom) {
				b.WriteByte('\n')
			}
		case html.SelfClosingTagToken:
			if blockTag(tagNode(z).DataAtom) {
				b.WriteByte('\n')
			}
		case html.TextToken:
			if skip == 0 {
				b.Write(z.Text())
			}
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

func tagNode(z *html.Tokenizer) *html.Node {
	name, _ := z.TagName()
	return &html.Node{Type: html.ElementNode, DataAtom: atom.Lookup(name)}
}

func blockTag(a atom.Atom) bool {
	switch a.String() {
	case "p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "header", "footer",
		"table", "ul", "ol", "pre", "blockquote", "dt", "dd":
		return true
	}
	return false
}

// tidy decodes entities, trims lines and keeps at most one empty line.
func tidy(text string) string {
	var out []string
	for line := range strings.SplitSeq(html.UnescapeString(text), "\n") {
		line = collapse(line)
		if line != "" || (len(out) > 0 && out[len(out)-1] != "") {
			out = append(out, line)
		}
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}
