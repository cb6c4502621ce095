// Package actor steps a group of environments that act with one network. A Group chooses actions
// (choose.go), steps the environments (step.go) and records every step in an experience.Sink
// (record.go); host.go replaces step.go where the host steps the environments. The package knows
// no method and no replay memory.
//
// Invariants of a Group:
//
//   - Environment i has a row, a stream of random numbers (its exploration RNG) and a segment of
//     the sink. One goroutine at a time touches them. The number of threads therefore changes the
//     time taken and nothing else.
//   - A row that only resets its environment (autoreset next_step), or that waits for a reset
//     (Disabled), is no step: the Group draws no random number for it and adds nothing to the sink.
//   - With Config.Halves 2 the rows are two halves: one half steps while the actions of the other
//     are computed (Stooke and Abbeel 2018, section 4.1). A row's outputs do not depend on its
//     batch, so the results are those of one half. A step is recorded in its round.
//   - Where the host steps the environments (no Source), all of the host's rows are checked before
//     any of them is recorded.
//   - Where the steps of the Source wait (env.Spec.Waits), each row has a thread. The thread holds
//     a core of Cores while it computes, and none during the step.
//   - Where environments step together in one call (vec.Batched), a round is one call, or one for
//     each half.
//   - With a Normalizer the network and the sink get normalised observations and rewards
//     (normalize.go).
//   - With Agents the rows move one by one (agents.go): there is no round, and each step has the
//     parameters that its own choice names.
//   - A failed environment is marked, and the next Repair resets it. A step that ended an episode
//     is recorded even if the reset after it failed.
package actor

import (
	"errors"
	"slices"
	"time"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/threads"
	"github.com/paceline-rl/paceline/core/vec"
)

// Config describes a Group.
type Config struct {
	Spec env.Spec
	Envs int
	// First is the number of the first environment, where several groups share the environments of a
	// run.
	First int
	Seed  uint64
	// Source steps the environments, in SameStep or as Disabled says; nil where the host steps
	// them. The caller owns it.
	Source Source
	// Disabled says that the Source's mode is Disabled: an environment whose episode has ended
	// takes no step until StartResets.
	Disabled bool
	// NextStep says that the host's environments reset in NextStep.
	NextStep bool
	// Halves is the setting groups: 1, or 2 that take turns. Two halves change the time taken and
	// nothing else, unless an environment fails.
	Halves int
	Sink   experience.Sink
	// Columns is how many numbers the chooser records with a step.
	Columns int
	// Joint computes all rows in one batch of Envs rows. Alone has networks of one row, which Run
	// uses: one for each thread of the Source's pool or, where its steps wait, for each core.
	Joint nn.Network
	Alone []nn.Network
	// Cores is the budget of which the caller of every method holds a core. It is used where the
	// Source's steps wait, and with two halves.
	Cores *threads.Budget
	// Normalizer (nil: none) normalises what the network and the sink get. It needs Halves of 1 and
	// steps in lockstep. The caller owns it.
	Normalizer *normalize.Normalizer
	// Agents says that the rows move one by one, by ChooseRow and StepRow. Joint, Alone and Acting are
	// nil then.
	Agents bool
	// Acting holds the parameters whose outputs choose. No goroutine writes them while a method of
	// the Group runs.
	Acting *nn.Params
}

// Source is what a Group without a host steps: a vec.Vec.
type Source interface {
	vec.Source
	vec.SingleStepper
	StartReset(rows *vec.Rows, mask []bool) error
	FinishReset() error
	Save(i int) ([]byte, error)
	Restore(i int, state []byte) error
	// Pool steps the environments. Where their steps wait, it lends its caller's core to other
	// threads meanwhile (threads.NewWaiting).
	Pool() *threads.Pool
}

// Group is a number of environments and the network that acts in them.
type Group struct {
	Config
	rows *vec.Rows
	size int // bytes of an observation
	// maskBytes is the size of an action mask.
	maskBytes int

	// What the rows are in the middle of.
	starting  []bool // the host's next observation begins an episode
	resetting []bool // the row's next step only resets (NextStep), or the row waits for StartResets (Disabled)
	broken    []bool // the environment failed: it must be reset
	begun     bool   // the Source's environments were reset

	choosing
	stepping
	recording
	normalizing
}

// New returns a group whose environments must all be reset. Its owner must Close it.
func New(c Config) (*Group, error) {
	if c.Normalizer != nil && c.Halves > 1 {
		return nil, errors.New("actor: a Normalizer needs Halves of 1")
	}
	w := c.Envs
	g := &Group{Config: c, size: c.Spec.Obs.Bytes(), maskBytes: c.Spec.Action.Logits(), starting: make([]bool, w), resetting: make([]bool, w), broken: make([]bool, w)}
	if c.Source != nil {
		g.rows = vec.NewRows(c.Spec.Obs, w)
		g.rows.AddInfos(c.Source.Infos())
		if c.Spec.Masks {
			g.rows.AddMasks(c.Spec.Action.Logits())
		}
	}
	g.choosing = newChoosing(g)
	g.recording.prepare(&c)
	g.normalizing = newNormalizing(&c)
	if err := g.prepareSteps(); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Close ends the threads of the halves, after the steps in progress.
func (g *Group) Close() {
	for _, h := range g.halves {
		if h.pool != nil {
			h.pool.Close()
		}
	}
}

// Obs returns the observations that a group with a Source acts on, row after row.
func (g *Group) Obs() []byte { return g.rows.Obs }

// row returns row i of rows of observations.
func (g *Group) row(rows []byte, i int) []byte { return rows[i*g.size : (i+1)*g.size] }

// mask returns row i of masks. Where masks is nil it returns nil, which allows all actions.
func (g *Group) mask(masks []byte, i int) []byte {
	if masks == nil {
		return nil
	}
	return masks[i*g.maskBytes : (i+1)*g.maskBytes]
}

// idle reports whether row i takes no step in this round.
func (g *Group) idle(i int) bool { return g.resetting[i] || g.broken[i] }

// Steps returns how many rows take a step in this round.
func (g *Group) Steps() int {
	n := 0
	for i := range g.Envs {
		if !g.idle(i) {
			n++
		}
	}
	return n
}

// Reset cuts every episode in progress and begins new ones; where the host steps, with the
// observations of the next Choose.
func (g *Group) Reset() error {
	for i := range g.broken {
		g.Cut(i)
		g.broken[i], g.starting[i], g.resetting[i] = g.Source != nil, g.Source == nil, false
	}
	if g.Source == nil {
		return nil
	}
	return g.startBroken()
}

// Repair cuts the episodes of environments that failed and begins new ones. Episodes of other
// environments continue.
func (g *Group) Repair() error {
	if !slices.Contains(g.broken, true) {
		return nil
	}
	for i, broken := range g.broken {
		if broken {
			g.Cut(i)
		}
	}
	return g.startBroken()
}

func (g *Group) startBroken() error {
	if err := g.Source.Reset(g.rows, g.broken); err != nil {
		return err
	}
	g.normalizeStarts(g.broken)
	for i, broken := range g.broken {
		if broken {
			if err := g.start(i); err != nil {
				return err
			}
		}
	}
	g.begun = true
	return nil
}

// StartResets begins to reset the environments whose episodes have ended (Disabled), concurrently
// with the caller, who calls FinishResets afterwards. It reports whether there are any.
func (g *Group) StartResets() (any bool, err error) {
	if !g.Disabled || !slices.Contains(g.resetting, true) {
		return false, nil
	}
	g.rewards, g.ends = append(g.rewards[:0], g.rows.Rewards...), append(g.ends[:0], g.rows.Ends...)
	return true, g.Source.StartReset(g.rows, g.resetting)
}

// FinishResets waits for the resets and begins a segment with each first observation. After an
// error Repair resets all of these environments. The rows keep the rewards and the Ends of the
// latest round, as they do where a reset follows a step at once.
func (g *Group) FinishResets() error {
	err := g.Source.FinishReset()
	copy(g.rows.Rewards, g.rewards)
	copy(g.rows.Ends, g.ends)
	if err == nil {
		g.normalizeStarts(g.resetting)
	}
	for i, ended := range g.resetting {
		if !ended {
			continue
		}
		g.resetting[i] = false
		if err == nil {
			err = g.start(i)
		}
		g.broken[i] = err != nil
	}
	return err
}

// Ran is what a Round or a Run took.
type Ran struct {
	Asked int64 // steps that were asked for, or fewer if the interrupt came first
	Taken int64 // of these, the steps that no failure prevented
	// Times, added over the threads: computing outputs, and the rest.
	Acting, Stepping time.Duration
	// Cores is how long the steps held cores: 0 where they wait.
	Cores time.Duration
}
