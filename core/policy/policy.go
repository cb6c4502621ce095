// Package policy holds frozen networks that act, and the choosers of actions from a network's
// outputs. It does not depend on any method: a Spec names the network, the head and the way to
// choose.
package policy

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/vec"
)

// Kind says how a policy samples an action.
type Kind string

const (
	// Greedy takes the action of the largest output, also when sampling.
	Greedy Kind = "greedy"
	// Categorical draws an action from the Distribution of logits.
	Categorical Kind = "softmax"
	// Gaussian draws an action from the Distribution of an action with a box.
	Gaussian Kind = "gaussian"
)

// KindOf returns the Kind of policies that draw such actions.
func KindOf(action env.ActionSpec) Kind {
	if action.Floats() > 0 {
		return Gaussian
	}
	return Categorical
}

// Spec says which network acts and how.
type Spec struct {
	Set string   // name of the parameter set
	Env env.Spec // ID, Obs and Action of the environment
	Net nn.Spec
	// Head is the index in Net.Heads of the head that Greedy maximises. With other Kinds it is the
	// index of the first head of the policy.
	Head int
	Kind Kind
	// Bounds says how samples of Gaussians become actions.
	Bounds Bounds
	// Normalizer has the statistics by which observations are normalised for the network; nil: they
	// are not.
	Normalizer *normalize.Moments
	// HostData is text that the host saves with the network, such as how it makes observations.
	HostData string
}

// Output describes the output of one head for a row.
type Output struct {
	Name string // "q", "logits", "value"
	Len  int    // numbers in a row
}

// Policy is a frozen network. It needs no environment and no trainer. Any number of goroutines may
// use it at once.
type Policy struct {
	spec   Spec
	dist   *Distribution // nil where the Kind is Greedy
	params *nn.Params
	nets   sync.Pool     // of *network
	stops  atomic.Uint64 // calls of StopEvaluations
}

// network is a network with the buffers for one call at a time.
type network struct {
	nn.Network
	row    BatchRow
	step   experience.Step
	normal []byte // a batch of normalised observations
}

// batch is the number of rows of a forward pass.
const batch = 32

// New returns a policy with these parameters and a copy of the statistics of spec.Normalizer. The
// caller must not write params again.
func New(spec Spec, params *nn.Params) *Policy {
	spec.Normalizer = spec.Normalizer.Clone()
	p := &Policy{spec: spec, params: params}
	if spec.Kind != Greedy {
		p.dist = NewDistribution(spec.Env.Action, &spec.Net, spec.Bounds)
	}
	return p
}

// Spec returns the spec of the policy's environment, to be read only.
func (p *Policy) Spec() *env.Spec { return &p.spec.Env }

// HostData returns the text that the host saved with the network.
func (p *Policy) HostData() string { return p.spec.HostData }

// Kind says how the policy samples an action.
func (p *Policy) Kind() Kind { return p.spec.Kind }

// Outputs describes the outputs that Act can return for every row, in the order of the network's
// heads.
func (p *Policy) Outputs() []Output {
	var list []Output
	for _, h := range p.spec.Net.Heads {
		name, ok := outputNames[h.Name]
		if !ok {
			name = h.Name
		}
		list = append(list, Output{name, h.Out})
	}
	return list
}

// outputNames are the public names of outputs whose heads have other names.
var outputNames = map[string]string{"pi": "logits", "mu": "mean", "v": "value"}

// Options say how Act chooses. Random draws depend on Seed, Counter and the row's number alone.
type Options struct {
	// Sample draws actions as Kind says; otherwise Act takes the most probable action, or that of the
	// largest output.
	Sample bool
	// Epsilon is the probability of a random action (env.ActionSpec.Random), 0 to 1.
	Epsilon float64
	Seed    uint64
	Counter uint64
	// Masks has a byte for each action of each branch of each row, 0 for an action that is not
	// allowed. Each row allows at least one action of each branch. nil allows all.
	Masks []byte
}

func (o *Options) random() bool { return o != nil && (o.Sample || o.Epsilon > 0) }

// mask returns row i of Masks.
func (o *Options) mask(i, size int) []byte {
	if o == nil || o.Masks == nil {
		return nil
	}
	return o.Masks[i*size : (i+1)*size]
}

// Act writes an action for each of n observations (rows of bytes), chosen as o says; with o nil,
// the most probable action, or that of the largest output. Boxes are clipped to their bounds. An
// observation that is not finite is an error before anything is written. An action that is not
// finite, because the network's output is not, is an error after the rows before it are written.
// outputs is nil, or has an entry for each of Outputs; an entry that is not nil receives n rows.
func (p *Policy) Act(n int, obs []byte, o *Options, actions vec.Actions, outputs [][]float32) error {
	spec := &p.spec.Env.Action
	size, width := p.spec.Env.Obs.Bytes(), spec.Logits()
	if n < 0 || len(obs) != n*size {
		return fmt.Errorf("obs: %d bytes, must be %d (%d rows of %d)", len(obs), n*size, n, size)
	}
	if err := spec.CheckSize(actions.Discrete, actions.Box, n); err != nil {
		return err
	}
	switch {
	case outputs != nil && len(outputs) != len(p.spec.Net.Heads):
		return fmt.Errorf("outputs: %d, must be %d, one for each head", len(outputs), len(p.spec.Net.Heads))
	case o != nil && !(o.Epsilon >= 0 && o.Epsilon <= 1):
		return fmt.Errorf("epsilon: %v, must be 0 to 1", o.Epsilon)
	case o != nil && o.Masks != nil && len(o.Masks) != n*width:
		return fmt.Errorf("masks: %d bytes, must be %d (%d rows of %d)", len(o.Masks), n*width, n, width)
	}
	for i := range n {
		err := spec.CheckMask(o.mask(i, width))
		if err == nil {
			err = p.spec.Env.Obs.CheckFinite(obs[i*size : (i+1)*size])
		}
		if err != nil {
			return &env.Error{Index: i, Err: err}
		}
	}
	for k, out := range outputs {
		if h := p.spec.Net.Heads[k]; out != nil && len(out) != n*h.Out {
			return fmt.Errorf("outputs[%d] (%s): %d, must be %d (%d rows of %d)", k, h.Name, len(out), n*h.Out, n, h.Out)
		}
	}
	net, err := p.network()
	if err != nil {
		return err
	}
	defer p.nets.Put(net)
	for first := 0; first < n; first += batch {
		rows := min(batch, n-first)
		out, err := p.forward(net, obs[first*size:(first+rows)*size], rows)
		if err != nil {
			return err
		}
		net.row.Outputs = out
		for i := range rows {
			net.row.Index = i
			if err := p.choose(net, o, first+i, actions.At(first+i, spec)); err != nil {
				return &env.Error{Index: first + i, Err: err}
			}
		}
		for k, to := range outputs {
			if to != nil {
				copy(to[first*p.spec.Net.Heads[k].Out:], out.Values[k])
			}
		}
	}
	return nil
}

// forward computes the outputs of at most batch observations.
func (p *Policy) forward(net *network, obs []byte, rows int) (nn.Outputs, error) {
	if m := p.spec.Normalizer; m != nil {
		size := p.spec.Env.Obs.Bytes()
		for i := range rows {
			m.Scale(net.normal[i*size:(i+1)*size], obs[i*size:(i+1)*size])
		}
		obs = net.normal[:rows*size]
	}
	return net.Forward(p.params, obs, rows)
}

// choose writes row i's action, chosen as o says from the outputs of net.row.
func (p *Policy) choose(net *network, o *Options, i int, to vec.Action) error {
	mask := o.mask(i, p.spec.Env.Action.Logits())
	if !o.random() {
		return p.mode(net, mask, to)
	}
	r := rng.New(o.Seed^rng.New(o.Counter, "act", 0).Uint64(), "act", i)
	return p.draw(net, o.Epsilon, o.Sample, mask, r, to)
}

// draw writes a random action with probability epsilon; otherwise, with sample, one drawn from the
// distribution; otherwise the mode.
func (p *Policy) draw(net *network, epsilon float64, sample bool, mask []byte, r *rng.Stream, to vec.Action) error {
	switch {
	case r.Float64() < epsilon:
		p.spec.Env.Action.Random(mask, r, to.Discrete, to.Box)
		return nil
	case sample && p.dist != nil:
		net.step.Action = to.Discrete
		if _, err := p.dist.Sample(&net.row, mask, r, &net.step); err != nil {
			return err
		}
		return p.toBox(net, to)
	}
	return p.mode(net, mask, to)
}

// mode writes the most probable action, or that of the largest output.
func (p *Policy) mode(net *network, mask []byte, to vec.Action) error {
	if p.dist == nil {
		values, err := net.row.Head(p.spec.Head)
		if err == nil {
			to.Discrete[0] = nn.Argmax(values, mask)
		}
		return err
	}
	net.step.Action = to.Discrete
	if err := p.dist.Mode(&net.row, mask, &net.step); err != nil {
		return err
	}
	return p.toBox(net, to)
}

// toBox writes the box of an action for the sample or the means in net.step.
func (p *Policy) toBox(net *network, to vec.Action) error {
	p.dist.ToBox(to.Box, net.step.Continuous)
	for k, x := range to.Box {
		if x-x != 0 {
			return fmt.Errorf("action[%d]: %v, %w", k, x, fault.ErrNotFinite)
		}
	}
	return nil
}

// BatchRow is row Index of the outputs of a batch. LogStds is the network's parameter log_std.
type BatchRow struct {
	Outputs nn.Outputs
	Index   int
	LogStds []float32
}

func (r *BatchRow) Head(k int) ([]float32, error) { return r.Outputs.Row(k, r.Index), nil }
func (r *BatchRow) LogStd() []float32             { return r.LogStds }

func (p *Policy) network() (*network, error) {
	if net, ok := p.nets.Get().(*network); ok {
		return net, nil
	}
	device, err := cpu.New(1, nil)
	if err != nil {
		return nil, err
	}
	var normal []byte
	if p.spec.Normalizer != nil {
		normal = make([]byte, batch*p.spec.Env.Obs.Bytes())
	}
	bytes, err := device.Bytes(p.spec.Net, nn.Needs{NetworkRows: []int{batch}})
	if err != nil {
		return nil, err
	}
	if err := limits.Admit(limits.Part{Setting: "policy: acting", Bytes: bytes}); err != nil {
		return nil, err
	}
	net, err := device.Network(p.spec.Net, batch)
	return &network{
		Network: net, row: BatchRow{LogStds: p.params.LogStd()},
		step: experience.Step{Continuous: make([]float32, p.spec.Env.Action.Floats())}, normal: normal,
	}, err
}
