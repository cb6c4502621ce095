package offpolicy

import (
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// backup keeps copies of what is lost with a GPU: the parameter sets, the optimiser and the counts
// that belong to them.
type backup struct {
	nn.Backup
	counts [2]counts // of each copy
}

// counts are what a checkpoint holds besides parameters, optimiser and experience.
type counts struct {
	clock    Clock
	schedule Schedule
	draws    rng.Stream
	updates  int64
}

func (b *backup) init(r *Run) (err error) {
	sets := []*nn.Params{r.Theta, r.ThetaMinus}
	if r.Snapshot != nil {
		sets = append(sets, r.Snapshot)
	}
	b.Backup, err = r.Device.Backup(sets, r.Updates.updater.stepper.Optimizer())
	return err
}

// make begins a copy. No update is in progress.
func (b *backup) make(r *Run) error {
	k, err := b.Make()
	if err != nil {
		return err
	}
	b.counts[k] = counts{r.Clock, r.Schedule, *r.Updates.updater.draws, r.Updates.Done()}
	return nil
}

// Recover implements train.Recoverer. Updates end with the error of the GPU.
func (r *Run) Recover() bool {
	k, ok := r.backup.Restore()
	if !ok {
		return false
	}
	c := &r.backup.counts[k]
	r.Clock, r.Schedule, *r.Updates.updater.draws = c.clock, c.schedule, c.draws
	r.turn = 0
	r.room.forget()
	r.Updates.set(c.updates, 0) // a GPU drops no gradient
	r.Updates.fail(r.Device.Lost())
	r.Monitor.Steps.Store(r.Clock.Steps())
	return true
}
