package onpolicy

import (
	"github.com/paceline-rl/paceline/core/actor"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/normalize"
	"github.com/paceline-rl/paceline/core/rollout"
	"github.com/paceline-rl/paceline/core/train"
)

// Worker is what one learner has: environments and what they saw, parameters that act, and what
// computes gradients. It does not change Theta: its owner does.
//
//   - Fill takes the steps. Theta does not change inside a Fill.
//   - Gradient, Outputs and Values read a window that is full.
//   - Observations that minibatches refer to are uploaded once for each window (nn.Batch.Rows).
type Worker struct {
	Theta   *nn.Params
	Window  Window
	Network nn.Network // of num_envs rows, by which actions are chosen
	Stepper nn.Stepper
	Report  nn.Report // of the latest minibatch
	Monitor *train.Monitor
	// Normalizer has the statistics of what is normalised; nil: nothing is.
	Normalizer *normalize.Normalizer

	// Actors and Rollout are the Window, where it is in host memory.
	Actors  *actor.Group
	Rollout *rollout.Rollout

	cfg      Config
	full     int64 // windows that have become full, since the Worker was made
	loads    int   // checkpoints loaded
	uploaded upload
}

// upload names the window whose observations Stepper has. Zero: none.
type upload struct {
	valid bool
	full  int64
	loads int
}

func (w *Worker) init(s *train.Setup, c Config) (err error) {
	envs := s.Common.NumEnvs
	*w = Worker{Monitor: s.Monitor, cfg: c, Normalizer: normalize.New(s.Spec.Obs.Len(), c.Normalize.Obs, c.Normalize.Reward, c.Normalize.Gamma)}
	if w.Theta, err = s.InitialParams(c.Net); err != nil {
		return err
	}
	if w.Rollout, err = rollout.New(c.rollout(s.Spec, envs)); err != nil {
		return err
	}
	if w.Network, err = s.Device.Network(c.Net, envs); err != nil {
		return err
	}
	w.Stepper, err = s.Device.Stepper(nn.StepperConfig{Net: c.Net, Rows: c.Batch, Loss: c.Loss, Optimizer: c.Optimizer, MaxGradNorm: c.MaxGradNorm})
	return err
}

// initActors makes the environments act. They begin threads, so this comes last.
func (w *Worker) initActors(s *train.Setup) (err error) {
	group := s.Group()
	group.Sink, group.Columns, group.Joint, group.Acting = w.Rollout, len(w.cfg.Chooser.Columns()), w.Network, w.Theta
	group.Normalizer = w.Normalizer
	if w.Actors, err = actor.New(group); err == nil {
		w.Window = &hostWindow{w.Actors, w.Rollout}
	}
	return err
}

// close ends the threads of the environments.
func (w *Worker) close() {
	if w.Actors != nil {
		w.Actors.Close()
	}
}

// Fill takes rounds, at least one, until the window is full, `until` steps are counted or the
// Interrupt is raised, and returns how many steps it took. t steps are counted before it. An error
// ends it between two rounds; the steps before the error are recorded and counted.
func (w *Worker) Fill(t, until int64, interrupt *train.Interrupt) (steps int64, err error) {
	for {
		end := t + steps + int64(w.Window.Pending())
		anotherFollows := err == nil && end < until && w.Window.Left() > 1 && !interrupt.Raised(w.Monitor.Mark())
		ran, failed := w.Window.Round(t+steps, w.cfg.Chooser, anotherFollows)
		w.Monitor.Ran(ran)
		w.Monitor.Add(ran.Taken, w.Actors)
		steps += ran.Taken
		if err == nil {
			err = failed
		}
		if !w.Window.InRound() && (err != nil || w.Window.Full() || t+steps >= until || interrupt.Raised(w.Monitor.Mark())) {
			return steps, err
		}
	}
}

// Values returns the values of observations by Theta, in memory that the next call overwrites.
func (w *Worker) Values(obs []byte, rows int) ([]float32, error) {
	out, err := w.Network.Forward(w.Theta, obs, rows)
	if err != nil {
		return nil, err
	}
	return w.cfg.Value(out), nil
}

// Finish computes advantages and returns of the window: see Window.
func (w *Worker) Finish(gamma, lambda float64) error {
	return w.Window.Finish(gamma, lambda, w.Values)
}

// Gradient computes the loss of a minibatch and its gradient, which Stepper keeps, and fills in
// Report. A minibatch may refer to rows of the window (nn.Batch.Rows).
func (w *Worker) Gradient(b nn.Batch) error {
	if err := w.upload(&b); err != nil {
		return err
	}
	return w.Stepper.Learn(w.Theta, b, &w.Report)
}

// Outputs returns what the network computes of a minibatch by Theta; see nn.Learner.
func (w *Worker) Outputs(b nn.Batch) (nn.Outputs, error) {
	if err := w.upload(&b); err != nil {
		return nn.Outputs{}, err
	}
	return w.Stepper.Outputs(w.Theta, b)
}

// observations are those whose rows minibatches refer to: the rollout's, or where the window slides
// those of its ring (rollout.Rollout.Obs).
func (w *Worker) observations() []byte {
	if w.cfg.Slide > 0 {
		return w.Rollout.Obs()
	}
	return w.Rollout.Batch().Obs
}

// upload gives Stepper the observations that a minibatch refers to, unless it has them: a window
// changes only when it becomes full again and at a load. Of a window that slides, only the rounds
// that Stepper does not have are uploaded.
func (w *Worker) upload(b *nn.Batch) (err error) {
	before, now := w.uploaded, upload{true, w.full, w.loads}
	if b.Rows == nil || before == now {
		return nil
	}
	if w.cfg.Slide > 0 && before.valid && before.loads == now.loads {
		rounds := min(int64(w.cfg.Slide)*(now.full-before.full), int64(w.cfg.Horizon))
		err = w.Stepper.Refresh(w.Rollout.Newest(int(rounds)))
	} else {
		err = w.Stepper.SetObs(w.observations())
	}
	if err == nil {
		w.uploaded = now
	}
	return err
}
