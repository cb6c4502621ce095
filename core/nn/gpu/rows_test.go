//go:build gpu && cgo && linux

package gpu

import (
	"maps"
	"slices"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

// A minibatch step is one graph launch and one wait without copies, and so is Outputs. Keep is one
// copy. Refresh is one copy, or two if the rows wrap. This holds for PPO with masks and for PQN.
func TestAMinibatchStepIsOneLaunch(t *testing.T) {
	cudatest.Need(t)
	const rows, many, updates = 6, 20, 5
	pqn := nntest.WithNorm(nntest.SmallMLP(), "layer_all")
	for name, c := range map[string]nn.StepperConfig{
		"ppo":                         {Net: nntest.TwoMLPs(), Loss: nn.PPO{EntropyCoef: 0.01, ValueCoef: 0.5}, Optimizer: nn.OptimizerConfig{Name: "adam"}},
		"ppo, branches and Gaussians": {Net: nntest.Policies()[2], Loss: nn.PPO{EntropyCoef: 0.01, ValueCoef: 0.5}, Optimizer: nn.OptimizerConfig{Name: "adam"}},
		"pqn":                         {Net: pqn, Loss: nn.TD{Kind: "squared", Reduction: "mean", Weighted: true}, Optimizer: nn.OptimizerConfig{Name: "radam"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Rows, c.MaxGradNorm = rows, 0.5
			st := nntest.Must(mustOpen(t).Stepper(c))(t)
			p, r := nntest.Init(t, c.Net, 1), rng.New(1, "test", 0)
			b := nntest.RandomBatch(c.Net, c.Loss, r, rows)
			b.Obs, b.Rows = nil, make([]int32, rows)
			if name != "pqn" {
				b.Masks = slices.Repeat([]byte{1}, rows*c.Net.Heads[0].Out)
			}
			all := [2][]byte{nntest.RandomObs(c.Net, r, many), nntest.RandomObs(c.Net, r, many)}
			update := func() {
				for i := range b.Rows {
					b.Rows[i] = int32(r.Intn(many+1)) - 1
				}
				nntest.Check(t, st.Update(p, b, 1e-3, &nn.Report{}))
			}
			nntest.Check(t, st.SetObs(all[0]))
			update()
			got := cudatest.Calls(t, func() {
				for range updates {
					update()
				}
			})
			if want := map[string]int{"cuGraphLaunch": updates, "cuStreamSynchronize": updates}; !maps.Equal(got, want) {
				t.Errorf("%d updates call %v, want %v", updates, got, want)
			}
			got = cudatest.Calls(t, func() { nntest.Check(t, st.SetObs(all[1])) })
			if want := map[string]int{"cuMemcpyHtoDAsync_v2": 1, "cuStreamSynchronize": 1}; !maps.Equal(got, want) {
				t.Errorf("SetObs calls %v, want %v", got, want)
			}
			for span, copies := range map[[2]int]int{{3, 5}: 1, {15, 5}: 1, {15, 8}: 2} {
				got = cudatest.Calls(t, func() { nntest.Check(t, st.Refresh(span[0], span[1])) })
				if want := map[string]int{"cuMemcpyHtoDAsync_v2": copies, "cuStreamSynchronize": copies}; !maps.Equal(got, want) {
					t.Errorf("a Refresh of %v calls %v, want %v", span, got, want)
				}
			}
			nntest.Must(st.Outputs(p, b))(t)
			got = cudatest.Calls(t, func() { nntest.Must(st.Outputs(p, b))(t) })
			if want := map[string]int{"cuGraphLaunch": 1, "cuStreamSynchronize": 1}; !maps.Equal(got, want) {
				t.Errorf("Outputs call %v, want %v", got, want)
			}
			if p.Updates != updates+1 {
				t.Errorf("%d updates, want %d", p.Updates, updates+1)
			}
		})
	}
}
