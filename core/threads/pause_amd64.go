package threads

// pause executes the given number of PAUSE instructions. Meanwhile the core serves its other
// hardware thread.
//
//go:noescape
func pause(times int32)
