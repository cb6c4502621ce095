package nntest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/kernel"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// movedBatch is a batch of actor-critic, and the same batch with PPO's columns: log probabilities
// and values are those of the network at p, and no ratio or value is clipped.
func (on *suite) movedBatch(t *testing.T, s nn.Spec, p *nn.Params, rows int) (b, clipped nn.Batch) {
	t.Helper()
	b = RandomBatch(s, nn.ActorCritic{}, rng.New(6, "test", 0), rows)
	out, err := on.network(t, s, rows).Forward(p, b.Obs, rows)
	if err != nil {
		t.Fatal(err)
	}
	columns := slices.Clone(b.Columns)
	for range 4 {
		columns = append(columns, make([]float32, rows))
	}
	logProbs(s, p, out, &b, columns[3])
	for i := range rows {
		columns[4][i], columns[5][i], columns[6][i] = .2, out.Row(s.Head("v"), i)[0], .2
	}
	clipped = b
	clipped.Columns = columns
	return b, clipped
}

// logProbs overwrites to with the log-probabilities of the actions of a batch, bit-identical to
// those of the losses.
func logProbs(s nn.Spec, p *nn.Params, out nn.Outputs, b *nn.Batch, to []float32) {
	branches, gaussians := s.Policy()
	clear(to)
	for i := range to {
		at := 0
		for k, choices := range branches {
			logs := make([]float32, choices)
			kernel.LogSoftmax(logs, out.Row(s.Head("pi"), i)[at:at+int(choices)], int(choices))
			to[i] += logs[b.Actions[i*len(branches)+k]]
			at += int(choices)
		}
	}
	if gaussians > 0 {
		kernel.GaussianLogProbs(to, out.Values[s.Head("mu")], Named(p, "log_std"), b.Continuous)
	}
}

// acted sets the recorded log probabilities and values of a PPO batch near those of the network at
// p, so that half of the ratios and of the values are within their ranges.
func acted(s nn.Spec, p *nn.Params, b *nn.Batch, r *rng.Stream) {
	rows := len(b.Columns[0])
	outputs := naiveOutputs(s, p, b.Obs, rows)
	for i := range rows {
		logProb, _ := naivePolicy(s, nn.ActorCritic{}, p, outputs, b, i)
		b.Columns[3][i] = float32(logProb + r.Uniform(-0.4, 0.4))
		b.Columns[5][i] = float32(outputs[s.Head("v")][i] + r.Uniform(-0.6, 0.6))
		b.Columns[4][i], b.Columns[6][i] = 0.2, 0.3
	}
}

// testPPOOfTheActingPolicyIsActorCritic compares PPO's gradient with that of actor-critic. They are
// equal while the policy is the one that acted.
func (on *suite) testPPOOfTheActingPolicyIsActorCritic(t *testing.T) {
	const rows = 12
	for _, s := range append(Policies(), TwoMLPs()) {
		p := Init(t, s, 1)
		plain, clipped := on.movedBatch(t, s, p, rows)
		run := func(loss nn.Loss, b nn.Batch) (grad []float32, r nn.Report) {
			grad = make([]float32, len(p.Host()))
			if err := on.learner(t, s, rows, loss).Gradient(p, b, grad, &r); err != nil {
				t.Fatal(err)
			}
			return grad, r
		}
		want, wantReport := run(nn.ActorCritic{EntropyCoef: 0.01, ValueCoef: 0.5}, plain)
		for _, largest := range []bool{false, true} {
			got, r := run(nn.PPO{EntropyCoef: 0.01, ValueCoef: 0.5, Largest: largest}, clipped)
			if !slices.Equal(got, want) {
				t.Errorf("%s: the gradients differ", Name(s))
			}
			if len(r.Parts) != len((nn.PPO{}).Parts()) || !slices.Equal(r.Parts[1:3], wantReport.Parts[1:3]) || r.Parts[3] != 0 || r.Parts[4] != 0 {
				t.Errorf("%s: parts %v, of actor-critic %v", Name(s), r.Parts, wantReport.Parts)
			}
		}
		// If every ratio and value is clipped, the gradients of policy and value are 0.
		for i, a := range plain.Columns[0] {
			clipped.Columns[3][i] -= float32(math.Copysign(1, float64(a)))
			clipped.Columns[5][i] += 1
		}
		if got, r := run(nn.PPO{EntropyCoef: 0, ValueCoef: 0.5, Largest: false}, clipped); slices.ContainsFunc(got, func(g float32) bool { return g != 0 }) || r.Parts[4] != 1 {
			t.Errorf("%s: out of all ranges: gradient %v, share %v", Name(s), got, r.Parts[4])
		}
	}
}

// testMasksOfABatch tests masks. Masks that allow all actions change no bit. A mask that forbids
// the action taken and masks of another size are refused.
func (on *suite) testMasksOfABatch(t *testing.T) {
	const rows = 12
	s := TwoMLPs()
	width := s.Heads[0].Out
	p := Init(t, s, 1)
	b, _ := on.movedBatch(t, s, p, rows)
	l := on.learner(t, s, rows, nn.ActorCritic{EntropyCoef: 0.01, ValueCoef: 0.5})
	gradient := func() []float32 {
		grad := make([]float32, len(p.Host()))
		if err := l.Gradient(p, b, grad, &nn.Report{}); err != nil {
			t.Fatal(err)
		}
		return grad
	}
	free := gradient()
	b.Masks = slices.Repeat([]byte{1}, rows*width)
	if !slices.Equal(gradient(), free) {
		t.Error("masks of ones change the gradient")
	}
	row := slices.Index(b.Columns[2], 1)
	b.Masks[row*width+(int(b.Actions[row])+1)%width] = 0
	if slices.Equal(gradient(), free) {
		t.Error("a forbidden action changes nothing")
	}
	b.Masks[row*width+int(b.Actions[row])] = 0
	for _, c := range []struct {
		want  string
		masks []byte
	}{{"which was taken, must allow it", b.Masks}, {"batch.masks: 3 bytes, must be", b.Masks[:3]}} {
		b.Masks = c.masks
		if err := l.Gradient(p, b, make([]float32, len(p.Host())), &nn.Report{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	q := SmallMLP()
	other := RandomBatch(q, nn.TD{Kind: "huber", Reduction: "mean"}, rng.New(1, "test", 0), 2)
	other.Masks = make([]byte, 6)
	qp := Init(t, q, 1)
	if err := on.learner(t, q, 2, nn.TD{Kind: "huber", Reduction: "mean"}).Gradient(qp, other, make([]float32, len(qp.Host())), &nn.Report{}); err == nil || !strings.Contains(err.Error(), `without a head "pi"`) {
		t.Errorf("error %v", err)
	}
}
