package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"rally/internal/llm"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// body is the request's JSON. The same request gives the same bytes, and one
// with more messages begins with the same messages (Invariant 6).
func (c *Chat) body(req *llm.Request) ([]byte, error) {
	p := sdk.ChatCompletionNewParams{Model: req.Model.ID, Messages: messages(req)}
	extra := map[string]any{"stream": true}
	if !c.noStreamOption.Load() {
		p.StreamOptions.IncludeUsage = sdk.Bool(true)
	}
	for _, t := range req.Tools {
		p.Tools = append(p.Tools, tool(t))
	}
	if len(req.Tools) > 0 && req.ToolChoice != "" {
		p.ToolChoice.OfAuto = sdk.String(req.ToolChoice)
	}
	if req.Temperature != nil {
		p.Temperature = sdk.Float(*req.Temperature)
	}
	if req.TopP != nil {
		p.TopP = sdk.Float(*req.TopP)
	}
	if req.CacheKey != "" && c.Official {
		p.PromptCacheKey = sdk.String(req.CacheKey)
	}
	if req.MaxOutput > 0 {
		extra[c.tokensName()] = req.MaxOutput
	}
	for key, value := range req.Options {
		extra[key] = value
	}
	p.SetExtraFields(extra)
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return body, nil
}

func tool(t llm.Tool) sdk.ChatCompletionToolUnionParam {
	def := shared.FunctionDefinitionParam{Name: llm.WireName(t.Name)}
	if t.Description != "" {
		def.Description = sdk.String(t.Description)
	}
	if len(t.Schema) > 0 { // as it is: the SDK's map would sort the properties
		def.SetExtraFields(map[string]any{"parameters": t.Schema})
	}
	return sdk.ChatCompletionFunctionTool(def)
}

func messages(req *llm.Request) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	if req.System != "" {
		out = append(out, sdk.SystemMessage(req.System))
	}
	for _, m := range req.Messages {
		switch m.Role {
		case llm.User:
			out = append(out, userMessage(req.Model, m.Content)...)
		case llm.Assistant:
			out = append(out, assistantMessage(req.Model, m.Content)...)
		case llm.ToolRole:
			out = append(out, toolMessages(req.Model, m.Content)...)
		}
	}
	return out
}

// userMessage is one plain text where nothing but text is said: not every
// server takes a list of parts.
func userMessage(model llm.Model, content []llm.Content) []sdk.ChatCompletionMessageParamUnion {
	var texts []string
	var parts []sdk.ChatCompletionContentPartUnionParam
	media := false
	for _, c := range content {
		switch c := c.(type) {
		case llm.Text:
			texts = append(texts, c.Text)
			parts = append(parts, sdk.TextContentPart(c.Text))
		case llm.Media:
			part, text := mediaPart(model, c)
			media = media || text == ""
			texts = append(texts, text)
			parts = append(parts, part)
		case llm.Thought, llm.Call, llm.Result: // never by a user
		}
	}
	switch {
	case len(parts) == 0:
		return nil
	case media:
		return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(parts)}
	}
	return []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(strings.Join(texts, "\n\n"))}
}

// mediaPart is the part for media, or a note (also as text) where the model
// does not take it.
func mediaPart(model llm.Model, m llm.Media) (part sdk.ChatCompletionContentPartUnionParam, note string) {
	kind := m.Modality()
	if kind == "" || !model.Takes(kind) {
		return sdk.TextContentPart(m.Note()), m.Note()
	}
	switch kind {
	case "image":
		return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: m.DataURL()}), ""
	case "pdf":
		name := m.Filename
		if name == "" {
			name = "file.pdf"
		}
		return sdk.FileContentPart(sdk.ChatCompletionContentPartFileFileParam{
			FileData: sdk.String(m.DataURL()), Filename: sdk.String(name),
		}), ""
	}
	format := "mp3"
	if strings.Contains(m.Mime, "wav") {
		format = "wav"
	}
	return sdk.InputAudioContentPart(sdk.ChatCompletionContentPartInputAudioInputAudioParam{Data: m.Data, Format: format}), ""
}

// assistantMessage leaves out a message that says nothing. Content is null
// beside calls: some servers want the member, others refuse an empty text.
func assistantMessage(model llm.Model, content []llm.Content) []sdk.ChatCompletionMessageParamUnion {
	var m sdk.ChatCompletionAssistantMessageParam
	var text strings.Builder
	extra := map[string]any{}
	for _, c := range content {
		switch c := c.(type) {
		case llm.Text:
			text.WriteString(c.Text)
		case llm.Thought:
			if model.Reasoning.Replay {
				replay(extra, c)
			}
		case llm.Call:
			if !c.Executed { // this format has no place for what the provider ran
				m.ToolCalls = append(m.ToolCalls, call(c))
			}
		case llm.Media, llm.Result: // never by an assistant
		}
	}
	switch {
	case strings.TrimSpace(text.String()) != "":
		m.Content.OfString = sdk.String(text.String())
	case len(m.ToolCalls) > 0:
		extra["content"] = nil
	default:
		return nil
	}
	if len(extra) > 0 {
		m.SetExtraFields(extra)
	}
	return []sdk.ChatCompletionMessageParamUnion{{OfAssistant: &m}}
}

// replay puts thinking into the field it came in. Tags in the text go back as
// reasoning_content, the name most servers know.
func replay(extra map[string]any, t llm.Thought) {
	switch field := t.Metadata.Text(fieldKey); field {
	case detailsKey:
		if list := t.Metadata[detailsKey]; len(list) > 0 {
			extra[detailsKey] = list
		}
	case "reasoning":
		before, _ := extra[field].(string)
		extra[field] = before + t.Text
	default:
		before, _ := extra["reasoning_content"].(string)
		extra["reasoning_content"] = before + t.Text
	}
}

func call(c llm.Call) sdk.ChatCompletionMessageToolCallUnionParam {
	f := sdk.ChatCompletionMessageFunctionToolCallParam{ID: c.ID}
	f.Function.Name = llm.WireName(c.Name)
	f.Function.Arguments = llm.WireArgs(c.Args)
	if len(c.Extra) > 0 {
		extra := make(map[string]any, len(c.Extra))
		for key, value := range c.Extra {
			extra[key] = value
		}
		f.SetExtraFields(extra)
	}
	return sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &f}
}

// toolMessages are the results, then one user message with the media they
// brought, which a tool message cannot hold.
func toolMessages(model llm.Model, content []llm.Content) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	media := []llm.Content{llm.Text{Text: llm.MediaFromTool}}
	for _, c := range content {
		r, ok := c.(llm.Result)
		if !ok {
			continue
		}
		out = append(out, sdk.ToolMessage(r.Text, r.CallID))
		for _, m := range r.Media {
			media = append(media, m)
		}
	}
	if len(media) > 1 {
		out = append(out, userMessage(model, media)...)
	}
	return out
}
