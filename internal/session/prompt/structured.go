package prompt

// The tool that takes a structured answer.
const (
	StructuredTool  = "StructuredOutput"
	StructuredTitle = "Structured Output"

	// StructuredDescription is the tool's description for the model.
	StructuredDescription = `Gives the final answer of this task in the required form.

Its arguments are the answer: they must be valid JSON that matches the schema of this tool.
Finish all other work first: read, search and change what the task needs with the other tools.
Then call this tool exactly once, as the last thing you do. The task ends with that call.`

	// StructuredCaptured is the tool's output.
	StructuredCaptured = "Structured output captured successfully."

	// StructuredReminder asks a model that answered in prose for the
	// structured answer.
	StructuredReminder = "You have not given your final answer in the required form. Call the " + StructuredTool +
		" tool now, with arguments that match its schema. Plain text does not count as an answer."

	structuredNote = "The final answer of this task has a required form. Give it by calling the " + StructuredTool +
		" tool, exactly once, after all other work is done. You MUST NOT answer in plain text instead: only the arguments of that call count."
)
