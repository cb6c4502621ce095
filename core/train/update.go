package train

import (
	"errors"
	"fmt"

	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
)

// AtUpdate adds step and number of an update to its error, if that is an nn.NotFinite.
func AtUpdate(err error, step, update int64) error {
	if e := (*nn.NotFinite)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s: %v at step %d (update %d), %w; a lower learning_rate or smaller rewards may help", e.What, e.Value, step, update, fault.ErrNotFinite)
	}
	return err
}
