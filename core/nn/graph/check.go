package graph

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
)

// CheckForward checks a call of Network.Forward.
func (g *Graph) CheckForward(p *nn.Params, obs []byte, rows int) error {
	if rows < 1 || rows > g.Rows {
		return fmt.Errorf("rows: %d, must be 1 to %d", rows, g.Rows)
	}
	if err := CheckObs(&g.Spec, "obs", obs, rows); err != nil {
		return err
	}
	if err := g.Layout.CheckParams("parameters", p); err != nil {
		return err
	}
	g.Layout = p.Layout // an equal one: the next call's check compares pointers
	return nil
}

// CheckInputs checks the parameters and observations of a batch. obsRows is the number of rows of
// the latest SetObs, 0 before the first.
func (l *Learner) CheckInputs(p *nn.Params, b *nn.Batch, obsRows int) error {
	if err := l.Layout.CheckParams("parameters", p); err != nil {
		return err
	}
	l.Layout = p.Layout // as in CheckForward
	switch {
	case b.Rows == nil:
		return CheckObs(&l.Spec, "batch.obs", b.Obs, l.Rows)
	case b.Obs != nil:
		return fmt.Errorf("batch.obs: %d bytes, must be nil with batch.rows", len(b.Obs))
	case len(b.Rows) != l.Rows:
		return fmt.Errorf("batch.rows: %d, must be %d", len(b.Rows), l.Rows)
	case obsRows == 0:
		return fmt.Errorf("batch.rows: %d, must be nil before SetObs", len(b.Rows))
	}
	for i, row := range b.Rows {
		if row < -1 || int(row) >= obsRows {
			return fmt.Errorf("batch.rows[%d]: %d, must be -1 or a row of SetObs, 0 to %d", i, row, obsRows-1)
		}
	}
	return nil
}

// CheckBatch checks a batch: CheckInputs, and the sizes of everything else. CheckActions,
// CheckChoices and CheckContinuous check the values.
func (l *Learner) CheckBatch(p *nn.Params, b *nn.Batch, obsRows int) error {
	if err := l.CheckInputs(p, b, obsRows); err != nil {
		return err
	}
	if want := l.Rows * l.Integers; len(b.Actions) != want {
		return fmt.Errorf("batch.actions: %d, must be %d", len(b.Actions), want)
	}
	if want := l.Rows * l.Gaussians; len(b.Continuous) != want {
		return fmt.Errorf("batch.continuous: %d numbers, must be %d", len(b.Continuous), want)
	}
	if len(b.Columns) != len(l.Columns) {
		names := make([]string, len(l.columns))
		for i, c := range l.columns {
			names[i] = c.Name
		}
		return fmt.Errorf("batch.columns: %d, must be %d: %v", len(b.Columns), len(l.Columns), names)
	}
	for i, c := range b.Columns {
		if of := l.columns[i]; len(c) != l.Rows*of.Width {
			return fmt.Errorf("batch.columns[%d] (%s): %d numbers, must be %d", i, of.Name, len(c), l.Rows*of.Width)
		}
	}
	if b.Masks != nil {
		i := l.Spec.Head("pi")
		if i < 0 {
			return errors.New("batch.masks: set, must be nil for a loss without a head \"pi\"")
		}
		if want := l.Rows * l.Spec.Heads[i].Out; len(b.Masks) != want {
			return fmt.Errorf("batch.masks: %d bytes, must be %d", len(b.Masks), want)
		}
	}
	return nil
}

// CheckReport checks the memory of a report.
func (l *Learner) CheckReport(r *nn.Report) error {
	switch {
	case r.Rows == nil:
	case !l.perRow:
		return fmt.Errorf("report.rows: %d numbers, must be nil for this loss", len(r.Rows))
	case len(r.Rows) != l.Rows:
		return fmt.Errorf("report.rows: %d numbers, must be nil or %d", len(r.Rows), l.Rows)
	}
	return nil
}

// CheckSetObs checks a call of Evaluator.SetObs and returns the number of rows.
func (l *Learner) CheckSetObs(obs []byte) (rows int, err error) {
	size, most := l.Spec.Obs.Bytes(), 1<<31-2
	if len(obs) == 0 || len(obs)%size != 0 || len(obs)/size > most {
		return 0, fmt.Errorf("set_obs: %d bytes, must be 1 to %d rows of %d bytes", len(obs), most, size)
	}
	if l.Spec.Obs.DType == env.Float32 && uintptr(unsafe.Pointer(&obs[0]))%4 != 0 {
		return 0, fmt.Errorf("set_obs: address %p, must be a multiple of 4", &obs[0])
	}
	return len(obs) / size, nil
}

// CheckRefresh checks a call of Evaluator.Refresh after a SetObs of obsRows rows.
func CheckRefresh(obsRows, first, rows int) error {
	switch {
	case obsRows == 0:
		return fmt.Errorf("refresh: %d rows, must follow SetObs", rows)
	case first < 0 || first >= obsRows:
		return fmt.Errorf("refresh: first row %d, must be 0 to %d", first, obsRows-1)
	case rows < 1 || rows > obsRows:
		return fmt.Errorf("refresh: %d rows, must be 1 to %d", rows, obsRows)
	}
	return nil
}

// CheckActions checks actions of one branch.
func CheckActions(actions []int32, width int) error {
	for i, a := range actions {
		if a < 0 || int(a) >= width {
			return fmt.Errorf("batch.actions[%d]: %d, must be 0 to %d", i, a, width-1)
		}
	}
	return nil
}

// CheckChoices checks actions of branches, and that each row with a weight allows its actions.
// masks may be nil.
func CheckChoices(actions, branches []int32, masks []byte, weights []float32) error {
	width, first := 0, 0 // outputs of all branches, and of those before branch k
	for _, choices := range branches {
		width += int(choices)
	}
	for k, choices := range branches {
		for i, w := range weights {
			a := actions[i*len(branches)+k]
			switch {
			case a < 0 || a >= choices:
				return fmt.Errorf("batch.actions[%d]%s: %d, must be 0 to %d", i, branchOf(k, branches), a, choices-1)
			case masks != nil && w != 0 && masks[i*width+first+int(a)] == 0:
				return fmt.Errorf("batch.masks[%d]%s: forbids action %d, which was taken, must allow it", i, branchOf(k, branches), a)
			}
		}
		first += int(choices)
	}
	return nil
}

// branchOf names branch k of several in messages.
func branchOf(k int, branches []int32) string {
	if len(branches) == 1 {
		return ""
	}
	return fmt.Sprintf("[branch %d]", k)
}

// CheckContinuous checks the numbers of actions, [rows, gaussians], of the rows with a weight.
func CheckContinuous(continuous []float32, gaussians int, weights []float32) error {
	for i, w := range weights {
		if w == 0 {
			continue
		}
		for k, x := range continuous[i*gaussians : (i+1)*gaussians] {
			if x-x != 0 { // NaN or infinite
				return fmt.Errorf("batch.continuous[%d][%d]: %v, %w", i, k, x, fault.ErrNotFinite)
			}
		}
	}
	return nil
}

// CheckTransitions checks the sizes of rewards, discounts, masks and weights of a minibatch.
// weighted says that the loss has weights.
func CheckTransitions(t *experience.Transitions, rows, width int, weighted bool) error {
	if len(t.Rewards) != rows || len(t.Discounts) != rows {
		return fmt.Errorf("transitions: %d rewards and %d discounts, must be %d each", len(t.Rewards), len(t.Discounts), rows)
	}
	if n := len(t.NextMasks); n != 0 && n != rows*width {
		return fmt.Errorf("transitions.next_masks: %d bytes, must be none or %d", n, rows*width)
	}
	if n := len(t.Masks); n != 0 && n != rows*width {
		return fmt.Errorf("transitions.masks: %d bytes, must be none or %d", n, rows*width)
	}
	switch {
	case t.Weights == nil:
	case !weighted:
		return fmt.Errorf("transitions.weights: %d, must be nil where loss.importance is \"\"", len(t.Weights))
	case len(t.Weights) != rows:
		return fmt.Errorf("transitions.weights: %d, must be nil or %d", len(t.Weights), rows)
	}
	return nil
}

// CheckStepper checks the configuration of a Stepper, except its network and its loss.
func CheckStepper(c *nn.StepperConfig) error {
	if !(c.MaxGradNorm >= 0) {
		return fmt.Errorf("max_grad_norm: %v, must be at least 0", c.MaxGradNorm)
	}
	return nil
}

// CheckQStepper checks that the network, the loss and the target of a QStepper go together.
func CheckQStepper(c *nn.StepperConfig, target nn.Target) error {
	if _, err := c.Net.Layout(); err != nil {
		return err
	}
	if target == nil || c.Loss == nil {
		return errors.New("target: nil, must be an nn.Target, and loss an nn.Loss")
	}
	if err := c.Loss.Check(&c.Net); err != nil {
		return err
	}
	return target.Check(&c.Net, c.Loss)
}

// CheckObs checks the size and the alignment of observations. The error begins with name.
func CheckObs(s *nn.Spec, name string, obs []byte, rows int) error {
	if want := rows * s.Obs.Bytes(); len(obs) != want {
		return fmt.Errorf("%s: %d bytes, must be %d for %d rows of %v %v", name, len(obs), want, rows, s.Obs.DType, s.Obs.Shape)
	}
	if s.Obs.DType == env.Float32 && uintptr(unsafe.Pointer(&obs[0]))%4 != 0 {
		return fmt.Errorf("%s: address %p, must be a multiple of 4", name, &obs[0])
	}
	return nil
}
