//go:build gpu && cgo && linux

package gpu

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
	"github.com/paceline-rl/paceline/core/rng"
)

// TestNodes measures each kernel of a window's update (Nature CNN, 32 rows) by consecutive
// launches, and writes JSON to the file PACELINE_FIGURES. The times exclude waits and concurrent
// kernels of the graph.
func TestNodes(t *testing.T) {
	file := os.Getenv("PACELINE_FIGURES")
	if file == "" {
		t.Skip("left out: a measurement, needs PACELINE_FIGURES=FILE")
	}
	type node struct {
		Kernel       string    `json:"kernel"`
		Grid         [3]uint32 `json:"grid"`
		Beside       bool      `json:"beside"` // concurrent with the chain
		Microseconds float64   `json:"us"`
	}
	type update struct {
		Precision nn.Precision `json:"precision"`
		Chain     float64      `json:"chain_us"` // sum over the kernels of the chain
		All       float64      `json:"all_us"`
		Nodes     []node       `json:"nodes"`
	}
	d := needGPU(t)
	s, rows, stack, times := nn.Spec{Obs: env.ObsSpec{Shape: []int{4, 84, 84}}, Trunks: []nn.Trunk{{Arch: "nature_cnn"}}, Heads: []nn.Head{{Name: "q", Out: 6}}}, 32, 4, 100
	if os.Getenv(cudatest.Mode) == "software" {
		s, rows, stack, times = nntest.SmallNature(), 2, 2, 1
	}
	var updates []update
	var says []string
	for _, precision := range []nn.Precision{nn.FP32, nn.TF32, nn.BF16} {
		s.Precision = precision
		cfg := nn.StepperConfig{Net: s, Rows: rows, Loss: nn.TD{Kind: "huber", Reduction: "mean"}, Optimizer: nn.OptimizerConfig{Name: "adam"}, MaxGradNorm: 10}
		q := nntest.Must(d.QStepper(cfg, nn.MaxQ{}))(t).(*qStepper)
		p, target := nntest.Init(t, s, 1), nntest.Init(t, s, 2)
		x := randomStacks(s, q, rng.New(4, "test", 0), rows, 3, stack, s.Heads[0].Out)
		nntest.Check(t, q.Resize(x.slots, x.width))
		nntest.Check(t, q.Put(0, x.frames))
		nntest.Check(t, q.Upload(0, 3))
		nntest.Check(t, q.Start(p, target, 0, []float64{1e-4}, false))
		nntest.Must(q.Finish())(t)
		begin, end, on := nntest.Must(d.gpu.event(false))(t), nntest.Must(d.gpu.event(false))(t), q.lanes.main
		u := update{Precision: precision}
		for _, k := range slices.Clone(q.recorder.list) {
			if k.kernel == nil {
				continue
			}
			n := times
			// each launch advances to the next minibatch
			if k.kernel.Name == "advance" || k.kernel.Name == "sum_squares" {
				n = 1
			}
			nntest.Check(t, on.Launch(k.kernel, k.Launch)) // the first launch may be slower
			nntest.Check(t, on.Record(begin))
			for range n {
				nntest.Check(t, on.Launch(k.kernel, k.Launch))
			}
			nntest.Check(t, on.Record(end))
			nntest.Check(t, end.Wait())
			us := float64(nntest.Must(end.Since(begin))(t)) / float64(time.Microsecond) / float64(n)
			u.Nodes = append(u.Nodes, node{k.kernel.Name, k.Grid, k.side, us})
			if u.All += us; !k.side {
				u.Chain += us
			}
		}
		updates = append(updates, u)
		says = append(says, fmt.Sprintf("%s: %d kernels, %.1f us, of which the chain %.1f us", precision, len(u.Nodes), u.All, u.Chain))
	}
	text, err := json.MarshalIndent(map[string]any{"summary": strings.Join(says, "; "), "rows": rows, "launches": times, "updates": updates}, "", " ")
	nntest.Check(t, err)
	nntest.Check(t, os.WriteFile(file, text, 0o644))
}
