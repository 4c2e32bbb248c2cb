// Package mcp makes the tools, resources and prompts of MCP servers available
// to a session: programs spoken to over stdin and stdout, and addresses spoken
// to over streamable HTTP.
//
// What it promises: a server that is slow, broken or missing costs its own
// start timeout and a notice, never the run; the list of tools stays as it is
// until Refresh; a call returns when its context ends, whatever the server
// does; a server that died is started again once; after Close no process of a
// server lives, and if this process is killed, the servers' stdin closes.
//
// What it will not do: OAuth (a header has to be configured), the old HTTP+SSE
// transport, sampling and elicitation (nobody is there to be asked).
package mcp
