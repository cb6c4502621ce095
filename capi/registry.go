package capi

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/fault"
)

// A handle is kind<<kindShift | count. One counter serves the whole process and only grows,
// so a freed handle never stands for another object. No handle is 0 or looks like an address.
const kindShift = 56

type kind uint64

const (
	kindConfig kind = iota + 1
	kindTrainer
	kindPolicy
	kindVec
	kindConsole
	kindStore
)

var kindNames = map[kind]string{
	kindConfig: "paceline_config", kindTrainer: "paceline_trainer", kindPolicy: "paceline_policy",
	kindVec: "paceline_vec", kindConsole: "paceline_console", kindStore: "paceline_store",
}

var handles atomic.Uint64

// handleError refuses a handle that is unknown, freed or of another kind.
type handleError struct {
	id   uint64
	want kind
}

func (e *handleError) Error() string {
	have, known := kindNames[kind(e.id>>kindShift)]
	switch {
	case !known || e.id&(1<<kindShift-1) > handles.Load():
		return fmt.Sprintf("%s: %#x is not a handle", kindNames[e.want], e.id)
	case kind(e.id>>kindShift) != e.want:
		return fmt.Sprintf("%s: the handle is a %s", kindNames[e.want], have)
	}
	return fmt.Sprintf("%s: the handle was freed", kindNames[e.want])
}

// table holds the live objects of one kind.
type table[T any] struct {
	kind kind
	mu   sync.RWMutex
	live map[uint64]*object[T]
}

// object is the object of a handle. broken is the panic that made it unusable.
type object[T any] struct {
	value  T
	broken atomic.Pointer[fault.Panic]
}

func newTable[T any](k kind) *table[T] {
	return &table[T]{kind: k, live: make(map[uint64]*object[T])}
}

func (t *table[T]) put(v T) uint64 {
	id := uint64(t.kind)<<kindShift | handles.Add(1)
	t.mu.Lock()
	t.live[id] = &object[T]{value: v}
	t.mu.Unlock()
	return id
}

// find returns the object of a handle, without a check for a panic.
func (t *table[T]) find(id uint64) (v T, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if o := t.live[id]; o != nil {
		return o.value, true
	}
	return v, false
}

// checkKind refuses an id of another kind. It accepts a freed handle.
func (t *table[T]) checkKind(id uint64) error {
	if kind(id>>kindShift) != t.kind {
		return &handleError{id, t.kind}
	}
	return nil
}

// remove removes the object from the table. The caller must free it. ok is false if the
// handle has no object.
func (t *table[T]) remove(id uint64) (v T, ok bool) {
	t.mu.Lock()
	o := t.live[id]
	delete(t.live, id)
	t.mu.Unlock()
	if o == nil {
		return v, false
	}
	return o.value, true
}

// use calls f with the object of id. A panic in f becomes an error of this call and of every later
// use of the object. This includes panics that core has recovered from, except those of
// environments (see package fault).
func (t *table[T]) use(id uint64, f func(T) error) error {
	t.mu.RLock()
	o := t.live[id]
	t.mu.RUnlock()
	if o == nil {
		return &handleError{id, t.kind}
	}
	if p := o.broken.Load(); p != nil {
		return p
	}
	err := guarded(func() error { return f(o.value) })
	if p := fault.Spoils(err); p != nil {
		o.broken.Store(p)
	}
	return err
}

// guarded turns a panic of f into an error.
func guarded(f func() error) (err error) {
	defer fault.Recover(&err)
	return f()
}
