package nntest

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/fault"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// WithPolicy returns s, which ActorCritic has made, with the heads of other actions: of branches,
// of Gaussians, or of both.
func WithPolicy(s nn.Spec, branches []int32, gaussians int) nn.Spec {
	v := s.Heads[len(s.Heads)-1]
	s.Heads = nil
	if len(branches) > 0 {
		out := 0
		for _, choices := range branches {
			out += int(choices)
		}
		s.Heads = append(s.Heads, nn.Head{Name: "pi", Out: out, Gain: 0.01, Branches: branches})
	}
	if gaussians > 0 {
		s.Heads = append(s.Heads, nn.Head{Name: "mu", Out: gaussians, Gain: 0.01})
	}
	s.Heads = append(s.Heads, v)
	return s
}

// Policies returns networks for actions of branches, of Gaussians, and of both, on one trunk and on
// two.
func Policies() []nn.Spec {
	box := WithPolicy(TwoMLPs(), nil, 3)
	box.LogStdInit = -0.5
	return []nn.Spec{
		WithPolicy(TwoMLPs(), []int32{3, 1, 4}, 0), box, WithPolicy(TwoMLPs(), []int32{2, 5}, 2),
		WithPolicy(ActorCritic(env.ObsSpec{DType: env.Float32, Shape: []int{5}}, 0, nn.Trunk{Arch: "mlp", Hidden: []int{8}}), []int32{4}, 1),
	}
}

// maskedBatch returns a batch for a policy with branches, with masks that allow the actions.
func maskedBatch(s nn.Spec, loss nn.Loss, r *rng.Stream, rows int) nn.Batch {
	b := RandomBatch(s, loss, r, rows)
	branches, _ := s.Policy()
	for i := range rows {
		for k, choices := range branches {
			for a := range choices {
				allows := byte(r.Intn(2))
				if a == b.Actions[i*len(branches)+k] {
					allows = 1
				}
				b.Masks = append(b.Masks, allows)
			}
		}
	}
	return b
}

// testPolicyGradients compares the gradients of masked batches with finite differences.
func (on *suite) testPolicyGradients(t *testing.T) {
	const rows = 9
	for _, s := range append(Policies(), TwoMLPs()) {
		if s.Head("pi") < 0 {
			continue
		}
		losses := []nn.Loss{nn.ActorCritic{EntropyCoef: 0.1, ValueCoef: 0.25}, nn.PPO{EntropyCoef: 0.1, ValueCoef: 0.25}}
		for _, form := range []string{nn.RegulariserPlus, nn.RegulariserMax} {
			losses = append(losses, nn.ActorCritic{EntropyCoef: 0.1, ValueCoef: 0.25, Regulariser: form, LogEps: 0.3})
		}
		for _, loss := range losses {
			r := rng.New(8, "test", 0)
			p, b := Init(t, s, 1), maskedBatch(s, loss, r, rows)
			if _, ok := loss.(nn.PPO); ok {
				acted(s, p, &b, r)
			}
			want := slopes(s, loss, p, &b, r)
			on.eachPath(t, func(t *testing.T) {
				grad := make([]float32, len(p.Host()))
				Check(t, on.learner(t, s, rows, loss).Gradient(p, b, grad, &nn.Report{}))
				for _, w := range want {
					if math.Abs(float64(grad[w.index])-w.value) > 1e-4*(1+math.Abs(w.value)) {
						t.Errorf("%s, %v: gradient of %s[%d] is %v, finite difference %v", Name(s), loss, w.part.Name, w.index-w.part.Offset, grad[w.index], w.value)
					}
				}
			})
		}
	}
}

// testPolicyBatchesRefused tests the errors of actions, their masks and their numbers.
func (on *suite) testPolicyBatchesRefused(t *testing.T) {
	const rows = 3
	s := WithPolicy(TwoMLPs(), []int32{2, 3}, 2)
	loss := LossOf(s)
	l, p := on.learner(t, s, rows, loss), Init(t, s, 1)
	grad := make([]float32, len(p.Host()))
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	for want, edit := range map[string]func(b *nn.Batch){
		"":                                       func(*nn.Batch) {},
		"batch.actions: 3, must be 6":            func(b *nn.Batch) { b.Actions = b.Actions[:3] },
		"batch.continuous: 0 numbers, must be 6": func(b *nn.Batch) { b.Continuous = nil },
		"batch.actions[1][branch 0]: 2, must be 0 to 1":                              func(b *nn.Batch) { b.Actions[2] = 2 },
		"batch.actions[2][branch 1]: -1, must be 0 to 2":                             func(b *nn.Batch) { b.Actions[5] = -1 },
		"batch.masks: 5 bytes, must be 15":                                           func(b *nn.Batch) { b.Masks = b.Masks[:5] },
		"batch.masks[2][branch 1]: forbids action 0, which was taken, must allow it": func(b *nn.Batch) { b.Actions[5], b.Masks[12] = 0, 0 },
		"batch.continuous[1][0]: NaN, must be finite":                                func(b *nn.Batch) { b.Continuous[2] = nan },
		"batch.continuous[2][1]: -Inf, must be finite":                               func(b *nn.Batch) { b.Continuous[5] = inf },
	} {
		b := maskedBatch(s, loss, rng.New(1, "test", 0), rows)
		b.Columns[2] = []float32{1, 1, 1}
		edit(&b)
		if err := l.Gradient(p, b, grad, &nn.Report{}); err == nil && want != "" || err != nil && !strings.HasSuffix(err.Error(), want) || err != nil && want == "" {
			t.Errorf("error %v, want %q", err, want)
		} else if errors.Is(err, fault.ErrNotFinite) != strings.HasSuffix(want, "must be finite") {
			t.Errorf("error %v: is it fault.ErrNotFinite?", err)
		}
		b.Columns[2] = make([]float32, rows) // holes may have any numbers and masks
		if strings.Contains(want, "continuous[") || strings.Contains(want, "masks[") {
			Check(t, l.Gradient(p, b, grad, &nn.Report{}))
		}
	}
	box := WithPolicy(TwoMLPs(), nil, 2)
	b := RandomBatch(box, loss, rng.New(1, "test", 0), rows)
	b.Masks = []byte{}
	p = Init(t, box, 1)
	if err := on.learner(t, box, rows, loss).Gradient(p, b, make([]float32, len(p.Host())), &nn.Report{}); err == nil || !strings.Contains(err.Error(), `must be nil for a loss without a head "pi"`) {
		t.Errorf("error %v", err)
	}
}

// testOneBranchIsTheHead compares a head of one branch with a head without branches: the bits are
// the same.
func (on *suite) testOneBranchIsTheHead(t *testing.T) {
	const rows = 7
	plain := TwoMLPs()
	branched := WithPolicy(plain, []int32{3}, 0)
	loss := LossOf(plain)
	p, b := Init(t, plain, 1), maskedBatch(plain, loss, rng.New(2, "test", 0), rows)
	var grads [2][]float32
	var reports [2]nn.Report
	for i, s := range []nn.Spec{plain, branched} {
		grads[i] = make([]float32, len(p.Host()))
		Check(t, on.learner(t, s, rows, loss).Gradient(p, b, grads[i], &reports[i]))
	}
	if !slices.Equal(grads[0], grads[1]) || reports[0].Loss != reports[1].Loss {
		t.Errorf("loss %v without branches, %v with one", reports[0].Loss, reports[1].Loss)
	}
}
