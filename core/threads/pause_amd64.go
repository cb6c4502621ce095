package threads

// pause executes so many PAUSE instructions, during which the core serves its other
// thread.
//
//go:noescape
func pause(times int32)
