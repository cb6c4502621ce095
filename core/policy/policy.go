// Package policy holds frozen networks that act, and the choosers of actions from a network's
// outputs. It does not depend on any method: a Spec names the network, the head and the way to
// choose.
package policy

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/limits"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/rng"
)

// Kind says how a policy samples an action.
type Kind string

const (
	// Greedy takes the action of the largest output, also when sampling.
	Greedy Kind = "greedy"
	// Categorical draws an action with probability proportional to exp(output).
	Categorical Kind = "softmax"
)

// Spec says which network acts and how.
type Spec struct {
	Set  string   // name of the parameter set
	Env  env.Spec // ID, Obs and Action of the environment
	Net  nn.Spec
	Head int // index of the head of Net that chooses
	Kind Kind
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
	params *nn.Params
	nets   sync.Pool     // of *network
	stops  atomic.Uint64 // calls of StopEvaluations
}

// network is a network with the buffers for one call at a time.
type network struct{ nn.Network }

// batch is the number of rows of a forward pass.
const batch = 32

// New returns a policy with these parameters. The caller must not write params again.
func New(spec Spec, params *nn.Params) *Policy { return &Policy{spec: spec, params: params} }

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
var outputNames = map[string]string{"pi": "logits", "v": "value"}

// Options say how Act chooses. Random draws depend on Seed, Counter and the row's number alone.
type Options struct {
	// Sample draws actions as Kind says; otherwise Act takes the action of the largest output.
	Sample bool
	// Epsilon is the probability of a uniformly random action, 0 to 1.
	Epsilon float64
	Seed    uint64
	Counter uint64
	// Masks has a byte for each action of each row, 0 for an action that is not allowed. Each row
	// allows at least one action. nil allows all.
	Masks []byte
}

func (o *Options) random() bool { return o != nil && (o.Sample || o.Epsilon > 0) }

// mask returns row i of Masks.
func (o *Options) mask(i, actions int) []byte {
	if o == nil || o.Masks == nil {
		return nil
	}
	return o.Masks[i*actions : (i+1)*actions]
}

// Act writes an action for each of n observations (rows of bytes), chosen as o says; with o nil,
// the greedy action. outputs is nil, or has an entry for each of Outputs; an entry that is not nil
// receives n rows.
func (p *Policy) Act(n int, obs []byte, o *Options, actions []int32, outputs [][]float32) error {
	size, width := p.spec.Env.Obs.Bytes(), p.spec.Env.Action.N
	switch {
	case n < 0 || len(obs) != n*size:
		return fmt.Errorf("obs: %d bytes, must be %d (%d rows of %d)", len(obs), n*size, n, size)
	case len(actions) != n:
		return fmt.Errorf("actions: %d, must be %d", len(actions), n)
	case outputs != nil && len(outputs) != len(p.spec.Net.Heads):
		return fmt.Errorf("outputs: %d, must be %d, one for each head", len(outputs), len(p.spec.Net.Heads))
	case o != nil && !(o.Epsilon >= 0 && o.Epsilon <= 1):
		return fmt.Errorf("epsilon: %v, must be 0 to 1", o.Epsilon)
	case o != nil && o.Masks != nil && len(o.Masks) != n*width:
		return fmt.Errorf("masks: %d bytes, must be %d (%d rows of %d)", len(o.Masks), n*width, n, width)
	}
	for i := range n {
		if err := env.CheckMask(o.mask(i, width)); err != nil {
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
		out, err := net.Forward(p.params, obs[first*size:(first+rows)*size], rows)
		if err != nil {
			return err
		}
		for i := range rows {
			values := out.Row(p.spec.Head, i)
			actions[first+i] = nn.Argmax(values, o.mask(first+i, width))
			if o.random() {
				actions[first+i] = p.draw(o, first+i, values)
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

// draw chooses row i's action at random, as o says.
func (p *Policy) draw(o *Options, i int, values []float32) int32 {
	r := rng.New(o.Seed^rng.New(o.Counter, "act", 0).Uint64(), "act", i)
	mask := o.mask(i, p.spec.Env.Action.N)
	switch explore, u := r.Float64() < o.Epsilon, r.Float64(); {
	case explore:
		return env.RandomAction(p.spec.Env.Action.N, mask, r)
	case o.Sample && p.spec.Kind == Categorical:
		action, _ := sampleSoftmax(values, mask, u)
		return action
	}
	return nn.Argmax(values, mask)
}

func (p *Policy) network() (*network, error) {
	if net, ok := p.nets.Get().(*network); ok {
		return net, nil
	}
	device, err := cpu.New(1, nil)
	if err != nil {
		return nil, err
	}
	bytes, err := device.Bytes(p.spec.Net, nn.Needs{NetworkRows: []int{batch}})
	if err != nil {
		return nil, err
	}
	if err := limits.Admit(limits.Part{Setting: "policy: acting", Bytes: bytes}); err != nil {
		return nil, err
	}
	net, err := device.Network(p.spec.Net, batch)
	return &network{net}, err
}
