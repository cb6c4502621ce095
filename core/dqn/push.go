package dqn

import (
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/replay"
	"github.com/paceline-rl/paceline/core/vec"
)

// push is the state of environments that the host steps, between two calls.
type push struct {
	needsEnvs bool // after a load: the host must reset its environments
	acted     bool // Act was called, Observe was not yet
}

// NewPush makes a DQN for environments that the caller steps, by Act and
// Observe. rows and actions have cfg.NumEnvs entries and belong to the caller
// (rows.Starts is not used); they must stay where they are until Close.
func NewPush(cfg Config, spec env.Spec, rows *vec.Rows, actions []int32) (*DQN, error) {
	notices, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if err := checkSizes(&cfg, spec.Obs.Bytes(), rows, actions); err != nil {
		return nil, err
	}
	stack := replay.StackDetect
	switch declared := max(cfg.FrameStack, spec.Obs.FrameStack); {
	case declared > 0:
		spec.Obs.FrameStack, stack = declared, replay.StackDeclared
	case spec.Obs.DType == env.Uint8 && len(spec.Obs.Shape) == 3:
		spec.Obs.FrameStack = spec.Obs.Shape[0]
	}
	cores, pool, err := share(&cfg)
	if err != nil {
		return nil, err
	}
	d, err := build(cfg, spec, rows, actions, stack, cores, pool)
	if err != nil {
		return nil, err
	}
	d.push, d.notices = &push{}, notices
	d.samplers.nextStep = cfg.Autoreset == "next_step"
	if !cfg.Synchronized {
		d.notices = append(d.notices, "synchronized: false, where the caller steps all environments in one call, changes only how Q-values are computed: one row at a time")
	}
	return d, nil
}

func checkSizes(cfg *Config, size int, rows *vec.Rows, actions []int32) error {
	if rows == nil {
		return errors.New("rows: nil, must be a Rows")
	}
	for _, x := range []struct {
		name      string
		have, per int
	}{
		{"rows.Obs", len(rows.Obs), size}, {"rows.FinalObs", len(rows.FinalObs), size},
		{"rows.Rewards", len(rows.Rewards), 1}, {"rows.Ends", len(rows.Ends), 1}, {"actions", len(actions), 1},
	} {
		if want := cfg.NumEnvs * x.per; x.have != want && (x.name != "rows.FinalObs" || cfg.Autoreset == "same_step") {
			return fmt.Errorf("%s: %d, must be %d (num_envs %d times %d)", x.name, x.have, want, cfg.NumEnvs, x.per)
		}
	}
	return nil
}

func (d *DQN) beginPush(resetEnvs bool) error {
	p := d.push
	if !resetEnvs && p.needsEnvs {
		return errors.New("begin: after a load the environments must be reset; pass ResetEnvs")
	}
	if resetEnvs {
		for i := range d.samplers.actions {
			if err := d.checkObs(i, "", d.samplers.rows.Obs); err != nil {
				return err
			}
		}
		clear(d.samplers.resetting)
	}
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
	s, p := d.samplers, d.push
	switch {
	case p == nil:
		return errors.New("act: the environments of this trainer are stepped by itself; use run")
	case !d.begun || p.needsEnvs:
		return errors.New("act: no course of learning was begun since the environments were made or loaded; call begin first")
	case p.acted:
		return errors.New("act: called twice without observe between")
	}
	// Steps go on after a Stop, but not after a Close, which stops, too.
	d.stopping.Store(false)
	if d.closing.Load() {
		return fault.ErrClosed
	}
	d.halted = false
	if err := d.prepare(); err != nil {
		return told(err)
	}
	if !d.clock.Warm {
		s.chooseRandomly()
		p.acted = true
		return nil
	}
	if err := d.release(d.clock.T + int64(len(s.actions)-count(s.resetting))); err != nil {
		return err
	}
	err = s.choose(d.clock.T, &d.schedule, d.cfg.Synchronized)
	d.lap(&d.times.act)
	p.acted = err == nil
	return err
}

// told is what the host gets to see of a wait that was interrupted.
func told(err error) error {
	if errors.Is(err, errInterrupted) {
		return fault.ErrStopped
	}
	return err
}

// Observe takes what the environments answered to the actions of Act: rewards,
// ends, observations. It is the second half of a round. Nothing is taken if any
// row is refused, and it can be called again.
func (d *DQN) Observe() (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	s, p := d.samplers, d.push
	if p == nil {
		return errors.New("observe: the environments of this trainer are stepped by itself; use run")
	}
	if !p.acted {
		return errors.New("observe: must follow act")
	}
	for i := range s.actions {
		if err := d.checkRow(i); err != nil {
			return told(err)
		}
	}
	n := int64(0)
	for i := range s.actions {
		if s.resetting[i] {
			s.resetting[i] = false
			err = s.begin(i)
		} else {
			err = s.keep(i, s.actions[i], int64(i))
			n++
		}
		if err != nil {
			return err
		}
	}
	p.acted = false
	d.room--
	if d.clock.Warm {
		d.clock.T += n
	} else {
		d.clock.Warmup += n
	}
	d.count()
	if d.clock.steps() >= d.clock.End {
		return d.settle()
	}
	return d.trainer.failed()
}

// checkRow refuses what would spoil the replay memory.
func (d *DQN) checkRow(i int) error {
	rows := d.samplers.rows
	if err := d.checkObs(i, "", rows.Obs); err != nil || d.samplers.resetting[i] {
		return err
	}
	if err := env.CheckReward(rows.Rewards[i]); err != nil {
		return fmt.Errorf("environment %d, step %d: %w", i, d.clock.steps(), err)
	}
	switch end := rows.Ends[i]; {
	case end > env.Terminated|env.Truncated:
		return fmt.Errorf("environment %d, step %d: ended: %d, must be 0 to 3", i, d.clock.steps(), end)
	case end&env.Terminated != 0:
		return nil // what comes then is not stored
	}
	next := rows.Obs
	if rows.Ends[i] != 0 && !d.samplers.nextStep {
		next = rows.FinalObs
		if err := d.checkObs(i, "final ", next); err != nil {
			return err
		}
	}
	err := d.memory.CheckNext(i, d.samplers.row(next, i))
	if errors.Is(err, replay.ErrNotAStack) {
		return d.storeWhole()
	}
	return err
}

// storeWhole goes over to storing whole observations.
func (d *DQN) storeWhole() error {
	if err := d.await(0); err != nil {
		return err
	}
	more, err := d.memory.StoreWhole()
	if err != nil {
		return err
	}
	d.room = d.leastRoom()
	d.notices = append(d.notices, fmt.Sprintf("observations are not stacks of successive frames along their first axis; they are stored whole, which takes %.1f MB more (%.1f MB in all)",
		float64(more)/1e6, float64(d.memory.Bytes())/1e6))
	return nil
}

func (d *DQN) checkObs(i int, what string, rows []byte) error {
	if err := d.spec.Obs.CheckFinite(d.samplers.row(rows, i)); err != nil {
		return fmt.Errorf("environment %d, step %d: %s%w", i, d.clock.steps(), what, err)
	}
	return nil
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
