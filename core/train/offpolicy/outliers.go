package offpolicy

import (
	"fmt"
	"math"
)

// outliers drops gradients with an unusual loss: a learner "keeps a running average and standard
// deviation of the absolute DQN loss for the data it sees and discards gradients with absolute loss
// higher than the mean plus several standard deviations" (Nair et al. 2015, section 4.2).
//
// The paper does not say over what the average runs. Here the weight of a loss is 1/n at the n-th
// loss, and 1/outlierMemory from there on. Losses of dropped gradients count, so that a loss that
// has grown for good stops being an outlier. No gradient is dropped before outlierStart losses.
type outliers struct {
	Seen     int64   `json:"seen"` // losses
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"`
	Dropped  int64   `json:"dropped"`
}

const (
	outlierStart  = 100
	outlierMemory = 1000
)

// admit reports whether the gradient of a finite loss is applied, where the loss may exceed the
// mean by k deviations, and adds the loss.
func (o *outliers) admit(loss, k float64) bool {
	loss = math.Abs(loss)
	usual := o.Seen < outlierStart || loss <= o.Mean+float64(k*math.Sqrt(o.Variance))
	if !usual {
		o.Dropped++
	}
	o.Seen++
	weight, off := 1/float64(min(o.Seen, outlierMemory)), loss-o.Mean
	o.Mean += float64(weight * off)
	o.Variance = float64((1 - weight) * (o.Variance + float64(float64(weight*off)*off)))
	return usual
}

// check refuses what no run of a number of updates has.
func (o *outliers) check(updates int64) error {
	if o.Seen < 0 || o.Seen > updates || o.Dropped < 0 || o.Dropped > max(0, o.Seen-outlierStart) || !(o.Mean >= 0) || math.IsInf(o.Mean, 0) || !(o.Variance >= 0) || math.IsInf(o.Variance, 0) {
		return fmt.Errorf("clock: losses that no run of %d updates has: %+v", updates, *o)
	}
	return nil
}
