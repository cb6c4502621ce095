//go:build !cgo

package kernel

// nativeTables returns nothing: without cgo the reference is the only path.
func nativeTables() []*table { return nil }

// helpers is empty: the reference computes on the calling thread.
type helpers struct{}

func (*helpers) start(int) bool { return true }
func (*helpers) stop()          {}
