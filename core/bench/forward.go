package bench

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/rng"
)

// ForwardOptions are the options of the benchmark of small forward passes.
type ForwardOptions struct {
	Rows   []int `json:"rows"`
	Trials int   `json:"trials"`
}

// ForwardResult has the times of a network's forward passes on one thread, in microseconds per
// pass. All cases run trial i before any case runs trial i+1.
type ForwardResult struct {
	Network string `json:"network"` // "mlp": 4 floats, layers of 64 and 64, 2 outputs; "cnn": the Nature CNN, 6 outputs
	Rows    int    `json:"rows"`
	// Kernels is the time of the layers' kernels alone, called one after the other. It is the
	// minimum for Whole, the time of the network's forward pass.
	Kernels []float64 `json:"kernels_us"`
	Whole   []float64 `json:"network_us"`

	kernels, whole func() error
	outputs        [2][]float32 // of the latest pass of each
}

// ForwardReport has the times of all trials.
type ForwardReport struct {
	ISA     string          `json:"isa"`
	Results []ForwardResult `json:"results"`
}

// benchForward times forward passes of few rows, as in acting.
func benchForward(decode func(any) error) (any, error) {
	o := ForwardOptions{Rows: []int{1, 8, 64}, Trials: 5}
	if err := decode(&o); err != nil {
		return nil, err
	}
	if o.Trials < 1 {
		return nil, fmt.Errorf("options: trials %d, must be at least 1", o.Trials)
	}
	report := &ForwardReport{ISA: kernel.ISA()}
	for _, name := range []string{"mlp", "cnn"} {
		for _, rows := range o.Rows {
			if rows < 1 || rows > nn.MaxRows {
				return nil, fmt.Errorf("options: rows %d, must be 1 to %d", rows, nn.MaxRows)
			}
			r := ForwardResult{Network: name, Rows: rows}
			if err := r.prepare(); err != nil {
				return nil, err
			}
			report.Results = append(report.Results, r)
		}
	}
	for range o.Trials {
		for i := range report.Results {
			r := &report.Results[i]
			kernels, err := microseconds(r.kernels)
			if err != nil {
				return nil, err
			}
			whole, err := microseconds(r.whole)
			if err != nil {
				return nil, err
			}
			r.Kernels, r.Whole = append(r.Kernels, kernels), append(r.Whole, whole)
		}
	}
	return report, nil
}

// prepare makes the network, and the same network from kernels.
func (r *ForwardResult) prepare() error {
	spec := nn.Spec{Obs: env.ObsSpec{Shape: []int{4, 84, 84}}, Trunks: []nn.Trunk{{Arch: "nature_cnn"}}, Heads: []nn.Head{{Name: "q", Out: 6}}}
	convs := []kernel.Conv{
		{InC: 4, InH: 84, InW: 84, OutC: 32, Kernel: 8, Stride: 4, PlanarIn: true},
		{InC: 32, InH: 20, InW: 20, OutC: 64, Kernel: 4, Stride: 2},
		{InC: 64, InH: 9, InW: 9, OutC: 64, Kernel: 3, Stride: 1, PlanarOut: true},
	}
	denses := []kernel.Dense{{In: 3136, Out: 512, ReLU: true}, {In: 512, Out: 6}}
	if r.Network == "mlp" {
		spec = nn.Spec{Obs: env.ObsSpec{Shape: []int{4}, DType: env.Float32}, Trunks: []nn.Trunk{{Arch: "mlp"}}, Heads: []nn.Head{{Name: "q", Out: 2}}}
		convs, denses = nil, []kernel.Dense{{In: 4, Out: 64, ReLU: true}, {In: 64, Out: 64, ReLU: true}, {In: 64, Out: 2}}
	}
	random := rng.New(0, "bench", 0)
	theta, err := spec.InitialParams(random)
	if err != nil {
		return err
	}
	device, err := cpu.New(1, nil)
	if err != nil {
		return err
	}
	bytes, err := device.Bytes(spec, nn.Needs{NetworkRows: []int{r.Rows}})
	if err != nil {
		return err
	}
	// Twice, because the kernels alone have their own buffers.
	if err := limits.Admit(limits.Part{Setting: fmt.Sprintf("rows: %d", r.Rows), Bytes: 2 * bytes}); err != nil {
		return err
	}
	network, err := device.Network(spec, r.Rows)
	if err != nil {
		return err
	}
	obs, states := randomBytes(random, r.Rows*spec.Obs.Bytes()), []float32(nil)
	if r.Network == "mlp" {
		for i := range r.Rows * 4 {
			states = append(states, float32(i%7)/7)
			binary.NativeEndian.PutUint32(obs[4*i:], math.Float32bits(states[i]))
		}
	}
	r.whole = func() error {
		out, err := network.Forward(theta, obs, r.Rows)
		if err == nil {
			r.outputs[1] = out.Values[0]
		}
		return err
	}
	r.kernels, r.outputs[0] = kernels(convs, denses, theta, r.Rows, obs, states)
	return nil
}

// kernels returns a function that runs the layers' kernels, and the slice that gets its outputs.
// The input is images, or states if there are no convolutions.
func kernels(convs []kernel.Conv, denses []kernel.Dense, theta *nn.Params, rows int, images []byte, states []float32) (func() error, []float32) {
	var layers []func()
	tensors, x := theta.Tensors(), states
	need := 0
	for i := range convs {
		need = max(need, convs[i].Workspace(rows, nil))
	}
	for i := range denses {
		need = max(need, denses[i].Workspace(rows, nil))
	}
	scratch := make([]float32, need)
	for i := range convs {
		c, w, b, from := &convs[i], tensors[2*i].Data, tensors[2*i+1].Data, x
		packed, y := make([]float32, c.PackLen()), make([]float32, rows*c.OutLen())
		if i == 0 {
			kernel.ConvPack(nil, packed, w, 1.0/255, c, scratch)
			layers = append(layers, func() { kernel.ConvForwardU8(nil, y, images, packed, b, rows, c, scratch) })
		} else {
			kernel.ConvPack(nil, packed, w, 1, c, scratch)
			layers = append(layers, func() { kernel.ConvForward(nil, y, from, packed, b, rows, c, scratch) })
		}
		x = y
	}
	for i := range denses {
		d, w, b, from := &denses[i], tensors[2*(len(convs)+i)].Data, tensors[2*(len(convs)+i)+1].Data, x
		y := make([]float32, rows*d.Out)
		layers = append(layers, func() { kernel.DenseForward(nil, y, from, w, b, rows, d, scratch) })
		x = y
	}
	return func() error {
		for _, layer := range layers {
			layer()
		}
		return nil
	}, x
}

// microseconds returns the time of a call: the median over 21 batches of calls. Each batch takes at
// least a millisecond.
func microseconds(call func() error) (float64, error) {
	batch := func(calls int) (time.Duration, error) {
		began := time.Now()
		for range calls {
			if err := call(); err != nil {
				return 0, err
			}
		}
		return time.Since(began), nil
	}
	calls, times := 1, make([]float64, 21)
	for ; ; calls *= 2 {
		took, err := batch(calls)
		if err != nil {
			return 0, err
		}
		if took >= time.Millisecond {
			break
		}
	}
	for i := range times {
		took, err := batch(calls)
		if err != nil {
			return 0, err
		}
		times[i] = took.Seconds() * 1e6 / float64(calls)
	}
	return median(times), nil
}
