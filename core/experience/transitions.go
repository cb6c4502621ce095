package experience

// Transitions are n transitions in the caller's memory: a minibatch for an update, or the rows that
// a host reads or adds. Entry i of every slice belongs to transition i. A slice that is nil is
// neither written nor read, unless the reader requires it.
type Transitions struct {
	Obs     []byte // n observations; float32 aligned to 4 bytes
	NextObs []byte // n observations; zeros where the transition terminated
	// Stacks and NextStacks stand for Obs and NextObs where the reader has the frames in memory of
	// its own.
	Stacks     []Stack   // n
	NextStacks []Stack   // n; of no frames where the transition terminated
	Actions    []int32   // n
	Rewards    []float32 // n, as they were added
	// Discounts are the factors of the value of NextObs: gamma, or 0 where the transition
	// terminated. NextObs must give finite values even then: 0 times NaN is NaN.
	Discounts  []float32 // n
	Terminated []bool    // n: nothing beyond this transition counts
	// NextMasks are the action masks of NextObs, a byte for each action, 0 where the action is
	// forbidden. Each row allows one action at least, and all of them where the transition
	// terminated. Empty: every action is allowed.
	NextMasks []byte
	Updates   []uint64 // n: the number of updates of the parameters that chose the action
}

// Stack names the frames of one observation: consecutive slots of a ring, from the oldest frame on.
type Stack struct {
	First  int32 // slot of the oldest frame
	Base   int32 // first slot of the ring
	Slots  int32 // slots of the ring
	Frames int32 // the number of newest frames that count; the older ones are zeros
}
