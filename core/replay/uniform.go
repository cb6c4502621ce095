package replay

import "github.com/paceline-rl/paceline/core/rng"

// Sampler draws the transitions of a minibatch.
type Sampler interface {
	// Draw overwrites picks with numbers of visible transitions, 0 to Len()-1 (see Gather). It panics
	// if no transition is visible.
	Draw(draws *rng.Stream, picks []int)
}

// Uniform draws with replacement and equal probabilities: one draws.Intn(Len()) for each pick, in
// order.
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
