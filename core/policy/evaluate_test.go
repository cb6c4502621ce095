package policy

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
)

// spoilt gives a number that is not finite in the second step, or in the first observation, of one
// episode.
type spoilt struct {
	env.Env
	where string
	steps int
}

// spoiling is the number of environments of TestEvaluateRefusesWhatIsNotFinite that were made.
var spoiling int

func (s *spoilt) Reset(obs []byte) error {
	err := s.Env.Reset(obs)
	if s.where == "first observation" {
		binary.NativeEndian.PutUint32(obs[4:], math.Float32bits(float32(math.Inf(1))))
	}
	return err
}

func (s *spoilt) Step(action int32, obs []byte) (float32, env.End, error) {
	reward, end, err := s.Env.Step(action, obs)
	if s.steps++; s.steps == 2 {
		switch s.where {
		case "observation":
			binary.NativeEndian.PutUint32(obs[4:], math.Float32bits(float32(math.NaN())))
		case "last observation":
			binary.NativeEndian.PutUint32(obs[4:], math.Float32bits(float32(math.NaN())))
			end = env.Terminated
		case "reward":
			reward = float32(math.NaN())
		case "step":
			err = errors.New("no step")
		}
	}
	return reward, end, err
}

// Errors of an environment name the episode, as those of a Vec name the environment.
func TestEvaluateRefusesWhatIsNotFinite(t *testing.T) {
	p := cartPole(t, 7)
	for _, c := range []struct{ where, says string }{
		{"first observation", "environment 33: observation: component 1 is +Inf, must be finite"},
		{"observation", "environment 33: observation: component 1 is NaN, must be finite"},
		{"last observation", "environment 33: observation: component 1 is NaN, must be finite"},
		{"reward", "environment 33: reward: NaN, must be finite"},
		{"step", "environment 33: no step"},
	} {
		id := "Spoilt-" + c.where
		spoiling = 0
		env.Add(id, func(o env.Options) (env.Env, error) {
			e, err := env.Make("CartPole-v1", o)
			if spoiling++; spoiling != 34 {
				return e, err
			}
			return &spoilt{Env: e, where: c.where}, err
		})
		_, err := p.Evaluate(id, nil, EvalOptions{Episodes: 40})
		var of *env.Error
		if !errors.As(err, &of) || of.Index != 33 || err.Error() != c.says || errors.Is(err, fault.ErrNotFinite) != (c.where != "step") {
			t.Errorf("%s: %v, want %q", c.where, err, c.says)
		}
	}
}

// meeter is an environment whose steps and resets wait for those of another one. The rewards are
// its index.
type meeter struct {
	env.Env
	index, steps int
}

var meeting = make(chan int)

func (m *meeter) meet() error {
	select {
	case meeting <- m.index:
	case <-meeting:
	case <-time.After(20 * time.Second):
		return errors.New("alone")
	}
	return nil
}

func (m *meeter) Spec() env.Spec {
	spec := m.Env.Spec()
	spec.Waits = true
	return spec
}

func (m *meeter) SetIndex(i int) { m.index = i }

func (m *meeter) Reset(obs []byte) error { return errors.Join(m.Env.Reset(obs), m.meet()) }

func (m *meeter) Step(int32, []byte) (float32, env.End, error) {
	if m.steps++; m.steps == 5 {
		return float32(m.index), env.Truncated, m.meet()
	}
	return float32(m.index), 0, m.meet()
}

// Environments have the indices of their episodes. Those that wait do so at the same time.
func TestEvaluateWaitsForManyAtOnce(t *testing.T) {
	env.Add("Meeter-v0", func(o env.Options) (env.Env, error) {
		e, err := env.Make("CartPole-v1", o)
		return &meeter{Env: e}, err
	})
	e := must(cartPole(t, 7).Evaluate("Meeter-v0", nil, EvalOptions{Episodes: 34}))(t)
	for i, r := range e.Returns {
		if r != float64(5*i) || e.Lengths[i] != 5 {
			t.Fatalf("episode %d: return %v, length %d", i, r, e.Lengths[i])
		}
	}
}
