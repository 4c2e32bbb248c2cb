package session

// Turn is one user message's place in the queue and what became of it.
type Turn struct {
	ID        string
	SessionID string
	MessageID string // the user message it answers
	State     TurnState
	// Reason and ExitCode are set when State is TurnClosed.
	Reason   Reason
	ExitCode int
	Error    *Error // nil unless the turn failed
	// OwnerPID and OwnerHost say who serves an open turn; the lease of the
	// session is the truth.
	OwnerPID       int
	OwnerHost      string
	Steps          int
	AbortRequested bool
	// Supersede asks the turn before it to end after its current step.
	Supersede bool
	Opened    int64 // 0 while pending
	Closed    int64
}

// TurnState is where a turn is in its life: pending, open, closed, in this
// order and never back.
type TurnState string

// The states of a turn.
const (
	TurnPending TurnState = "pending"
	TurnOpen    TurnState = "open"
	TurnClosed  TurnState = "closed"
)

// Reason says why a turn ended, in the fine grain of the exit-code table.
type Reason string

// The reasons. Each has one exit code; see ExitCode.
const (
	ReasonCompleted       Reason = "completed"
	ReasonProvider        Reason = "provider_error"
	ReasonAuth            Reason = "auth_error"
	ReasonContentFilter   Reason = "content_filter"
	ReasonInternal        Reason = "internal_error"
	ReasonUsage           Reason = "usage"
	ReasonRefused         Reason = "refused"
	ReasonLimitSteps      Reason = "limit_steps"
	ReasonLimitCost       Reason = "limit_cost"
	ReasonLimitTokens     Reason = "limit_tokens"
	ReasonBusy            Reason = "busy"
	ReasonContextOverflow Reason = "context_overflow"
	ReasonEmptyResponse   Reason = "empty_response"
	ReasonOutputLength    Reason = "output_length"
	ReasonNoStructured    Reason = "no_structured_output"
	ReasonLoopDetected    Reason = "loop_detected"
	ReasonSuperseded      Reason = "superseded"
	ReasonTimeout         Reason = "timeout"
	ReasonAborted         Reason = "aborted"
	ReasonInterrupted     Reason = "interrupted"
	ReasonOutputClosed    Reason = "output_closed"
)

// ExitCodeTerminated is the exit code of a run that SIGTERM interrupted;
// ReasonInterrupted.ExitCode is that of SIGINT.
const ExitCodeTerminated = 143

// ExitCode is the process status that belongs to r (contract: exit codes). An
// unknown or empty reason is 1: never report success by accident.
func (r Reason) ExitCode() int {
	switch r {
	case ReasonCompleted:
		return 0
	case ReasonUsage:
		return 2
	case ReasonRefused:
		return 3
	case ReasonLimitSteps, ReasonLimitCost, ReasonLimitTokens:
		return 4
	case ReasonBusy:
		return 5
	case ReasonContextOverflow:
		return 6
	case ReasonEmptyResponse, ReasonOutputLength, ReasonNoStructured, ReasonLoopDetected:
		return 7
	case ReasonSuperseded:
		return 8
	case ReasonTimeout:
		return 124
	case ReasonAborted, ReasonInterrupted:
		return 130
	case ReasonOutputClosed:
		return 141
	case ReasonProvider, ReasonAuth, ReasonContentFilter, ReasonInternal:
		return 1
	}
	return 1
}

// Coarse is the reason a turn_close line carries: completed, interrupted,
// superseded, error, aborted or limit.
func (r Reason) Coarse() string {
	switch r {
	case ReasonCompleted, ReasonSuperseded, ReasonAborted:
		return string(r)
	case ReasonInterrupted, ReasonOutputClosed:
		return "interrupted"
	case ReasonLimitSteps, ReasonLimitCost, ReasonLimitTokens, ReasonTimeout, ReasonLoopDetected:
		return "limit"
	case ReasonProvider, ReasonAuth, ReasonContentFilter, ReasonInternal, ReasonUsage, ReasonRefused, ReasonBusy,
		ReasonContextOverflow, ReasonEmptyResponse, ReasonOutputLength, ReasonNoStructured:
		return "error"
	}
	return "error"
}
