package llm

import (
	"regexp"
	"sync"
)

// overflowCode reports whether the code says that the prompt is longer than
// the window.
func overflowCode(code string) bool {
	switch code {
	case "context_length_exceeded", // OpenAI, Azure, DeepSeek, Groq, xAI
		"exceed_context_size_error",     // llama.cpp
		"model_context_window_exceeded", // Anthropic, z.ai
		"contextwindowexceedederror",    // LiteLLM
		"context_window_exceeded", "context_length_error", "prompt_too_long", "input_too_long", "exceeded_context_length":
		return true
	}
	return false
}

// builtinOverflow is one expression of the wordings of the field; each line
// names the servers that use it. Limits per minute have other words and never
// get here (429).
var builtinOverflow = lazy(`(?is)` +
	`prompt is too long` + // Anthropic, Vertex
	`|input is too long for requested model` + // Bedrock
	`|exceeds? the (?:model'?s )?context window` + // OpenAI responses, Codex
	`|input token count.{0,80}exceeds the maximum` + // Gemini
	`|maximum prompt length is \d` + // xAI
	`|reduce the length of the (?:messages|prompt|input)` + // Groq, OpenAI
	`|maximum context length (?:is|of) \d` + // OpenAI, DeepSeek, OpenRouter, vLLM
	`|context length is only \d` + // vLLM
	`|exceeds the available context size` + // llama.cpp
	`|greater than the context length` + // LM Studio
	`|context window exceeds limit` + // MiniMax
	`|exceeded model token limit` + // Moonshot
	`|context[ _]length[ _]exceeded` + // Ollama cloud, proxies
	`|exceeded (?:max |maximum )?context length` + // Ollama, SGLang
	`|input length.{0,80}exceeds?.{0,40}context length` + // Ollama, TGI
	`|inputs?.? tokens.{0,20}max_new_tokens.{0,5}must be <=` + // TGI
	`|prompt (?:too long|exceeds)` + // Ollama, Cohere
	`|too large for model with \d+ maximum context length` + // Mistral
	`|exceeds the limit of \d+ (?:input |prompt |context )?tokens` + // Copilot
	`|requested tokens? \(\d+\) exceed context window` + // llama-cpp-python
	`|longer than the model'?s context length` + // SGLang
	`|(?:input|prompt|request) (?:is|was) (?:too long|longer than).{0,60}(?:context|token)` + // NVIDIA NIM, others
	`|range of input length should be` + // Alibaba DashScope
	`|too many tokens.{0,40}(?:context|maximum|limit)`, // Cohere, Together
)

// rateWords decide where neither a code nor a status does.
var rateWords = lazy(`(?i)rate (?:limit|increased too quickly)|too many requests|exhausted`)

// lazy compiles an expression when it is first needed: most runs meet no
// error, and every start would pay for it.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
