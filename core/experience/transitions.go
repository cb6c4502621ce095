package experience

// Transitions are n transitions in the caller's memory: a minibatch for an update, or the rows that
// a host reads or adds. Entry i of every slice belongs to transition i. A slice that is nil is
// neither written nor read, unless the reader requires it.
type Transitions struct {
	Obs     []byte // n observations; float32 aligned to 4 bytes
	NextObs []byte // n observations; zeros if the transition terminated
	// Stacks and NextStacks replace Obs and NextObs if the reader has the frames in its own memory.
	Stacks     []Stack   // n
	NextStacks []Stack   // n; without frames if the transition terminated
	Actions    []int32   // n: transitions have one discrete action
	Rewards    []float32 // n, as added, or discounted sums of the rewards of several steps
	// Discounts are the factors of the value of NextObs: gamma, gamma^m over m steps, or 0 if the
	// transition terminated. NextObs must give finite values even then: 0 times NaN is NaN.
	Discounts []float32 // n
	// Weights are the factors of the losses of the transitions; nil: all are 1.
	Weights []float32 // n
	// Key is that of the random numbers of an update: taus.
	Key        uint64
	Terminated []bool // n; a terminated transition has no return after its reward
	// NextMasks are the action masks of NextObs, a byte per action, 0 if the action is forbidden.
	// Each row allows at least one action, and all actions if the transition terminated. Empty:
	// every action is allowed.
	NextMasks []byte
	// Masks are those of Obs, which few readers want. Each row allows its action.
	Masks   []byte
	Updates []uint64 // n: the number of updates of the parameters that chose the action
}

// Stack names the frames of one observation: consecutive slots of a ring, from the oldest frame on.
type Stack struct {
	First  int32 // slot of the oldest frame
	Base   int32 // first slot of the ring
	Slots  int32 // slots of the ring
	Frames int32 // the newest Frames frames are valid; older frames read as zeros
}

// Row returns transition i of the n in x, in the same memory.
func (x *Transitions) Row(i, n int) *Transitions {
	return &Transitions{
		Obs: row(x.Obs, i, n), NextObs: row(x.NextObs, i, n), Stacks: row(x.Stacks, i, n), NextStacks: row(x.NextStacks, i, n),
		Actions: row(x.Actions, i, n), Rewards: row(x.Rewards, i, n), Discounts: row(x.Discounts, i, n), Terminated: row(x.Terminated, i, n),
		NextMasks: row(x.NextMasks, i, n), Masks: row(x.Masks, i, n), Updates: row(x.Updates, i, n),
	}
}

func row[T any](list []T, i, n int) []T {
	size := len(list) / n
	return list[i*size : (i+1)*size : (i+1)*size]
}
