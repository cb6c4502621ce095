package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// EvalOptions say how whole episodes are played.
type EvalOptions struct {
	Episodes int     // 1 to 1,000,000
	Epsilon  float64 // probability of a random action
	Sample   bool    // draw actions as the policy's Kind says
	Seed     uint64
}

// Evaluation is what playing whole episodes gave.
type Evaluation struct {
	Episodes                      int
	MeanReturn, StdReturn         float64 // standard deviation of the sample (n - 1)
	MinReturn, MaxReturn, MeanLen float64
	// Of each episode.
	Returns []float64
	Lengths []int64
}

// Evaluate plays whole episodes of the known environment called id. Each episode
// has an environment and a stream of its own, ("eval", episode), so the result does
// not depend on anything else. Of games whose rewards are clipped, or whose
// episodes end with a life, whole games are played for their whole rewards.
func (p *Policy) Evaluate(id string, options env.Options, o EvalOptions) (Evaluation, error) {
	if o.Episodes < 1 || o.Episodes > 1_000_000 {
		return Evaluation{}, fmt.Errorf("episodes: %d, must be 1 to 1000000", o.Episodes)
	}
	if !(o.Epsilon >= 0 && o.Epsilon <= 1) {
		return Evaluation{}, fmt.Errorf("epsilon: %v, must be 0 to 1", o.Epsilon)
	}
	stops := p.stops.Load()
	stopped := func() error {
		if p.stops.Load() != stops {
			return fmt.Errorf("evaluation: %w for episodes to end", fault.ErrStopped)
		}
		return nil
	}
	var played []episode
	for first := 0; first < o.Episodes; first += batch {
		part, err := p.play(id, options, first, min(batch, o.Episodes-first), o, stopped)
		if err != nil {
			return Evaluation{}, err
		}
		played = append(played, part...)
	}
	return summarise(played), nil
}

// StopEvaluations makes every Evaluate of this policy that is in progress return
// fault.ErrStopped before its next step. It may be called at any time.
func (p *Policy) StopEvaluations() { p.stops.Add(1) }

// episode is one that is being played, or was.
type episode struct {
	env    env.Env
	stream *rng.Stream
	mask   []byte // what may be done now; nil: everything
	reward float64
	length int64
}

// play plays n episodes side by side, so that the network sees many rows. It asks
// before every step whether it was stopped. All environments that it made are closed when it returns.
func (p *Policy) play(id string, options env.Options, first, n int, o EvalOptions, stopped func() error) (_ []episode, err error) {
	spec := p.spec.Env
	size := spec.Obs.Bytes()
	obs := make([]byte, n*size)
	played := make([]episode, 0, n) // no result, which an error would set to nil before the loop below
	defer func() {
		for _, g := range played {
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
		stream := rng.New(o.Seed, "eval", first+i)
		played = append(played, episode{env: e, stream: stream})
		if s := e.Spec(); s.Obs.Bytes() != size || s.Obs.DType != spec.Obs.DType || s.Action.N != spec.Action.N {
			return nil, fmt.Errorf("env: %q has observations of %d bytes and %d actions, must be %d and %d as the policy's", id, s.Obs.Bytes(), s.Action.N, size, spec.Action.N)
		}
		e.Seed(stream.Uint64())
		if err := e.Reset(obs[i*size : (i+1)*size]); err != nil {
			return nil, err
		}
		if e.Spec().Masks {
			played[i].mask = make([]byte, spec.Action.N)
		}
		if err := played[i].readMask(); err != nil {
			return nil, err
		}
	}
	playing := make([]*episode, n)
	for i := range played {
		playing[i] = &played[i]
	}
	actions, values := make([]int32, n), make([][]float32, len(p.spec.Net.Heads))
	values[p.spec.Head] = make([]float32, n*spec.Action.N)
	for len(playing) > 0 {
		if err := stopped(); err != nil {
			return nil, err
		}
		m := len(playing)
		chosen := values[p.spec.Head][:m*spec.Action.N]
		rows := make([][]float32, len(values))
		rows[p.spec.Head] = chosen
		if err := p.Act(m, obs[:m*size], nil, actions[:m], rows); err != nil {
			return nil, err
		}
		still := playing[:0]
		for row, g := range playing {
			explore := g.stream.Float64() < o.Epsilon
			of := chosen[row*spec.Action.N : (row+1)*spec.Action.N]
			switch {
			case explore:
				actions[row] = env.RandomAction(spec.Action.N, g.mask, g.stream)
			case o.Sample && p.spec.Kind == Categorical:
				actions[row], _ = sampleSoftmax(of, g.mask, g.stream.Float64())
			default:
				actions[row] = nn.Argmax(of, g.mask)
			}
			// Rows move up over those of the episodes that have ended.
			reward, end, err := g.env.Step(actions[row], obs[len(still)*size:(len(still)+1)*size])
			if err != nil {
				return nil, err
			}
			g.reward += float64(reward)
			g.length++
			if end != 0 {
				continue
			}
			if err := g.readMask(); err != nil {
				return nil, err
			}
			still = append(still, g)
		}
		playing = still
	}
	return played, nil
}

func (g *episode) readMask() error {
	if g.mask == nil {
		return nil
	}
	return env.ReadMask(g.env, g.mask)
}

func summarise(played []episode) Evaluation {
	n := float64(len(played))
	e := Evaluation{Episodes: len(played), MinReturn: math.Inf(1), MaxReturn: math.Inf(-1)}
	for _, g := range played {
		e.MeanReturn += g.reward
		e.MeanLen += float64(g.length)
		e.MinReturn, e.MaxReturn = min(e.MinReturn, g.reward), max(e.MaxReturn, g.reward)
		e.Returns, e.Lengths = append(e.Returns, g.reward), append(e.Lengths, g.length)
	}
	// Divided once, so that thirty returns of -21 have a mean of -21.
	e.MeanReturn /= n
	e.MeanLen /= n
	for _, g := range played {
		e.StdReturn += float64((g.reward - e.MeanReturn) * (g.reward - e.MeanReturn))
	}
	if n > 1 {
		e.StdReturn = math.Sqrt(e.StdReturn / (n - 1))
	}
	return e
}
