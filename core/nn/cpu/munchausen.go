package cpu

import (
	"math"

	"github.com/paceline-rl/paceline/core/experience"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/portable"
)

// soft is softmax(q/tau) over the allowed actions of a row. The largest value is subtracted before
// the division, so no exponential overflows.
type soft struct {
	tau     float64
	largest float64   // of the allowed values
	logSum  float64   // tau times the logarithm of the sum of exp((q - largest)/tau)
	pi      []float64 // of each action; 0 if it is not allowed
}

// set computes the distribution of a row's values. Values that are not finite give NaN.
func (p *soft) set(q []float32, mask []byte) {
	p.largest = math.Inf(-1)
	for a, v := range q {
		if mask == nil || mask[a] != 0 {
			p.largest = max(p.largest, float64(v)) // NaN if one of them is
		}
	}
	clear(p.pi)
	if math.IsNaN(p.largest) || math.IsInf(p.largest, 0) {
		p.largest, p.logSum = math.NaN(), math.NaN()
		return
	}
	sum := 0.0
	for a, v := range q {
		if mask != nil && mask[a] == 0 {
			continue
		}
		if x := (float64(v) - p.largest) / p.tau; x > -700 {
			p.pi[a] = portable.Exp(x)
			sum += p.pi[a]
		}
	}
	for a := range p.pi {
		p.pi[a] /= sum
	}
	p.logSum = float64(p.tau * portable.Log(sum))
}

// scaledLog returns tau log pi of an action with value q.
func (p *soft) scaledLog(q float32) float64 { return float64(q) - p.largest - p.logSum }

// munchausen computes the columns of the loss for nn.Munchausen, the target in float64. next are
// the target network's outputs at the next observations.
func (s *qStepper) munchausen(m nn.Munchausen, target *nn.Params, next nn.Outputs, t *experience.Transitions) error {
	rows, h := len(s.best), &s.head
	if s.drawn != nil {
		s.drawLearned(t.Key)
		s.online.taus.draw(nn.PolicyTaus, t.Key, 0, m.Choosing)
	}
	here, err := s.online.forward(target, t.Obs, rows)
	if err != nil {
		return err
	}
	targets, p := s.batch.Columns[0], &s.soft
	points, width := len(targets)/rows, len(s.target.points[0])/rows // numbers of a target; outputs of a row
	for i := range rows {
		p.set(here.Row(0, i), maskOf(t.Masks, i, rows))
		bonus := p.scaledLog(here.Row(0, i)[t.Actions[i]])
		fixed := float64(t.Rewards[i]) + float64(m.Alpha*min(max(bonus, m.Least), 0))
		q, d := next.Row(0, i), float64(t.Discounts[i])
		p.set(q, maskOf(t.NextMasks, i, rows))
		if h.Quantiles == 0 && s.drawn == nil {
			// q - tau log pi is the same number for every action.
			targets[i] = float32(fixed + float64(d*(p.largest+p.logSum)))
			continue
		}
		entropy := 0.0 // times tau
		for a, pi := range p.pi {
			entropy -= float64(pi * p.scaledLog(q[a]))
		}
		x := s.target.points[0][i*width:]
		for k := range points {
			mean := entropy
			for a, pi := range p.pi {
				mean += float64(pi * float64(x[k*h.Out+a]))
			}
			targets[i*points+k] = float32(fixed + float64(d*mean))
		}
	}
	return nil
}

// maskOf returns row i of masks; nil: the transitions have none.
func maskOf(masks []byte, i, rows int) []byte {
	width := len(masks) / rows
	if width == 0 {
		return nil
	}
	return masks[i*width : (i+1)*width]
}
