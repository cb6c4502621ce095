package threads

// pause lets so many moments go by, in which the processor may serve this core's other
// thread.
//
//go:noescape
func pause(times int32)
