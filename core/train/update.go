package train

import (
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
)

// ErrNothingToDraw is wrapped by the error of an update for which no transition of the replay
// memory can be drawn. The update has changed nothing.
var ErrNothingToDraw = errors.New("no transition can be drawn")

// AtUpdate adds step and number of an update to its error, if that is an nn.NotFinite.
func AtUpdate(err error, step, update int64) error {
	if e := (*nn.NotFinite)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: %v at step %d (update %d), %w; a lower learning_rate or smaller rewards may help", e.What, e.Value, step, update, fault.ErrNotFinite)
	}
	return err
}
