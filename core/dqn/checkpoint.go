package dqn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/paceline-rl/paceline/core/checkpoint"
	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// A checkpoint's kinds and parts. A policy has the weights alone.
const (
	kindDQN    = "dqn"
	kindPolicy = "policy"

	partWeights   = "weights.safetensors"   // q_net.* and, except in a policy, q_net_target.*
	partOptimizer = "optimizer.safetensors" // arrays as long as all parameters together
	partReplay    = "replay.bin"
	partActing    = "acting.json"          // with the replay: what the samplers are in the middle of
	partSnapshot  = "snapshot.safetensors" // with the replay: the acting copy of theta
)

const (
	onlinePrefix = "q_net."
	targetPrefix = "q_net_target."
)

// savedState is the manifest.
type savedState struct {
	Config map[string]string
	Spec   savedSpec

	Clock         clock
	Schedule      schedule
	Updates       int64
	Halted        bool
	OptimizerStep int64
	Draws         []byte   // the "replay" stream
	Coins         [][]byte // the "explore" streams
	Episodes      int64
	Recent        []episode
	Versions      map[string]uint64
}

// savedSpec is what of a Spec has to agree. (Bounds may be infinite, which JSON
// cannot say.)
type savedSpec struct {
	ID         string
	DType      env.DType
	Shape      []int
	FrameStack int
	Actions    int
}

func saveSpec(s env.Spec) savedSpec {
	return savedSpec{s.ID, s.Obs.DType, s.Obs.Shape, s.Obs.FrameStack, s.Action.N}
}

func (s savedSpec) spec() env.Spec {
	return env.Spec{ID: s.ID, Action: env.ActionSpec{N: s.Actions},
		Obs: env.ObsSpec{DType: s.DType, Shape: s.Shape, FrameStack: s.FrameStack}}
}

// String is for errors: "uint8 [4 84 84] and 3 actions".
func (s savedSpec) String() string {
	return fmt.Sprintf("%s %v and %d actions", s.DType, s.Shape, s.Actions)
}

// savedActing is what the samplers are in the middle of.
type savedActing struct {
	Obs     []byte // the rows
	Envs    [][]byte
	Returns []float64
	Lengths []int64
}

func (c *Config) table() map[string]string {
	t := map[string]string{}
	for _, o := range Options {
		t[o.Name] = o.get(c)
	}
	return t
}

// Save writes a checkpoint: weights, optimiser, counts, random streams and
// schedules, and with replay the whole rest, so that a DQN that loads it goes on
// with the same bits as this one does. The updates due at this step are done
// first (but not after a Stop). A failure leaves an older file at path as it was.
func (d *DQN) Save(path string, replay bool) (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	if err := d.settleToSee(); err != nil {
		return err
	}
	state, err := d.state()
	if err != nil {
		return err
	}
	w, err := checkpoint.Create(path, kindDQN, state)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.Part(partWeights, func(out io.Writer) error {
		return nn.WriteSafetensors(out, append(d.theta.Tensors(onlinePrefix), d.thetaMinus.Tensors(targetPrefix)...), nil)
	}); err != nil {
		return err
	}
	if err := w.Part(partOptimizer, func(out io.Writer) error {
		var arrays []nn.Tensor
		for _, s := range d.trainer.optimizer.State() {
			arrays = append(arrays, nn.Tensor{Name: s.Name, Shape: []int{len(s.Data)}, Data: s.Data})
		}
		return nn.WriteSafetensors(out, arrays, nil)
	}); err != nil {
		return err
	}
	if replay {
		if err := d.saveReplay(w); err != nil {
			return err
		}
	}
	return w.Commit()
}

func (d *DQN) saveReplay(w *checkpoint.Writer) error {
	if d.snapshot != nil {
		if err := w.Part(partSnapshot, func(out io.Writer) error {
			return nn.WriteSafetensors(out, d.snapshot.Tensors(onlinePrefix), nil)
		}); err != nil {
			return err
		}
	}
	if acting := d.acting(); acting != nil {
		if err := w.Part(partActing, func(out io.Writer) error { return json.NewEncoder(out).Encode(acting) }); err != nil {
			return err
		}
	}
	return w.Part(partReplay, d.memory.Save)
}

// acting returns nil where the environments cannot be written down: new
// episodes begin after a load then.
func (d *DQN) acting() *savedActing {
	s := d.samplers
	if s.vec == nil || !d.begun || slices.Contains(s.broken, true) {
		return nil
	}
	a := &savedActing{Obs: s.rows.Obs, Returns: s.returns, Lengths: s.lengths}
	for i := range s.vec.Len() {
		state, err := s.vec.Save(i)
		if err != nil {
			return nil
		}
		a.Envs = append(a.Envs, state)
	}
	return a
}

func (d *DQN) state() (*savedState, error) {
	st := &savedState{
		Config: d.cfg.table(), Spec: saveSpec(d.spec),
		Clock: d.clock, Schedule: d.schedule, Updates: d.trainer.position(), Halted: d.halted,
		OptimizerStep: d.trainer.optimizer.Step(),
		Versions:      map[string]uint64{"theta": d.theta.Version, "target": d.thetaMinus.Version},
	}
	if d.snapshot != nil {
		st.Versions["snapshot"] = d.snapshot.Version
	}
	var err error
	if st.Draws, err = d.trainer.draws.MarshalBinary(); err != nil {
		return nil, err
	}
	for _, c := range d.samplers.coins {
		b, err := c.MarshalBinary()
		if err != nil {
			return nil, err
		}
		st.Coins = append(st.Coins, b)
	}
	d.stats.mu.Lock()
	st.Episodes = d.stats.episodes
	st.Recent = slices.Clone(d.stats.recent[:min(st.Episodes, int64(len(d.stats.recent)))])
	d.stats.mu.Unlock()
	return st, nil
}

// loaded is a checkpoint that was read and found to fit.
type loaded struct {
	savedState
	cfg               Config
	weights, snapshot []nn.Tensor
	optimizer         nn.Optimizer
	draws             *rng.Stream
	coins             []*rng.Stream
	acting            *savedActing
}

// Load replaces the state by that of a checkpoint made with the same
// environment, network and num_envs. Without a replay memory in the file ours
// is emptied, new episodes begin, and learning_starts random steps fill it
// again before updates go on. On failure nothing has changed.
func (d *DQN) Load(path string) (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave(&err)
	r, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	l, err := d.read(r)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	d.trainer.halt()
	withReplay := r.Has(partReplay)
	if err := d.loadReplay(r, l, withReplay); err != nil {
		return err
	}
	return d.adopt(l, withReplay)
}

// read decodes everything that can be wrong, except the replay.
func (d *DQN) read(r *checkpoint.Reader) (*loaded, error) {
	l := &loaded{}
	if r.Kind != kindDQN {
		return nil, fmt.Errorf("kind: %q, must be %q; a policy can act but not go on learning", r.Kind, kindDQN)
	}
	if err := r.Content(&l.savedState); err != nil {
		return nil, err
	}
	var err error
	if l.cfg, err = configOf(l.Config); err != nil {
		return nil, err
	}
	// What shapes the state must agree; everything else may be changed.
	for _, name := range []string{"env", "env_options", "policy", "net_arch", "num_envs", "optimizer", "actor", "buffer_size"} {
		saved, _ := l.cfg.Get(name)
		if own, _ := d.cfg.Get(name); own != saved {
			return nil, fmt.Errorf("%s: the checkpoint has %q, this trainer has %q", name, saved, own)
		}
	}
	if own := saveSpec(d.spec); l.Spec.String() != own.String() {
		return nil, fmt.Errorf("environment: the checkpoint has observations %v, this trainer %v", l.Spec, own)
	}
	l.draws = new(rng.Stream)
	if err := l.draws.UnmarshalBinary(l.Draws); err != nil {
		return nil, err
	}
	if len(l.Coins) != d.cfg.NumEnvs || len(l.Recent) > len(d.stats.recent) {
		return nil, checkpoint.ErrFormat
	}
	for _, b := range l.Coins {
		c := new(rng.Stream)
		if err := c.UnmarshalBinary(b); err != nil {
			return nil, err
		}
		l.coins = append(l.coins, c)
	}
	if l.weights, err = tensors(r, partWeights); err != nil {
		return nil, err
	}
	for _, prefix := range []string{onlinePrefix, targetPrefix} {
		if err := nn.NewParams(d.theta.Layout).SetTensors(prefix, l.weights); err != nil {
			return nil, err
		}
	}
	if l.optimizer, err = d.readOptimizer(r, l.OptimizerStep); err != nil {
		return nil, err
	}
	if r.Has(partSnapshot) {
		if l.snapshot, err = tensors(r, partSnapshot); err != nil {
			return nil, err
		}
		if err := nn.NewParams(d.theta.Layout).SetTensors(onlinePrefix, l.snapshot); err != nil {
			return nil, err
		}
	}
	if r.Has(partActing) {
		l.acting = &savedActing{}
		if err := r.Part(partActing, func(in io.Reader) error { return json.NewDecoder(in).Decode(l.acting) }); err != nil {
			return nil, err
		}
		if a := l.acting; len(a.Obs) != len(d.samplers.rows.Obs) || len(a.Envs) != d.cfg.NumEnvs ||
			len(a.Returns) != d.cfg.NumEnvs || len(a.Lengths) != d.cfg.NumEnvs {
			return nil, checkpoint.ErrFormat
		}
	}
	return l, nil
}

// readOptimizer makes an optimiser with our settings and the saved state.
func (d *DQN) readOptimizer(r *checkpoint.Reader, step int64) (nn.Optimizer, error) {
	arrays, err := tensors(r, partOptimizer)
	if err != nil {
		return nil, err
	}
	var state []nn.State
	for _, t := range arrays {
		data, _ := t.Data.([]float32)
		state = append(state, nn.State{Name: t.Name, Data: data})
	}
	o, err := newOptimizer(&d.cfg, d.theta.Layout.Size, d.trainer.team)
	if err != nil {
		return nil, err
	}
	return o, o.SetState(step, state)
}

func tensors(r *checkpoint.Reader, part string) (ts []nn.Tensor, err error) {
	err = r.Part(part, func(in io.Reader) error {
		ts, _, err = nn.ReadSafetensors(in)
		return err
	})
	return ts, err
}

// loadReplay brings environments and replay into the saved state, both or
// neither.
func (d *DQN) loadReplay(r *checkpoint.Reader, l *loaded, withReplay bool) error {
	if !withReplay {
		return d.memory.Clear()
	}
	v := d.samplers.vec
	if l.acting == nil || v == nil {
		return r.Part(partReplay, d.memory.Load)
	}
	before := d.acting()
	restore := func(states [][]byte) error {
		for i, state := range states {
			if err := v.Restore(i, state); err != nil {
				return err
			}
		}
		return nil
	}
	err := restore(l.acting.Envs)
	if err == nil {
		err = r.Part(partReplay, d.memory.Load)
	}
	if err != nil {
		if before != nil {
			return errors.Join(err, restore(before.Envs))
		}
		// They had no state worth keeping.
		for i := range d.samplers.broken {
			d.samplers.broken[i] = true
		}
	}
	return err
}

// adopt takes over what read has checked.
func (d *DQN) adopt(l *loaded, withReplay bool) error {
	err := d.theta.SetTensors(onlinePrefix, l.weights)
	err = errors.Join(err, d.thetaMinus.SetTensors(targetPrefix, l.weights))
	if d.snapshot != nil {
		d.snapshot.CopyFrom(d.theta)
		if l.snapshot != nil {
			err = errors.Join(err, d.snapshot.SetTensors(onlinePrefix, l.snapshot))
		}
		d.snapshot.Version = l.Versions["snapshot"]
	}
	if err != nil {
		return err
	}
	d.theta.Version, d.thetaMinus.Version = l.Versions["theta"], l.Versions["target"]
	d.trainer.optimizer, d.trainer.draws = l.optimizer, l.draws
	d.trainer.setPosition(l.Updates)
	d.samplers.coins = l.coins
	d.clock, d.schedule, d.halted, d.begun = l.Clock, l.Schedule, l.Halted, l.Clock.End > 0
	d.clock.changePeriods(&l.cfg, &d.cfg)
	d.phase, d.room = 0, 0
	d.stats.mu.Lock()
	d.stats.episodes = l.Episodes
	copy(d.stats.recent[:], l.Recent)
	d.stats.mu.Unlock()
	if !withReplay && d.clock.Warm {
		// An empty memory is filled as at the beginning.
		d.clock.Warm = false
		d.clock.WarmAt = d.clock.Warmup + int64(d.cfg.LearningStarts)
	}
	s := d.samplers
	switch {
	case d.push != nil:
		d.push.needsEnvs, d.push.acted = true, false
	case !d.begun: // Begin will reset them
	case l.acting == nil || !withReplay:
		return s.reset()
	default:
		copy(s.rows.Obs, l.acting.Obs)
		copy(s.returns, l.acting.Returns)
		copy(s.lengths, l.acting.Lengths)
		clear(s.broken)
	}
	return nil
}

// LoadConfig returns the settings stored in a checkpoint.
func LoadConfig(path string) (Config, error) {
	r, err := checkpoint.Open(path)
	if err != nil {
		return Config{}, err
	}
	defer r.Close()
	var st savedState
	if err := r.Content(&st); err != nil {
		return Config{}, err
	}
	cfg, err := configOf(st.Config)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return cfg, err
}

func configOf(table map[string]string) (Config, error) {
	cfg := DefaultConfig()
	for _, o := range Options { // in a fixed order, so that errors are the same every time
		if value, ok := table[o.Name]; ok {
			if err := o.set(&cfg, value); err != nil {
				return cfg, err
			}
		}
	}
	return cfg, nil
}
