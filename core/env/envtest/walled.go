package envtest

import (
	"errors"

	"github.com/paceline-rl/paceline/core/env"
)

// Walled is an example of an environment with action masks: a Corridor with a wall before the end
// without the goal. The mask forbids a step into the wall, and Step returns an error for it.
type Walled struct{ Corridor }

// NewWalled returns a Walled, not yet reset.
func NewWalled() *Walled {
	w := &Walled{*NewCorridor()}
	w.spec.ID, w.spec.Masks = "Walled-v0", true
	return w
}

// Mask forbids only the step into the wall.
func (w *Walled) Mask(mask []byte) error {
	mask[0], mask[1] = 1, 1
	switch {
	case w.goal == 1 && w.cell == 1:
		mask[0] = 0
	case w.goal == -1 && w.cell == corridorLast-1:
		mask[1] = 0
	}
	return nil
}

// Step moves by one cell.
func (w *Walled) Step(action int32, obs []byte) (float32, env.End, error) {
	var mask [2]byte
	if err := w.Mask(mask[:]); err != nil || mask[action] == 0 {
		return 0, 0, errors.New("a step into the wall")
	}
	return w.Corridor.Step(action, obs)
}
