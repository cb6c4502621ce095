package train

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/paceline-rl/paceline/core/nn"
)

// Units finds dead hidden units of a network: every 10,000 steps it checks 32 successive
// minibatches for units that are 0 on all observations. A dead unit has no gradient and does not
// change. A network with a dead layer has the same outputs for every observation, which no loss
// shows. If one stream of a dueling head is dead, the other one still depends on the observation,
// and the layers below the streams still learn.
//
// Units only reads what updates have computed. It is not part of a checkpoint: after a load the
// first multiple of 10,000 steps that is passed begins a check.
type Units struct {
	activity *nn.Activity
	size     int   // bytes of an observation
	checked  int64 // the latest check was at this multiple of unitsEvery
	left     int   // minibatches left in the check
	flat     bool  // all checked minibatches had constant outputs
	said     struct{ dead, flat bool }

	mu      sync.Mutex
	shares  []float64 // of dead units, by layer; NaN before the first check
	notices []string
}

const (
	unitsEvery       = 10_000
	unitsMinibatches = 32
)

// NewUnits returns the Units of a network.
func NewUnits(net nn.Spec) *Units {
	u := &Units{activity: net.NewActivity(), size: net.Obs.Bytes()}
	for range u.activity.Layers {
		u.shares = append(u.shares, math.NaN())
	}
	return u
}

// Look is called after every gradient of l, with its step and its observations. The goroutine that
// does the updates calls it.
func (u *Units) Look(l Looked, step int64, obs []byte) {
	if u.due(step) {
		u.look(l, allEqual(obs, u.size))
	}
}

// LookRows is Look for a minibatch that refers to rows of obs (nn.Batch.Rows).
func (u *Units) LookRows(l Looked, step int64, obs []byte, rows []int32) {
	if u.due(step) {
		u.look(l, allEqualRows(obs, u.size, rows))
	}
}

// Looked is a Learner or a stepper.
type Looked interface{ Look(*nn.Activity) }

// due reports whether a minibatch at a step is checked.
func (u *Units) due(step int64) bool {
	if u.left > 0 {
		return true
	}
	multiple := step / unitsEvery
	if multiple == u.checked {
		return false
	}
	if u.checked = multiple; multiple == 0 { // a new run
		return false
	}
	u.left, u.flat = unitsMinibatches, true
	u.activity.Reset()
	return true
}

// look checks a minibatch. same: all of its observations are equal.
func (u *Units) look(l Looked, same bool) {
	l.Look(u.activity)
	u.flat = u.flat && u.activity.Flat && !same
	if u.left--; u.left == 0 {
		u.conclude()
	}
}

// Wants reports whether Look, called for a step, would check the minibatch.
func (u *Units) Wants(step int64) bool { return u.left > 0 || step/unitsEvery != u.checked }

// conclude ends a check.
func (u *Units) conclude() {
	u.mu.Lock()
	defer u.mu.Unlock()
	var dead []string
	for i := range u.activity.Layers {
		layer := &u.activity.Layers[i]
		u.shares[i] = float64(layer.Dead()) / float64(len(layer.Alive))
		if u.shares[i] == 1 {
			dead = append(dead, layer.Name)
		}
	}
	if len(dead) > 0 && !u.said.dead {
		u.said.dead = true
		u.notices = append(u.notices, "dead units: every unit of "+strings.Join(dead, " and ")+
			" is 0 on all observations of 32 minibatches, so weights that act only through these units no longer learn; begin anew with a lower learning_rate")
	}
	if u.flat && !u.said.flat {
		u.said.flat = true
		u.notices = append(u.notices, "outputs: the same for every observation of 32 minibatches: the network no longer depends on the state; begin anew with a lower learning_rate")
	}
}

// allEqual reports whether all observations, each of size bytes, are equal, so that their outputs
// must be equal, too.
func allEqual(obs []byte, size int) bool {
	return bytes.Equal(obs[size:], obs[:len(obs)-size])
}

// allEqualRows is allEqual for row numbers; -1 is a row of zeros.
func allEqualRows(obs []byte, size int, rows []int32) bool {
	at := func(row int32) []byte { return obs[int(row)*size : int(row+1)*size] }
	zero := func(row int32) bool {
		return row < 0 || !slices.ContainsFunc(at(row), func(b byte) bool { return b != 0 })
	}
	first := rows[0]
	for _, row := range rows[1:] {
		switch {
		case row == first:
		case row < 0 || first < 0:
			if !zero(row) || !zero(first) {
				return false
			}
		case !bytes.Equal(at(row), at(first)):
			return false
		}
	}
	return true
}

// Metrics reports the shares of dead units and notifies the user. The call in progress calls it.
func (u *Units) Metrics(m *Metrics, mon *Monitor) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, layer := range u.activity.Layers {
		m.Add("train/dead_units/"+layer.Name, "", "share of this layer's units that were 0 on all observations of 32 minibatches, checked every 10,000 steps", u.shares[i])
	}
	for _, text := range u.notices {
		mon.Notify("%s", text)
	}
	u.notices = nil
}
