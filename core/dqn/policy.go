package dqn

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// Policy is a frozen Q-network that acts greedily. It needs no environment and
// no trainer, and any number of goroutines may use it at once.
type Policy struct {
	spec   env.Spec // ID, Obs and Action
	config Config
	params *nn.Params
	nets   sync.Pool // of *nn.Network for policyBatch rows
	net    nn.Spec
}

// policyBatch is how many rows go through the network together.
const policyBatch = 32

func newPolicy(cfg Config, spec env.Spec, params *nn.Params) *Policy {
	return &Policy{spec: spec, config: cfg, params: params, net: networkSpec(&cfg, spec)}
}

// Policy returns a copy of theta as a policy of its own, after the updates due
// at this step.
func (d *DQN) Policy() (p *Policy, err error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave(&err)
	if err := d.settleToSee(); err != nil {
		return nil, err
	}
	return newPolicy(d.cfg, d.spec, clone(d.theta)), nil
}

// Spec describes what the policy observes and how it acts.
func (p *Policy) Spec() env.Spec { return p.spec }

// Act writes the greedy action for each of n observations (rows of bytes). q,
// if not nil, receives n rows of Q-values.
func (p *Policy) Act(n int, obs []byte, actions []int32, q []float32) error {
	size, a := p.spec.Obs.Bytes(), p.spec.Action.N
	switch {
	case n < 0 || len(obs) != n*size:
		return fmt.Errorf("obs: %d bytes, must be %d (%d rows of %d)", len(obs), n*size, n, size)
	case len(actions) != n:
		return fmt.Errorf("actions: %d, must be %d", len(actions), n)
	case q != nil && len(q) != n*a:
		return fmt.Errorf("values: %d, must be %d (%d rows of %d)", len(q), n*a, n, a)
	}
	net, _ := p.nets.Get().(*nn.Network)
	if net == nil {
		var err error
		if net, err = nn.NewNetwork(p.net, policyBatch, nil); err != nil {
			return err
		}
	}
	defer p.nets.Put(net)
	for first := 0; first < n; first += policyBatch {
		rows := min(policyBatch, n-first)
		values, err := net.Forward(p.params, obs[first*size:(first+rows)*size], rows)
		if err != nil {
			return err
		}
		for i := range rows {
			actions[first+i] = argmax(values[i*a : (i+1)*a])
		}
		if q != nil {
			copy(q[first*a:], values)
		}
	}
	return nil
}

// Evaluation is what playing whole episodes gave.
type Evaluation struct {
	Episodes                      int
	MeanReturn, StdReturn         float64 // standard deviation of the sample (n - 1)
	MinReturn, MaxReturn, MeanLen float64
}

// Evaluate plays so many whole episodes of the built-in environment called id,
// taking a random action with probability epsilon. Each episode has an
// environment and coins of its own, from the streams ("eval", episode), so the
// result does not depend on anything else.
func (p *Policy) Evaluate(id string, options env.Options, episodes int, epsilon float64, seed uint64) (Evaluation, error) {
	if episodes < 1 || episodes > 1_000_000 {
		return Evaluation{}, fmt.Errorf("episodes: %d, must be 1 to 1000000", episodes)
	}
	if !(epsilon >= 0 && epsilon <= 1) {
		return Evaluation{}, fmt.Errorf("epsilon: %v, must be 0 to 1", epsilon)
	}
	var played []episode
	for first := 0; first < episodes; first += policyBatch {
		part, err := p.play(id, options, first, min(policyBatch, episodes-first), epsilon, seed)
		if err != nil {
			return Evaluation{}, err
		}
		played = append(played, part...)
	}
	return summarise(played), nil
}

// game is one episode being played.
type game struct {
	index int
	env   env.Env
	coin  *rng.Stream
	episode
}

// play plays n episodes side by side, so that the network sees many rows.
func (p *Policy) play(id string, options env.Options, first, n int, epsilon float64, seed uint64) (played []episode, err error) {
	size := p.spec.Obs.Bytes()
	obs := make([]byte, n*size)
	games := make([]*game, 0, n)
	defer func() {
		for _, g := range games {
			err = errors.Join(err, g.env.Close())
		}
	}()
	for i := range n {
		e, err := env.Make(id, options)
		if err != nil {
			return nil, err
		}
		if e, ok := e.(env.Evaluable); ok {
			e.Evaluate()
		}
		games = append(games, &game{index: i, env: e, coin: rng.New(seed, "eval", first+i)})
		if s := e.Spec(); s.Obs.Bytes() != size || s.Action.N != p.spec.Action.N {
			return nil, fmt.Errorf("env: %q has observations of %d bytes and %d actions, must be %d and %d as the policy's", id, s.Obs.Bytes(), s.Action.N, size, p.spec.Action.N)
		}
		e.Seed(games[i].coin.Uint64())
		if err := e.Reset(obs[i*size : (i+1)*size]); err != nil {
			return nil, err
		}
	}
	actions := make([]int32, n)
	for playing := append([]*game(nil), games...); len(playing) > 0; {
		if err := p.Act(len(playing), obs[:len(playing)*size], actions[:len(playing)], nil); err != nil {
			return nil, err
		}
		still := playing[:0]
		for row, g := range playing {
			if g.coin.Float64() < epsilon {
				actions[row] = int32(g.coin.Intn(p.spec.Action.N))
			}
			// Rows move up over those of the games that have ended.
			reward, end, err := g.env.Step(actions[row], obs[len(still)*size:(len(still)+1)*size])
			if err != nil {
				return nil, err
			}
			g.Return += float64(reward)
			g.Length++
			if end == 0 {
				still = append(still, g)
			}
		}
		playing = still
	}
	for _, g := range games {
		played = append(played, g.episode)
	}
	return played, nil
}

func summarise(played []episode) Evaluation {
	n := float64(len(played))
	e := Evaluation{Episodes: len(played), MinReturn: math.Inf(1), MaxReturn: math.Inf(-1)}
	for _, g := range played {
		e.MeanReturn += g.Return / n
		e.MeanLen += float64(g.Length) / n
		e.MinReturn, e.MaxReturn = min(e.MinReturn, g.Return), max(e.MaxReturn, g.Return)
	}
	for _, g := range played {
		e.StdReturn += (g.Return - e.MeanReturn) * (g.Return - e.MeanReturn)
	}
	if n > 1 {
		e.StdReturn = math.Sqrt(e.StdReturn / (n - 1))
	}
	return e
}

// LoadPolicy returns the policy in a checkpoint of a DQN or of a policy.
func LoadPolicy(path string) (*Policy, error) {
	r, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var st savedState
	if err := r.Content(&st); err != nil {
		return nil, err
	}
	cfg, err := configOf(st.Config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	spec := st.Spec.spec()
	layout, err := networkSpec(&cfg, spec).Layout()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	params := nn.NewParams(layout)
	weights, err := tensors(r, partWeights)
	if err != nil {
		return nil, err
	}
	if err := params.SetTensors(onlinePrefix, weights); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return newPolicy(cfg, spec, params), nil
}

// Save writes a checkpoint of the weights alone, which LoadPolicy reads.
func (p *Policy) Save(path string) error {
	st := savedState{Config: p.config.table(), Spec: saveSpec(p.spec)}
	w, err := checkpoint.Create(path, kindPolicy, st)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.Part(partWeights, func(out io.Writer) error {
		return nn.WriteSafetensors(out, p.params.Tensors(onlinePrefix), nil)
	}); err != nil {
		return err
	}
	return w.Commit()
}
