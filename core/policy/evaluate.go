package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/rng"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// EvalOptions say how whole episodes are played.
type EvalOptions struct {
	Episodes int     // 1 to 1,000,000
	Epsilon  float64 // probability of a random action
	Sample   bool    // draw actions as the policy's Kind says
	Seed     uint64
	// Starts has the states of an env.Game in which episodes start: episode i starts in state
	// i mod len(Starts). If it is empty, episodes start with a Reset.
	Starts [][]byte
	// MaxFrames is the number of frames at which the games of an env.Game are truncated, those
	// before a start included; 0: as the environment's options say.
	MaxFrames int
}

// Evaluation is the result of Evaluate.
type Evaluation struct {
	Episodes                      int
	MeanReturn, StdReturn         float64 // standard deviation of the sample (n - 1)
	MinReturn, MaxReturn, MeanLen float64
	Returns                       []float64 // of each episode
	Lengths                       []int64
}

// Evaluate plays whole episodes of the registered environment id. Each episode has its own
// environment and its own stream, ("eval", episode), so the result depends on the arguments alone.
// Environments that clip rewards or end an episode with a life play whole games for unclipped
// rewards. An observation or a reward that is not finite is an error. The error of an environment
// is an *env.Error with the number of its episode, which an env.Indexed gets as its index.
// Environments whose steps wait (env.Spec.Waits) take them at the same time.
func (p *Policy) Evaluate(id string, options env.Options, o EvalOptions) (Evaluation, error) {
	if o.Episodes < 1 || o.Episodes > 1_000_000 {
		return Evaluation{}, fmt.Errorf("episodes: %d, must be 1 to 1000000", o.Episodes)
	}
	if !(o.Epsilon >= 0 && o.Epsilon <= 1) {
		return Evaluation{}, fmt.Errorf("epsilon: %v, must be 0 to 1", o.Epsilon)
	}
	if o.MaxFrames < 0 || o.MaxFrames > 1<<30 {
		return Evaluation{}, fmt.Errorf("max_frames: %d, must be 0 to %d", o.MaxFrames, 1<<30)
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

// StopEvaluations makes every Evaluate of this policy in progress return fault.ErrStopped before
// its next step. It may be called at any time.
func (p *Policy) StopEvaluations() { p.stops.Add(1) }

// episode is an episode in progress, or a finished one.
type episode struct {
	number int // among all of the evaluation
	env    env.Env
	stream *rng.Stream
	spec   *env.Spec
	action vec.Action
	mask   []byte // allowed actions of the next step; nil allows all
	reward float64
	length int64
	over   bool
}

// play plays n episodes at once, so that a forward pass has many rows. It calls stopped before
// every step. It closes all of its environments before it returns.
func (p *Policy) play(id string, options env.Options, first, n int, o EvalOptions, stopped func() error) (_ []episode, err error) {
	size := p.spec.Env.Obs.Bytes()
	obs := make([]byte, n*size)
	played := make([]episode, 0, n) // not a named result: a returned error would set it to nil
	defer func() {
		for _, g := range played {
			err = errors.Join(err, g.env.Close())
		}
	}()
	playing := make([]*episode, n)
	for i := range playing {
		g, err := p.newEpisode(id, options, first+i, &o)
		if err != nil {
			return nil, err
		}
		played = append(played, g)
		playing[i] = &played[i]
	}
	each := inTurn
	if played[0].env.Spec().Waits {
		pool, err := threads.NewWaiting(n, nil)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		each = pool.Do
	}
	row := func(i int) []byte { return obs[i*size : (i+1)*size] }
	if err := each(n, func(_, i int) error { return playing[i].begin(o.Starts, row(i)) }); err != nil {
		return nil, err
	}
	step := func(_, i int) error { return playing[i].step(row(i)) }
	net, err := p.network()
	if err != nil {
		return nil, err
	}
	defer p.nets.Put(net)
	for len(playing) > 0 {
		if err := stopped(); err != nil {
			return nil, err
		}
		if err := p.chooseActions(net, playing, obs[:len(playing)*size], &o); err != nil {
			return nil, err
		}
		if err := each(len(playing), step); err != nil {
			return nil, err
		}
		playing = compact(playing, row)
	}
	return played, nil
}

// newEpisode makes episode `number` of the evaluation, whose environment is seeded and not yet
// reset. On an error or a panic it closes the environment.
func (p *Policy) newEpisode(id string, options env.Options, number int, o *EvalOptions) (_ episode, err error) {
	e, err := env.Make(id, options)
	if err != nil {
		return episode{}, err
	}
	made := false
	defer func() {
		if !made {
			err = errors.Join(err, e.Close())
		}
	}()
	if e, ok := e.(env.Indexed); ok {
		e.SetIndex(number)
	}
	if e, ok := e.(env.Evaluable); ok {
		e.Evaluate()
	}
	spec := &p.spec.Env
	switch s := e.Spec(); {
	case s.Obs.Bytes() != spec.Obs.Bytes() || s.Obs.DType != spec.Obs.DType:
		return episode{}, fmt.Errorf("env: %q has observations of %d bytes (%v), must be %d (%v) as the policy's", id, s.Obs.Bytes(), s.Obs.DType, spec.Obs.Bytes(), spec.Obs.DType)
	case !s.Action.EqualKind(spec.Action):
		return episode{}, fmt.Errorf("env: %q has actions: %v, must be %v as the policy's", id, s.Action, spec.Action)
	default:
		if name, own, policys := s.Action.OtherBound(spec.Action); name != "" {
			return episode{}, fmt.Errorf("env: %q has actions whose %s is %v, must be %v as the policy's", id, name, own, policys)
		}
	}
	game, isGame := e.(env.Game)
	switch {
	case isGame && o.MaxFrames > 0:
		game.LimitFrames(o.MaxFrames)
	case !isGame && o.MaxFrames > 0:
		return episode{}, fmt.Errorf("max_frames: %d, must be 0 for %q, which has no frames", o.MaxFrames, id)
	case !isGame && len(o.Starts) > 0:
		return episode{}, fmt.Errorf("starts: %d, must be none for %q, which has no start states", len(o.Starts), id)
	}
	g := episode{number: number, env: e, spec: spec, action: vec.NewAction(&spec.Action), stream: rng.New(o.Seed, "eval", number)}
	e.Seed(g.stream.Uint64())
	if e.Spec().Masks {
		g.mask = make([]byte, spec.Action.Logits())
	}
	made = true
	return g, nil
}

// chooseActions chooses the next action of every episode in progress. obs has a row for each.
func (p *Policy) chooseActions(net *network, playing []*episode, obs []byte, o *EvalOptions) (err error) {
	if o.Epsilon < 1 { // otherwise no action depends on the outputs
		if net.row.Outputs, err = p.forward(net, obs, len(playing)); err != nil {
			return err
		}
	}
	for i, g := range playing {
		net.row.Index = i
		if err := p.draw(net, o.Epsilon, o.Sample, g.mask, g.stream, g.action); err != nil {
			return err
		}
	}
	return nil
}

// compact removes the episodes that have ended. The observations of later ones replace their rows.
func compact(playing []*episode, row func(i int) []byte) []*episode {
	still := playing[:0]
	for i, g := range playing {
		if !g.over {
			copy(row(len(still)), row(i))
			still = append(still, g)
		}
	}
	return still
}

// inTurn calls f for 0 to n-1 until it fails.
func inTurn(n int, f func(worker, i int) error) error {
	for i := range n {
		if err := f(0, i); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the episode with a reset, or in its state of starts. A refused state is an error in
// the arguments, and not one of the environment.
func (g *episode) begin(starts [][]byte, obs []byte) (err error) {
	defer g.caught(&err)
	if n := len(starts); n > 0 {
		k := g.number % n
		if err := g.env.(env.Game).StartAt(starts[k], obs); err != nil {
			return fmt.Errorf("starts[%d]: %w", k, err)
		}
	} else if err := g.env.Reset(obs); err != nil {
		return g.failed(err)
	}
	return g.failed(g.check(obs))
}

// step takes a step.
func (g *episode) step(obs []byte) (err error) {
	defer g.caught(&err)
	reward, end, err := g.spec.Action.Step(g.env, g.action.Discrete, g.action.Box, obs)
	if err == nil {
		err = env.CheckReward(reward)
	}
	if err != nil {
		return g.failed(err)
	}
	g.reward += float64(reward)
	g.length++
	g.over = end != 0
	return g.failed(g.check(obs))
}

// check refuses an observation that is not finite. It reads the mask of the next step, unless the
// episode is over.
func (g *episode) check(obs []byte) error {
	if err := g.spec.Obs.CheckFinite(obs); err != nil || g.over || g.mask == nil {
		return err
	}
	return env.ReadMask(g.env, &g.spec.Action, g.mask)
}

// failed returns an error of the environment with the episode's number.
func (g *episode) failed(err error) error {
	if err == nil {
		return nil
	}
	return &env.Error{Index: g.number, Err: err}
}

// caught turns a panic of the environment into its error.
func (g *episode) caught(err *error) {
	if r := recover(); r != nil {
		*err = g.failed(fault.Caught(r))
	}
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
	// One division, so that thirty returns of -21 have a mean of exactly -21.
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
