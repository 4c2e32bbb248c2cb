package tools

import (
	"context"
	_ "embed"
	"encoding/json"
	"sync"

	"rally/internal/session"
)

//go:embed todowrite.md
var todoWriteText string

//go:embed todoread.md
var todoReadText string

// Todo is one task of the session's list.
type Todo = session.Todo

// Todos is the session's list of tasks. It is safe for concurrent use.
type Todos struct {
	mu   sync.Mutex
	list []Todo
	save func([]Todo) error
}

// NewTodos starts with the stored list. save stores a new one; nil keeps it in
// memory only.
func NewTodos(list []Todo, save func([]Todo) error) *Todos {
	return &Todos{list: list, save: save}
}

// Get is the list; it must not be changed.
func (t *Todos) Get() []Todo {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.list
}

// Set replaces the list, stored first.
func (t *Todos) Set(list []Todo) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.save != nil {
		if err := t.save(list); err != nil {
			return err
		}
	}
	t.list = list
	return nil
}

const todoSchema = `{"type":"object","properties":{"todos":{"type":"array","description":"The whole list, in order","items":{
"type":"object","properties":{
"content":{"type":"string","description":"What is to be done"},
"status":{"type":"string","description":"pending, in_progress, completed or cancelled"},
"priority":{"type":"string","description":"high, medium or low"}},
"required":["content","status","priority"],"additionalProperties":false}}},
"required":["todos"],"additionalProperties":false}`

// emptySchema is that of a tool without arguments.
const emptySchema = `{"type":"object","properties":{},"additionalProperties":false}`

type todoWriteArgs struct {
	Todos []Todo `json:"todos"`
}

func newTodoWrite() Tool {
	return tool[todoWriteArgs]{
		name: "todowrite", text: todoWriteText, schema: todoSchema,
		access: func(*Env, todoWriteArgs) ([]Access, error) { return todoAccess(), nil },
		run: func(_ context.Context, env *Env, args todoWriteArgs) (Result, error) {
			if err := env.Todos.Set(args.Todos); err != nil {
				return Result{}, err
			}
			return todoResult(args.Todos)
		},
	}
}

func newTodoRead() Tool {
	return tool[struct{}]{
		name: "todoread", text: todoReadText, schema: emptySchema,
		access: func(*Env, struct{}) ([]Access, error) { return todoAccess(), nil },
		run: func(_ context.Context, env *Env, _ struct{}) (Result, error) {
			return todoResult(env.Todos.Get())
		},
	}
}

func todoAccess() []Access { return []Access{{Permission: "todowrite", Patterns: []string{"*"}}} }

func todoResult(list []Todo) (Result, error) {
	if list == nil {
		list = []Todo{}
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return Result{}, err
	}
	open := 0
	for _, t := range list {
		if t.Status != "completed" && t.Status != "cancelled" {
			open++
		}
	}
	meta := session.Metadata{}
	meta.Set("todos", list)
	return Result{Output: string(text), Title: plural(open, "todo", "todos"), Metadata: meta}, nil
}
