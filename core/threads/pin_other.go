//go:build !linux

package threads

// Pin does nothing here: threads cannot be bound.
func Pin(int) (undo func()) { return func() {} }
