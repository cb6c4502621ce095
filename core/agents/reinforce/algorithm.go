package reinforce

import "github.com/paceline-rl/paceline/core/nn"

// This file is episodic REINFORCE of Williams 1992 where it is not acting. The loop is
// onpolicy.Run's.

// Filled gives weight 0 to the steps whose episode has not ended: their return is unknown.
func (r *Reinforce) Filled() {
	b, envs := r.Rollout.Batch(), r.cfg.NumEnvs
	for i := range envs {
		for k := len(b.Ends) - envs + i; k >= 0 && b.Ends[k] == 0; k -= envs {
			b.Weights[k] = 0
		}
	}
}

// Update is one step along the gradient: delta w = alpha (r - b) grad log g.
func (r *Reinforce) Update(int) (done bool, err error) {
	// With value 0 everywhere the returns are the discounted rewards up to an episode's end.
	zeros := func(_ []byte, rows int) ([]float32, error) { return make([]float32, rows), nil }
	if err := r.Window.Finish(r.cfg.Gamma, 1, zeros); err != nil {
		return false, err
	}
	b, sum := r.Rollout.Batch(), 0.0
	for k, w := range b.Weights {
		sum += float64(float64(w) * float64(b.Returns[k]))
	}
	mean := float32(sum / float64(r.Rollout.Steps()))
	for k, g := range b.Returns {
		b.Advantages[k] = g - mean
	}
	columns := [][]float32{b.Advantages, b.Returns, b.Weights}
	return true, r.Step(nn.Batch{Obs: b.Obs, Actions: b.Actions, Continuous: b.Continuous, Columns: columns})
}
