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

	// Of the latest copy, and of the one before.
	clock      [2]Clock
	normalizer [2]*normalize.Normalizer
	at         time.Time
	begun      bool
}

// backupEvery is the time between two copies; rollouts may be full every few milliseconds.
const backupEvery = time.Second

func (b *backup) init(d nn.Device, w *Worker) (err error) {
	b.device = d
	b.Backup, err = d.Backup([]*nn.Params{w.Theta}, w.Stepper.Optimizer())
	return err
}

// make begins a copy if the latest one is old. No update is in progress.
func (b *backup) make(r *Run) error {
	b.Poll()
	if now := time.Now(); !b.begun || now.Sub(b.at) >= backupEvery {
		b.begun, b.at = true, now
		b.clock[1], b.clock[0] = b.clock[0], r.Clock
		b.normalizer[1], b.normalizer[0] = b.normalizer[0], r.Normalizer.Clone()
		return b.Make()
	}
	return nil
}

// Recover implements train.Recoverer.
func (r *Run) Recover() bool {
	ok, last := r.backup.Restore()
	if !ok {
		return false
	}
	k := 0
	if !last {
		k = 1
	}
	r.Clock = r.backup.clock[k]
	if saved := r.backup.normalizer[k]; saved != nil {
		r.Normalizer.Copy(saved)
	}
	r.minibatch, r.err = 0, r.backup.device.Lost()
	r.loads++
	r.Host.Steps.Store(r.Clock.Steps)
	r.Host.Updates.Store(r.Clock.Updates)
	return true
}
