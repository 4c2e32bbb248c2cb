package session

// Event is something the loop reports as it happens. Whoever serves a turn
// and whoever waits for it report the same events, since all but Delta,
// Discard, Permission and Notice follow from stored rows.
type Event struct {
	SessionID string
	ParentID  string // of the session, for child sessions
	Body      EventBody
}

// EventBody is what happened; the types below are all there are.
//
//sumtype:decl
type EventBody interface{ isEvent() }

// Opened comes first: the session that is served.
type Opened struct {
	Session Session
	Created bool // by this run
}

// TurnBegan says a turn begins to be served.
type TurnBegan struct{ TurnID, MessageID string }

// PartStarted says a step began or a tool call runs: its part is a *StepStart,
// or a *Tool whose state is running.
type PartStarted struct{ Part Part }

// PartEnded says a part has its final state: *Text, *Reasoning, *Tool or
// *StepFinish.
type PartEnded struct{ Part Part }

// Delta is a piece of a part that is still being written.
type Delta struct {
	PartID string
	Field  DeltaField
	Text   string
}

// DeltaField is what a Delta adds to.
type DeltaField string

// The fields that stream.
const (
	DeltaText      DeltaField = "text"
	DeltaReasoning DeltaField = "reasoning"
	DeltaInput     DeltaField = "input"
)

// Discard says that a failed attempt's partial output is void.
type Discard struct {
	MessageID string
	PartIDs   []string
}

// Permission says how a call that needed a decision was decided.
type Permission struct {
	CallID     string
	Tool       string
	Permission string
	Patterns   []string
	Action     Action
	Rule       string // the deciding rule, as Rule.String gives it
	By         DecidedBy
}

// DecidedBy says who decided about a call.
type DecidedBy string

// Who decides: a stored or configured rule, a rule given by flag, or what an
// `ask` becomes when nobody is there.
const (
	ByRule  DecidedBy = "rule"
	ByFlag  DecidedBy = "flag"
	ByOnAsk DecidedBy = "on_ask"
)

// StatusChanged carries the session's new status.
type StatusChanged struct{ Status Status }

// Compacted says that history was summarised or pruned; sizes are tokens.
type Compacted struct {
	Auto     bool
	Overflow bool
	Before   int64
	After    int64
}

// Failed carries an error of the turn.
type Failed struct{ Error *Error }

// TurnEnded says the turn has its end state.
type TurnEnded struct {
	TurnID string
	Reason Reason
}

// Notice is a remark for people: something was left out or is unusual.
type Notice struct{ Text string }

func (Opened) isEvent()        {}
func (TurnBegan) isEvent()     {}
func (PartStarted) isEvent()   {}
func (PartEnded) isEvent()     {}
func (Delta) isEvent()         {}
func (Discard) isEvent()       {}
func (Permission) isEvent()    {}
func (StatusChanged) isEvent() {}
func (Compacted) isEvent()     {}
func (Failed) isEvent()        {}
func (TurnEnded) isEvent()     {}
func (Notice) isEvent()        {}

// Denial is a call that the gate refused, as the result lists it.
type Denial struct {
	SessionID  string    `json:"sessionID"`
	CallID     string    `json:"callID"`
	Tool       string    `json:"tool"`
	Permission string    `json:"permission"`
	Patterns   []string  `json:"patterns"`
	Rule       string    `json:"rule"`
	By         DecidedBy `json:"by"`
}
