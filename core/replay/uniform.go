package replay

import (
	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/rng"
)

// Sampler draws the transitions of minibatches. The goroutine that does updates calls Draw, Weights
// and Update, which may run when Gather may. Flushed and the functions of Part run when Flush may.
type Sampler interface {
	// Flushed must follow every Flush, Clear and load of the memory.
	Flushed()
	// Len returns the number of transitions that can be drawn.
	Len() int
	// Draw overwrites picks with numbers of visible transitions (see Memory.Gather). It panics if no
	// transition can be drawn.
	Draw(draws *rng.Stream, picks []int)
	// Weights overwrites weights with the importance weights of the latest Draw, of as many rows. beta
	// is their exponent, 0 to 1. The largest weight is 1.
	Weights(beta float64, weights []float32)
	// Update takes the errors of picks that can be drawn, of which the priorities are made. If a
	// transition was picked twice, its last error counts.
	Update(picks []int, errors []float32)
	// Has reports whether a visible transition can be drawn.
	Has(pick int) bool
	// Part returns the part of a checkpoint with the state of the sampler. It comes after the part of
	// the memory. ok is false if the memory is all its state.
	Part(name string) (p checkpoint.Part, ok bool)
}

// Uniform draws with replacement and equal probabilities: one number for each pick, in order.
type Uniform struct {
	Memory   *Memory
	drawable *drawable // nil: every visible transition can be drawn
}

// NewUniform returns a Uniform for transitions over n steps, 1 to Capacity/Envs.
func NewUniform(m *Memory, n int, tails Tails) (u Uniform, err error) {
	u.Memory = m
	if n != 1 {
		u.drawable, err = newDrawable(m, n, tails, nil)
	}
	return u, err
}

func (u Uniform) Flushed() {
	if u.drawable != nil {
		u.drawable.flushed()
	}
}

func (u Uniform) Len() int {
	if u.drawable != nil {
		return u.drawable.len
	}
	return u.Memory.Len()
}

func (u Uniform) Draw(draws *rng.Stream, picks []int) {
	if u.drawable != nil {
		u.drawable.check()
		for i := range picks {
			_, picks[i] = u.drawable.uniform(draws)
		}
		return
	}
	n := u.Memory.Len()
	if n == 0 {
		panic("replay: Draw where no transition is visible")
	}
	for i := range picks {
		picks[i] = draws.Intn(n)
	}
}

// Weights sets all weights to 1.
func (u Uniform) Weights(_ float64, weights []float32) {
	for i := range weights {
		weights[i] = 1
	}
}

// Update does nothing.
func (u Uniform) Update([]int, []float32) {}

func (u Uniform) Has(pick int) bool {
	return u.drawable == nil || u.drawable.has(u.drawable.leafOf(pick))
}

// Part returns none.
func (u Uniform) Part(string) (checkpoint.Part, bool) { return checkpoint.Part{}, false }
