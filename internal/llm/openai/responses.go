package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"rally/internal/llm"
)

// Responses is the responses API of one provider. Nothing is stored at the
// provider: reasoning goes back encrypted. It is safe for concurrent use.
type Responses struct{ client }

// NewResponses is an adapter with these options.
func NewResponses(o Options) *Responses { return &Responses{client: newClient(o)} }

// Stream implements llm.Provider.
func (c *Responses) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return llm.Exchange{
		Timeouts: c.Timeouts,
		Errors:   &c.Errors,
		Send: func(ctx context.Context) (*http.Response, error) {
			body, err := c.body(req)
			if err != nil {
				return nil, &llm.Error{Class: llm.BadRequest, Provider: c.Provider, Message: err.Error(), Err: err}
			}
			return c.post(ctx, "responses", body)
		},
		Decode: func(sink *llm.Sink) llm.Decoder {
			return &responsesDecoder{sink: sink, errors: &c.Errors, names: llm.WireNames(req.Tools)}
		},
	}.Stream(ctx)
}

// body is the request's JSON: the same request gives the same bytes
// (Invariant 6).
func (c *Responses) body(req *llm.Request) ([]byte, error) {
	p := responses.ResponseNewParams{Model: req.Model.ID, Store: sdk.Bool(false)}
	p.Input.OfInputItemList = inputItems(req)
	if req.System != "" {
		p.Instructions = sdk.String(req.System)
	}
	if req.Model.Reasoning.Replay {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	for _, t := range req.Tools {
		f := responses.FunctionToolParam{Name: llm.WireName(t.Name), Strict: sdk.Bool(false)}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		if len(t.Schema) > 0 {
			f.SetExtraFields(map[string]any{"parameters": t.Schema})
		}
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: &f})
	}
	if len(req.Tools) > 0 && req.ToolChoice != "" {
		p.ToolChoice.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptions(req.ToolChoice))
	}
	if req.Temperature != nil {
		p.Temperature = sdk.Float(*req.Temperature)
	}
	if req.TopP != nil {
		p.TopP = sdk.Float(*req.TopP)
	}
	if req.MaxOutput > 0 {
		p.MaxOutputTokens = sdk.Int(req.MaxOutput)
	}
	if req.CacheKey != "" && c.Official {
		p.PromptCacheKey = sdk.String(req.CacheKey)
	}
	extra := map[string]any{"stream": true}
	for key, value := range req.Options {
		extra[key] = value
	}
	// Variants are written for both APIs with the name chat completions has.
	if effort, ok := extra["reasoning_effort"]; ok && extra["reasoning"] == nil {
		delete(extra, "reasoning_effort")
		extra["reasoning"] = map[string]any{"effort": effort, "summary": "auto"}
	}
	p.SetExtraFields(extra)
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return body, nil
}

func inputItems(req *llm.Request) []responses.ResponseInputItemUnionParam {
	var out []responses.ResponseInputItemUnionParam
	for _, m := range req.Messages {
		if m.Role == llm.User {
			if item, ok := userItem(req.Model, m.Content); ok {
				out = append(out, item)
			}
			continue
		}
		for _, c := range m.Content {
			switch c := c.(type) {
			case llm.Text:
				if strings.TrimSpace(c.Text) != "" {
					out = append(out, responses.ResponseInputItemParamOfMessage(c.Text, responses.EasyInputMessageRoleAssistant))
				}
			case llm.Thought:
				if item, ok := thoughtItem(c); ok && req.Model.Reasoning.Replay {
					out = append(out, item)
				}
			case llm.Call:
				out = append(out, callItem(c))
			case llm.Result:
				out = append(out, resultItem(req.Model, c))
			case llm.Media: // only a user's
			}
		}
	}
	return out
}

func userItem(model llm.Model, content []llm.Content) (responses.ResponseInputItemUnionParam, bool) {
	var list responses.ResponseInputMessageContentListParam
	for _, c := range content {
		switch c := c.(type) {
		case llm.Text:
			list = append(list, responses.ResponseInputContentParamOfInputText(c.Text))
		case llm.Media:
			list = append(list, inputMedia(model, c))
		case llm.Thought, llm.Call, llm.Result: // never by a user
		}
	}
	if len(list) == 0 {
		return responses.ResponseInputItemUnionParam{}, false
	}
	return responses.ResponseInputItemParamOfMessage(list, responses.EasyInputMessageRoleUser), true
}

func inputMedia(model llm.Model, m llm.Media) responses.ResponseInputContentUnionParam {
	kind := m.Modality()
	switch {
	case kind == "image" && model.Takes(kind):
		return responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
			ImageURL: sdk.String(m.DataURL()), Detail: responses.ResponseInputImageDetailAuto,
		}}
	case kind == "pdf" && model.Takes(kind):
		return responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{
			Filename: sdk.String(fileName(m)), FileData: sdk.String(m.DataURL()),
		}}
	}
	return responses.ResponseInputContentParamOfInputText(m.Note())
}

func fileName(m llm.Media) string {
	if m.Filename == "" {
		return "file.pdf"
	}
	return m.Filename
}

// thoughtItem is a reasoning item; without its encrypted content the API
// would look for it in a store that has none.
func thoughtItem(t llm.Thought) (responses.ResponseInputItemUnionParam, bool) {
	id, sealed := t.Metadata.Text("id"), t.Metadata.Text("encrypted_content")
	if id == "" || sealed == "" {
		return responses.ResponseInputItemUnionParam{}, false
	}
	item := responses.ResponseReasoningItemParam{ID: id, EncryptedContent: sdk.String(sealed), Summary: []responses.ResponseReasoningItemSummaryParam{}}
	if t.Text != "" {
		item.Summary = append(item.Summary, responses.ResponseReasoningItemSummaryParam{Text: t.Text})
	}
	return responses.ResponseInputItemUnionParam{OfReasoning: &item}, true
}

// callItem is a function call, or what the provider ran itself, as it came.
func callItem(c llm.Call) responses.ResponseInputItemUnionParam {
	if c.Executed && len(c.Result) > 0 {
		return param.Override[responses.ResponseInputItemUnionParam](c.Result)
	}
	f := responses.ResponseFunctionToolCallParam{CallID: c.ID, Name: llm.WireName(c.Name), Arguments: llm.WireArgs(c.Args)}
	if len(c.Extra) > 0 {
		extra := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(c.Extra)) {
			extra[key] = c.Extra[key]
		}
		f.SetExtraFields(extra)
	}
	return responses.ResponseInputItemUnionParam{OfFunctionCall: &f}
}

// resultItem holds media too: this API takes them in a call's output.
func resultItem(model llm.Model, r llm.Result) responses.ResponseInputItemUnionParam {
	var list responses.ResponseFunctionCallOutputItemListParam
	note := r.Text
	for _, m := range r.Media {
		kind := m.Modality()
		switch {
		case kind == "image" && model.Takes(kind):
			list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{
				OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: sdk.String(m.DataURL())},
			})
		case kind == "pdf" && model.Takes(kind):
			list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{
				OfInputFile: &responses.ResponseInputFileContentParam{Filename: sdk.String(fileName(m)), FileData: sdk.String(m.DataURL())},
			})
		default:
			note += "\n" + m.Note()
		}
	}
	item := responses.ResponseInputItemFunctionCallOutputParam{}
	item.CallID = sdk.String(r.CallID)
	if len(list) == 0 {
		item.Output.OfString = sdk.String(note)
	} else {
		text := responses.ResponseFunctionCallOutputItemUnionParam{OfInputText: &responses.ResponseInputTextContentParam{Text: note}}
		item.Output.OfResponseFunctionCallOutputItemArray = append(responses.ResponseFunctionCallOutputItemListParam{text}, list...)
	}
	return responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &item}
}
