package session

// Error is how a message, a retry part or a turn failed, in OpenCode's shape.
type Error struct {
	Name ErrorName `json:"name"`
	Data ErrorData `json:"data"`
}

// ErrorData describes an Error. It never holds request headers or keys.
type ErrorData struct {
	Message      string `json:"message"`
	ProviderID   string `json:"providerID,omitempty"`
	StatusCode   int    `json:"statusCode,omitempty"`
	IsRetryable  bool   `json:"isRetryable,omitempty"`
	ResponseBody string `json:"responseBody,omitempty"`
	Retries      int    `json:"retries,omitempty"`
	Hint         string `json:"hint,omitempty"`
}

// ErrorName tells the kinds of Error apart.
type ErrorName string

// The names, as the seeds and OpenCode use them; UsageError and BusyError are
// rally's own, for lines before a turn exists.
const (
	ProviderAuthError    ErrorName = "ProviderAuthError"
	APIError             ErrorName = "APIError"
	ContextOverflowError ErrorName = "ContextOverflowError"
	OutputLengthError    ErrorName = "MessageOutputLengthError"
	AbortedError         ErrorName = "MessageAbortedError"
	StructuredError      ErrorName = "StructuredOutputError"
	ContentFilterError   ErrorName = "ContentFilterError"
	UnknownError         ErrorName = "UnknownError"
	UsageError           ErrorName = "UsageError"
	BusyError            ErrorName = "BusyError"
)

// NewError is an Error that has nothing but a message.
func NewError(name ErrorName, message string) *Error {
	return &Error{Name: name, Data: ErrorData{Message: message}}
}

// Error makes *Error an error; the text is for people.
func (e *Error) Error() string { return e.Data.Message }
