package anthropic

import (
	"encoding/json"
	"strings"

	"rally/internal/llm"
	"rally/internal/session"
)

// The members of a thought's metadata: what must go back with it.
const (
	signatureKey = "signature"
	redactedKey  = "redacted"
)

// wireEvent is what we read of an event.
type wireEvent struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message *wireMessage    `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   wireDelta       `json:"delta"`
	Usage   *wireUsage      `json:"usage"`
}

type wireDelta struct {
	Type       string `json:"type"`
	Text       string `json:"text"`
	Thinking   string `json:"thinking"`
	Signature  string `json:"signature"`
	JSON       string `json:"partial_json"`
	StopReason string `json:"stop_reason"`
}

// wireMessage is a whole answer; a stream begins with an empty one.
type wireMessage struct {
	Content    []json.RawMessage `json:"content"`
	StopReason string            `json:"stop_reason"`
	Usage      *wireUsage        `json:"usage"`
}

// wireUsage counts cached tokens beside the input, as we do.
type wireUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
}

// block is what we remember of an open block.
type block struct {
	call      bool
	input     string // given with the start; counts when no pieces follow
	pieces    bool
	signature string
}

// decoder turns events of the Messages API into ours.
type decoder struct {
	sink   *llm.Sink
	errors *llm.Classifier
	names  map[string]string

	blocks   map[int]*block
	usage    wireUsage
	reason   string
	finished bool
}

// Finished implements llm.Decoder.
func (d *decoder) Finished() bool { return d.finished }

// Flush implements llm.Decoder; nothing is held back.
func (d *decoder) Flush() {}

// Finish implements llm.Decoder.
func (d *decoder) Finish() {
	if u := d.usage; u != (wireUsage{}) {
		d.sink.Emit(llm.Usage{Tokens: session.Tokens{
			Input: u.Input, Output: u.Output, Cache: session.Cache{Read: u.CacheRead, Write: u.CacheWrite},
		}})
	}
	d.sink.Emit(llm.Finish{Reason: finishReason(d.reason), Raw: d.reason, Continue: d.reason == "pause_turn"})
}

func finishReason(raw string) session.Finish {
	switch raw {
	case "end_turn", "stop_sequence", "pause_turn":
		return session.FinishStop
	case "max_tokens", "model_context_window_exceeded":
		return session.FinishLength
	case "tool_use":
		return session.FinishToolCalls
	case "refusal":
		return session.FinishContentFilter
	}
	return session.FinishUnknown
}

// Whole implements llm.Decoder.
func (d *decoder) Whole(raw []byte) error {
	var m wireMessage
	if err := llm.DecodeLoose(raw, &m); err != nil {
		return d.errors.BadChunk(err)
	}
	if m.Content == nil {
		return d.errors.Object(raw)
	}
	for i, b := range m.Content {
		d.start(i, b)
		d.stop(i)
	}
	d.count(m.Usage)
	d.reason, d.finished = m.StopReason, true
	return nil
}

// Event implements llm.Decoder.
func (d *decoder) Event(name string, raw []byte) (done bool, err error) {
	var e wireEvent
	if err := llm.DecodeLoose(raw, &e); err != nil {
		return false, d.errors.BadChunk(err)
	}
	if e.Type == "" {
		e.Type = name
	}
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			d.count(e.Message.Usage)
		}
	case "content_block_start":
		d.start(e.Index, e.Block)
	case "content_block_delta":
		d.delta(e.Index, &e.Delta)
	case "content_block_stop":
		d.stop(e.Index)
	case "message_delta":
		d.count(e.Usage)
		if e.Delta.StopReason != "" {
			d.reason, d.finished = e.Delta.StopReason, true
			d.sink.Finished()
		}
	case "message_stop":
		d.finished = true
		return true, nil
	case "error":
		return false, d.errors.Object(raw)
	case "":
		return false, d.errors.Object(raw) // an error object without a type
	}
	return d.sink.Stopped(), nil
}

// count takes the newest figures; an event that leaves one out does not clear
// it.
func (d *decoder) count(u *wireUsage) {
	if u == nil {
		return
	}
	d.usage.Input = max(u.Input, d.usage.Input)
	d.usage.Output = max(u.Output, d.usage.Output)
	d.usage.CacheRead = max(u.CacheRead, d.usage.CacheRead)
	d.usage.CacheWrite = max(u.CacheWrite, d.usage.CacheWrite)
}

func (d *decoder) start(index int, raw json.RawMessage) {
	var b wireBlock
	if llm.DecodeLoose(raw, &b) != nil {
		return
	}
	open := &block{}
	d.blocks[index] = open
	switch {
	case b.Type == "text":
		d.text(b.Text)
	case b.Type == "thinking":
		if b.Thinking != "" {
			d.sink.Emit(llm.ReasoningDelta{Block: index, Text: b.Thinking})
		}
		d.sign(index, open, b.Signature)
	case b.Type == "redacted_thinking":
		e := llm.ReasoningDelta{Block: index, Metadata: session.Metadata{}}
		e.Metadata.Set(redactedKey, b.Data)
		d.sink.Emit(e)
	case b.Type == "tool_use" || b.Type == "server_tool_use" || b.Type == "mcp_tool_use":
		open.call = true
		if text := strings.TrimSpace(string(b.Input)); text != "" && text != "{}" && text != "null" {
			open.input = text
		}
		executed := b.Type != "tool_use"
		name := b.Name
		if own, ok := d.names[name]; ok && !executed {
			name = own
		}
		d.sink.Emit(llm.CallDelta{Index: &index, ID: b.ID, Name: name, Executed: executed})
	case strings.HasSuffix(b.Type, "_tool_result") && b.ToolUseID != "":
		d.sink.Emit(llm.CallDelta{ID: b.ToolUseID, Executed: true, Result: raw})
	}
}

func (d *decoder) delta(index int, m *wireDelta) {
	open := d.blocks[index]
	if open == nil { // a start that never came
		open = &block{}
		d.blocks[index] = open
	}
	switch m.Type {
	case "text_delta":
		d.text(m.Text)
	case "thinking_delta":
		if m.Thinking != "" {
			d.sink.Emit(llm.ReasoningDelta{Block: index, Text: m.Thinking})
		}
	case "signature_delta":
		d.sign(index, open, m.Signature)
	case "input_json_delta":
		if m.JSON != "" {
			open.pieces = true
			d.sink.Emit(llm.CallDelta{Index: &index, Args: m.JSON})
		}
	}
}

func (d *decoder) stop(index int) {
	if open := d.blocks[index]; open != nil && open.call && !open.pieces && open.input != "" {
		d.sink.Emit(llm.CallDelta{Index: &index, Args: open.input})
	}
}

func (d *decoder) sign(index int, open *block, piece string) {
	if piece == "" {
		return
	}
	open.signature += piece
	e := llm.ReasoningDelta{Block: index, Metadata: session.Metadata{}}
	e.Metadata.Set(signatureKey, open.signature)
	d.sink.Emit(e)
}

func (d *decoder) text(text string) {
	if text != "" {
		d.sink.Emit(llm.TextDelta{Text: text})
	}
}
