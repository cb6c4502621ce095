package dqn

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/vec"
)

// push is the state of environments that the host steps, between two calls.
type push struct {
	nextStep  bool   // autoreset: the row after an end holds the ended episode's last observation
	resetting []bool // the row's next step only resets
	needsEnvs bool   // after a load: the host must reset its environments
	acted     bool   // Act was called, Observe was not yet
	warming   bool   // the actions given out were the warm-up's
}

// NewPush makes a DQN for environments that the caller steps, by Act and
// Observe. rows and actions have cfg.NumEnvs entries and belong to the caller
// (rows.Starts is not used); they must stay where they are until Close.
func NewPush(cfg Config, spec env.Spec, rows *vec.Rows, actions []int32) (*DQN, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	stack := replay.StackDetect
	switch declared := max(cfg.FrameStack, spec.Obs.FrameStack); {
	case declared > 0:
		spec.Obs.FrameStack, stack = declared, replay.StackDeclared
	case spec.Obs.DType == env.Uint8 && len(spec.Obs.Shape) == 3:
		spec.Obs.FrameStack = spec.Obs.Shape[0]
	}
	d, err := build(cfg, spec, rows, actions, stack)
	if err != nil {
		return nil, err
	}
	d.push = &push{nextStep: d.cfg.Autoreset == "next_step", resetting: make([]bool, d.cfg.NumEnvs)}
	if !d.cfg.Synchronized {
		d.notices = append(d.notices, "synchronized: false, where the caller steps all environments in one call, changes only how Q-values are computed: one row at a time")
	}
	return d, nil
}

func (p *push) begin(resetEnvs bool) error {
	if !resetEnvs {
		if p.needsEnvs {
			return errors.New("begin: after a load the environments must be reset; pass ResetEnvs")
		}
		return nil
	}
	clear(p.resetting)
	p.needsEnvs, p.acted = false, false
	return nil
}

// Act chooses an action for every row from its observation. It is the first
// half of a round.
func (d *DQN) Act() (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	p := d.push
	switch {
	case p == nil:
		return errors.New("act: the environments of this trainer are stepped by itself; use run")
	case !d.begun || p.needsEnvs:
		return errors.New("act: no course of learning was begun since the environments were made or loaded; call begin first")
	case p.acted:
		return errors.New("act: called twice without observe between")
	}
	if err := d.trainer.failed(); err != nil {
		return err
	}
	d.halted = false
	if err := d.makeRoom(); err != nil {
		return err
	}
	s := d.samplers
	w := int64(d.cfg.NumEnvs)
	if p.warming = !d.warm(); p.warming {
		for i := range s.actions {
			s.actions[i] = 0
			if !p.resetting[i] {
				s.actions[i] = s.randomAction(i)
			}
		}
		p.acted = true
		return nil
	}
	if err := d.synchronise(); err != nil {
		return err
	}
	d.releaseUntil(d.clock.T + w - int64(count(p.resetting)))
	if err := d.chooseRows(); err != nil {
		return err
	}
	p.acted = true
	return nil
}

// chooseRows fills in the actions of the rows that take a step; a row that only
// resets draws nothing.
func (d *DQN) chooseRows() error {
	began := time.Now()
	s, n := d.samplers, d.samplers.spec.Action.N
	var all []float32
	var err error
	if d.cfg.Synchronized {
		if all, err = s.joint.Forward(s.actor, s.rows.Obs, d.cfg.NumEnvs); err != nil {
			return err
		}
	}
	t := d.clock.T
	for i := range s.actions {
		if d.push.resetting[i] {
			s.actions[i] = 0
			continue
		}
		var q []float32
		if d.cfg.Synchronized {
			q = all[i*n : (i+1)*n]
		} else if q, err = s.joint.Forward(s.actor, s.row(s.rows.Obs, i), 1); err != nil {
			return err
		}
		s.actions[i] = s.choose(i, d.schedule.epsilon(t), q)
		t++
	}
	d.times.act += time.Since(began)
	return nil
}

// Observe takes what the environments answered to the actions of Act: rewards,
// ends, observations. It is the second half of a round. Nothing is taken if any
// row is refused.
func (d *DQN) Observe() (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	p := d.push
	if p == nil {
		return errors.New("observe: the environments of this trainer are stepped by itself; use run")
	}
	if !p.acted {
		return errors.New("observe: must follow act")
	}
	s := d.samplers
	for i := range s.actions {
		if err := d.checkRow(i); err != nil {
			return err
		}
	}
	n := int64(0)
	for i := range s.actions {
		if p.resetting[i] {
			p.resetting[i] = false
			if err := s.begin(i); err != nil {
				return err
			}
			continue
		}
		if err := d.take(i); err != nil {
			return err
		}
		n++
	}
	p.acted = false
	if p.warming {
		d.clock.Warmup += n
	} else {
		d.clock.T += n
	}
	d.count()
	if d.clock.steps() >= d.clock.End {
		return d.settle()
	}
	return d.trainer.failed()
}

// take keeps row i's step, and goes over to storing whole observations if that
// turns out to be necessary.
func (d *DQN) take(i int) error {
	s, end := d.samplers, d.samplers.rows.Ends[i]
	next := s.row(s.rows.Obs, i)
	if end != 0 && !d.push.nextStep {
		next = s.row(s.rows.FinalObs, i)
	}
	err := s.keep(i, s.actions[i], next)
	if errors.Is(err, replay.ErrNotAStack) {
		if err := d.storeWhole(); err != nil {
			return err
		}
		err = s.keep(i, s.actions[i], next)
	}
	if err != nil || end == 0 {
		return err
	}
	if d.push.nextStep {
		d.push.resetting[i] = true
		return nil
	}
	return s.begin(i)
}

func (d *DQN) storeWhole() error {
	if err := d.trainer.idle(); err != nil {
		return err
	}
	more, err := d.memory.StoreWhole()
	if err != nil {
		return err
	}
	d.notices = append(d.notices, fmt.Sprintf("observations are not stacks of successive frames along their first axis; they are stored whole, which takes %.1f MB more (%.1f MB in all)",
		float64(more)/1e6, float64(d.memory.Bytes())/1e6))
	return nil
}

// checkRow refuses what would spoil the replay memory.
func (d *DQN) checkRow(i int) error {
	s := d.samplers
	if !d.push.resetting[i] {
		if r := float64(s.rows.Rewards[i]); math.IsNaN(r) || math.IsInf(r, 0) {
			return fmt.Errorf("environment %d: reward %v at step %d, must be %w", i, r, d.clock.steps(), errFinite)
		}
		if e := s.rows.Ends[i]; e > env.Terminated|env.Truncated {
			return fmt.Errorf("environment %d: ended %d at step %d, must be 0 to 3", i, e, d.clock.steps())
		}
		if s.rows.Ends[i] == env.Truncated && !d.push.nextStep {
			if err := d.checkObs(i, "final observation", s.row(s.rows.FinalObs, i)); err != nil {
				return err
			}
		}
	}
	return d.checkObs(i, "observation", s.row(s.rows.Obs, i))
}

// errFinite wraps ErrNotFinite with words that end a sentence.
var errFinite = finite{}

type finite struct{}

func (finite) Error() string { return "finite" }
func (finite) Unwrap() error { return ErrNotFinite }

func (d *DQN) checkObs(i int, what string, obs []byte) error {
	if d.spec.Obs.DType != env.Float32 {
		return nil
	}
	values := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(obs))), len(obs)/4)
	k := slices.IndexFunc(values, func(v float32) bool { return v-v != 0 })
	if k < 0 {
		return nil
	}
	return fmt.Errorf("environment %d: %s component %d is %v at step %d, must be %w", i, what, k, values[k], d.clock.steps(), errFinite)
}

func count(flags []bool) int {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}
