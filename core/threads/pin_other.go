//go:build !linux

package threads

// Pin does nothing on this system.
func Pin(int) (undo func()) { return func() {} }
