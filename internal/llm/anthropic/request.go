package anthropic

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"rally/internal/llm"
	"rally/internal/session"
)

// defaultOutput is sent where neither the request nor the model has a limit:
// this API wants one.
const defaultOutput = 8192

// cachedTurns is how many of the newest user messages end in a breakpoint of
// the prompt cache: the newest one, to read next time, and the one before,
// which this request reads.
const cachedTurns = 2

// body is the request's JSON; the same request gives the same bytes
// (Invariant 6). Only the marks of the prompt cache move on.
func body(req *llm.Request) ([]byte, error) {
	p := sdk.MessageNewParams{Model: req.Model.ID, MaxTokens: req.MaxOutput, Messages: messages(req)}
	if p.MaxTokens <= 0 {
		p.MaxTokens = req.Model.Output
	}
	if p.MaxTokens <= 0 {
		p.MaxTokens = defaultOutput
	}
	if req.System != "" {
		p.System = []sdk.TextBlockParam{{Text: req.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	for _, t := range req.Tools {
		p.Tools = append(p.Tools, tool(t))
	}
	thinking := req.Model.Reasoning.Replay || len(req.Options["thinking"]) > 0
	if len(req.Tools) > 0 {
		choose(&p, req.ToolChoice, thinking)
	}
	extra := session.Metadata{"stream": json.RawMessage("true")}
	if !thinking { // with thinking only the defaults are allowed
		if req.Temperature != nil {
			extra.Set("temperature", *req.Temperature)
		}
		if req.TopP != nil {
			extra.Set("top_p", *req.TopP)
		}
	}
	maps.Copy(extra, req.Options)
	out, err := merge(p, extra)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return out, nil
}

// merge encodes p with more members. The SDK would add them in the order of a
// map, another one each time; here all members are sorted.
func merge(p sdk.MessageNewParams, extra session.Metadata) ([]byte, error) {
	known, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(known, &all); err != nil {
		return nil, err
	}
	maps.Copy(all, extra)
	return json.Marshal(all)
}

// choose sets the tool choice; thinking and a forced call exclude each other.
func choose(p *sdk.MessageNewParams, choice string, thinking bool) {
	switch {
	case choice == "none":
		none := sdk.NewToolChoiceNoneParam()
		p.ToolChoice.OfNone = &none
	case choice == "required" && !thinking:
		p.ToolChoice.OfAny = &sdk.ToolChoiceAnyParam{}
	case choice == "auto":
		p.ToolChoice.OfAuto = &sdk.ToolChoiceAutoParam{}
	}
}

func tool(t llm.Tool) sdk.ToolUnionParam {
	def := sdk.ToolParam{Name: llm.WireName(t.Name)}
	if t.Description != "" {
		def.Description = sdk.String(t.Description)
	}
	schema := t.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	def.InputSchema = param.Override[sdk.ToolInputSchemaParam](schema)
	return sdk.ToolUnionParam{OfTool: &def}
}

func messages(req *llm.Request) []sdk.MessageParam {
	var out []sdk.MessageParam
	for _, m := range req.Messages {
		switch m.Role {
		case llm.Assistant:
			if blocks := assistantBlocks(m.Content); len(blocks) > 0 {
				out = append(out, sdk.NewAssistantMessage(blocks...))
			}
		case llm.User, llm.ToolRole:
			if blocks := userBlocks(req.Model, m.Content); len(blocks) > 0 {
				out = append(out, sdk.NewUserMessage(blocks...))
			}
		}
	}
	left := cachedTurns
	for i := len(out) - 1; i >= 0 && left > 0; i-- {
		if user := out[i].OfUser; user != nil {
			mark(user.Content[len(user.Content)-1])
			left--
		}
	}
	return out
}

// mark puts a breakpoint of the prompt cache at the end of a user's block.
func mark(b sdk.ContentBlockParamUnion) {
	if c := b.GetCacheControl(); c != nil {
		*c = sdk.NewCacheControlEphemeralParam()
	}
}

func userBlocks(model llm.Model, content []llm.Content) []sdk.ContentBlockParamUnion {
	var out []sdk.ContentBlockParamUnion
	for _, c := range content {
		switch c := c.(type) {
		case llm.Text:
			if strings.TrimSpace(c.Text) != "" {
				out = append(out, sdk.NewTextBlock(c.Text))
			}
		case llm.Media:
			out = append(out, mediaBlock(model, c))
		case llm.Result:
			out = append(out, resultBlock(model, c))
		case llm.Thought, llm.Call: // never by a user
		}
	}
	return out
}

func mediaBlock(model llm.Model, m llm.Media) sdk.ContentBlockParamUnion {
	kind := m.Modality()
	switch {
	case kind == "image" && model.Takes(kind):
		return sdk.NewImageBlockBase64(m.Mime, m.Data)
	case kind == "pdf" && model.Takes(kind):
		b := sdk.NewDocumentBlock(sdk.Base64PDFSourceParam{Data: m.Data})
		if m.Filename != "" {
			b.OfDocument.Title = sdk.String(m.Filename)
		}
		return b
	}
	return sdk.NewTextBlock(m.Note())
}

// resultBlock holds the media too: this API takes them in a result.
func resultBlock(model llm.Model, r llm.Result) sdk.ContentBlockParamUnion {
	out := sdk.ToolResultBlockParam{ToolUseID: r.CallID}
	if r.Failed {
		out.IsError = sdk.Bool(true)
	}
	if strings.TrimSpace(r.Text) != "" {
		out.Content = append(out.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: r.Text}})
	}
	for _, m := range r.Media {
		b := mediaBlock(model, m)
		out.Content = append(out.Content, sdk.ToolResultBlockParamContentUnion{OfText: b.OfText, OfImage: b.OfImage, OfDocument: b.OfDocument})
	}
	return sdk.ContentBlockParamUnion{OfToolResult: &out}
}

// assistantBlocks leaves out thinking without a signature, which the API
// refuses, and a message that would say nothing. A message must not end with
// thinking.
func assistantBlocks(content []llm.Content) []sdk.ContentBlockParamUnion {
	var out []sdk.ContentBlockParamUnion
	said := 0 // blocks up to the last that is no thinking
	for _, c := range content {
		switch c := c.(type) {
		case llm.Text:
			if strings.TrimSpace(c.Text) != "" {
				out = append(out, sdk.NewTextBlock(c.Text))
				said = len(out)
			}
		case llm.Thought:
			if signature := c.Metadata.Text(signatureKey); signature != "" {
				out = append(out, sdk.NewThinkingBlock(signature, c.Text))
			} else if data := c.Metadata.Text(redactedKey); data != "" {
				out = append(out, sdk.NewRedactedThinkingBlock(data))
			}
		case llm.Call:
			out = append(out, callBlocks(c)...)
			said = len(out)
		case llm.Media, llm.Result: // never by an assistant
		}
	}
	return out[:said]
}

// callBlocks is a tool call; one that the provider ran goes back with what it
// said.
func callBlocks(c llm.Call) []sdk.ContentBlockParamUnion {
	input := json.RawMessage(llm.WireArgs(c.Args))
	if !c.Executed {
		return []sdk.ContentBlockParamUnion{sdk.NewToolUseBlock(c.ID, input, llm.WireName(c.Name))}
	}
	out := []sdk.ContentBlockParamUnion{sdk.NewServerToolUseBlock(c.ID, input, sdk.ServerToolUseBlockParamName(c.Name))}
	if len(c.Result) > 0 {
		out = append(out, param.Override[sdk.ContentBlockParamUnion](c.Result))
	}
	return out
}
