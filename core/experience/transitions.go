package experience

// Transitions are n transitions in memory of the caller: entry i of every slice is of transition i.
type Transitions struct {
	Obs        []byte    // n observations
	NextObs    []byte    // n observations; zero bytes where the transition terminated
	Actions    []int32   // n
	Rewards    []float32 // n, as they were added
	Terminated []bool    // n: nothing beyond this transition counts
	NextMasks  []byte    // n action masks of NextObs, where masks are used; everything is allowed where the transition terminated
	Updates    []uint64  // n: how many updates the parameters that chose the action had seen; nil: not of interest
}
