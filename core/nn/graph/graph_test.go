package graph

import (
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
)

// Every step of a learner is an op of this package, which a device implements.
func TestEveryOpIsOfThisPackage(t *testing.T) {
	for _, s := range slices.Concat(nntest.Norms(nntest.TwoMLPs(), nntest.OneCNN()), nntest.Policies(), nntest.Distributions(), nntest.Duels(), rescaled(nntest.Duels()), []nn.Spec{nntest.SmallMLP(), nntest.SmallNature(), nntest.TwoMLPs(), nntest.OneCNN()}) {
		l := nntest.Must(NewLearner(s, 3, nntest.LossOf(s)))(t)
		sums := 0
		for _, step := range l.Order.Steps {
			switch step.Op.(type) {
			case *SumOp:
				sums++
			case *LayerOp, *WeightGradOp, *NormOp, *NormGradOp, *OutputOf, *ConvertOp, *TDOp, *ActorCriticOp, *LossGradient,
				*DistributionOp, *MeansOp, *DuelOp, *DuelGradOp, *SameOp, *RescaledOp, *CosinesOp, *ModulateOp, *ModulateGradOp:
			default:
				t.Errorf("%s: %v is not an op of this package", nntest.Name(s), step.Op)
			}
		}
		shared := len(s.Trunks) < len(s.Heads) || s.Heads[0].Dueling && !strings.Contains(l.Layers[0].Name, ".value.")
		if (sums > 0) != shared {
			t.Errorf("%s: %d sums of gradients of %d heads on %d trunks", nntest.Name(s), sums, len(s.Heads), len(s.Trunks))
		}
	}
}

func rescaled(duels []nn.Spec) []nn.Spec {
	for i := range duels {
		duels[i].Heads[0].Rescaled = true
	}
	return duels
}

// Forward contains only the layers.
func TestForwardHasOnlyLayers(t *testing.T) {
	s := nntest.OneCNN()
	l := nntest.Must(NewLearner(s, 3, nntest.LossOf(s)))(t)
	layers := 0
	for _, step := range l.Forward.Steps {
		if _, ok := step.Op.(*LayerOp); ok {
			layers++
		}
	}
	if n := len(l.Layers); layers != n || len(l.Forward.Steps) != n {
		t.Errorf("%d steps, of which %d are layers, must be the %d layers", len(l.Forward.Steps), layers, n)
	}
}

// An unknown loss is refused.
func TestAnUnknownLossIsRefused(t *testing.T) {
	if _, err := NewLearner(nntest.SmallMLP(), 1, other{}); err == nil || !strings.Contains(err.Error(), "must be nn.TD, nn.CrossEntropy, nn.QuantileHuber, nn.ImplicitHuber, nn.ActorCritic or nn.PPO") {
		t.Error(err)
	}
}

type other struct{ nn.TD }

func (other) Check(*nn.Spec) error { return nil }

// Constant detects outputs that are equal in all rows.
func TestConstantDetectsEqualRows(t *testing.T) {
	row := []float32{1, -2, 3}
	same := slices.Repeat(row, 4)
	if !Constant(same, 3) {
		t.Error("equal rows are not constant")
	}
	if same[7] += 1e-4; Constant(same, 3) {
		t.Error("a row that differs is constant")
	}
}
