package a2c

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/policy"
)

// savedClock is part "clock".
type savedClock struct {
	Clock         clock `json:"clock"`
	OptimizerStep int64 `json:"optimizer_step"`
}

// Parts lists a checkpoint's parts. What a file without experience lacks comes last,
// and the environments at the very end (see actor.Group).
func (a *A2C) Parts(saving bool) []checkpoint.Part {
	return []checkpoint.Part{
		policy.SetPart(set, a.theta),
		nn.TensorsPart("optimizer.safetensors", a.optimizer.State()),
		a.clockPart(),
		a.actors.Exploration(),
		{Name: "rollout.bin", Version: 1, Optional: true, Write: a.rollout.Save, Read: a.rollout.Load},
		a.actors.Environments(saving),
	}
}

func (a *A2C) clockPart() checkpoint.Part {
	return checkpoint.Part{
		Name: "clock.json", Version: 1,
		Write: func(w io.Writer) error {
			return json.NewEncoder(w).Encode(savedClock{a.clock, a.optimizer.Step()})
		},
		Read: func(r io.Reader, n int64) (func(), error) {
			var s savedClock
			if err := checkpoint.ReadJSON(r, n, 1<<20, &s); err != nil {
				return nil, err
			}
			if err := s.check(); err != nil {
				return nil, fmt.Errorf("%w: %v", checkpoint.ErrFormat, err)
			}
			return func() {
				a.clock, a.err = s.Clock, nil
				a.optimizer.SetStep(s.OptimizerStep)
				a.theta.Updates = uint64(s.Clock.Updates)
				a.host.Steps.Store(s.Clock.Steps)
				a.host.Updates.Store(s.Clock.Updates)
			}, nil
		},
	}
}

// check refuses counts that no run has.
func (s *savedClock) check() error {
	const most = int64(1) << 51
	for _, v := range []struct {
		name  string
		value int64
	}{{"steps", s.Clock.Steps}, {"end", s.Clock.End}, {"updates", s.Clock.Updates}, {"optimizer_step", s.OptimizerStep}} {
		if v.value < 0 || v.value > most {
			return fmt.Errorf("clock: %s is %d", v.name, v.value)
		}
	}
	return s.Clock.Rate.Check("learning_rate")
}
