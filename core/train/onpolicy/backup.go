package onpolicy

import (
	"time"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/normalize"
)

// backup keeps copies of what is lost with a GPU: Theta, the optimiser, and the counts and
// statistics that belong to them.
type backup struct {
	nn.Backup
	device nn.Device

	// Of each copy.
	clock      [2]Clock
	normalizer [2]*normalize.Normalizer

	every time.Duration // the time between two copies
	at    time.Time
	begun bool
}

// backupEvery is backup.every of a new Run; rollouts may be full every few milliseconds.
const backupEvery = time.Second

// BackUpEvery sets the least time between two copies for the case that the GPU is lost. It is for
// tests.
func (r *Run) BackUpEvery(d time.Duration) { r.backup.every = d }

func (b *backup) init(d nn.Device, w *Worker) (err error) {
	b.device, b.every = d, backupEvery
	b.Backup, err = d.Backup([]*nn.Params{w.Theta}, w.Stepper.Optimizer())
	return err
}

// make begins a copy if the latest one is old. No update is in progress.
func (b *backup) make(r *Run) error {
	b.Poll()
	now := time.Now()
	if b.begun && now.Sub(b.at) < b.every {
		return nil
	}
	k, err := b.Make()
	if err != nil {
		return err
	}
	b.begun, b.at = true, now
	b.clock[k], b.normalizer[k] = r.Clock, r.Normalizer.Clone()
	return nil
}

// Recover implements train.Recoverer.
func (r *Run) Recover() bool {
	k, ok := r.backup.Restore()
	if !ok {
		return false
	}
	r.Clock = r.backup.clock[k]
	if saved := r.backup.normalizer[k]; saved != nil {
		r.Normalizer.Copy(saved)
	}
	r.minibatch, r.err = 0, r.backup.device.Lost()
	r.loads++
	r.Monitor.Steps.Store(r.Clock.Steps)
	r.Monitor.Updates.Store(r.Clock.Updates)
	return true
}
