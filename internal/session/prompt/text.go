package prompt

// Texts that the engine puts into a conversation.
const (
	// GoOn ends a request whose history ends with the model's own words.
	GoOn = "Continue with your task."

	// Continue follows a compaction that happened in the middle of a turn.
	Continue = "Continue if you have next steps. If the task is done, or if you cannot go on without information you do not have, say so and stop."

	// SoFar stands before a summary, as the question it answers.
	SoFar = "What did we do so far?"

	// ExecutedByUser stands before a tool call that the user, not the model,
	// asked for.
	ExecutedByUser = "The following tool was executed by the user"

	// SummarizeSubtask follows a subtask that a command started.
	SummarizeSubtask = "Summarize the task tool output above and continue with your task."

	// TitleRequest stands before the conversation that is to get a title.
	TitleRequest = "Generate a title for this conversation:\n"
)

// MaxSteps is the user message of the last step a limit allows. Tools are off
// in that step; the text says so, because a model that is not told goes on
// planning with them.
const MaxSteps = `<system-reminder>
This is the last step you are given: the step limit of this run is reached. Tools are switched off and a tool call will not run.

Answer with text only. Say
- that the step limit ended the work,
- what is done, and where it can be found,
- what is not done yet,
- what you recommend as the next step.
</system-reminder>`
