package replay

import "github.com/paceline-rl/paceline/core/rng"

// Sampler draws which of a memory's visible transitions a minibatch consists of.
type Sampler interface {
	// Draw overwrites picks with numbers of visible transitions, 0 to Len()-1, as Gather takes
	// them. At least one transition must be visible; else it panics.
	Draw(draws *rng.Stream, picks []int)
}

// Uniform draws with replacement, every visible transition with the same probability: one
// draws.Intn(Len()) for each pick, in order.
type Uniform struct{ Memory *Memory }

func (u Uniform) Draw(draws *rng.Stream, picks []int) {
	n := u.Memory.Len()
	if n == 0 {
		panic("replay: Draw where no transition is visible")
	}
	for i := range picks {
		picks[i] = draws.Intn(n)
	}
}
