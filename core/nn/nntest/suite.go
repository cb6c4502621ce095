package nntest

import (
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
)

// Subject is a device that Run tests.
type Subject struct {
	// Open returns a device, of n threads where the device has threads.
	Open func(n int) (nn.Device, error)
	// EachPath runs f once for each code path of the device; nil: there is one.
	EachPath func(t *testing.T, f func(t *testing.T))
	// Spoil sets a number of a Stepper's gradient to NaN.
	Spoil func(t *testing.T, s nn.Stepper)
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	on := &suite{s}
	for _, c := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"ForwardAgainstDefinition", on.testForwardAgainstDefinition},
		{"RowsAreIndependent", on.testRowsAreIndependent},
		{"NetworksShareParams", on.testNetworksShareParams},
		{"ForwardErrors", on.testForwardErrors},
		{"ImpossibleSpecs", on.testImpossibleSpecs},
		{"GradientAgainstFiniteDifferences", on.testGradientAgainstFiniteDifferences},
		{"GradientsAdd", on.testGradientsAdd},
		{"GradientIsDeterministic", on.testGradientIsDeterministic},
		{"NaNReachesTheLoss", on.testNaNReachesTheLoss},
		{"HolesHaveNoPart", on.testHolesHaveNoPart},
		{"GradientErrors", on.testGradientErrors},
		{"PPOOfTheActingPolicyIsActorCritic", on.testPPOOfTheActingPolicyIsActorCritic},
		{"MasksOfABatch", on.testMasksOfABatch},
		{"PolicyGradients", on.testPolicyGradients},
		{"PolicyBatchesRefused", on.testPolicyBatchesRefused},
		{"OneBranchIsTheHead", on.testOneBranchIsTheHead},
		{"BatchIsCompleted", on.testBatchIsCompleted},
		{"RowsAreCopies", on.testRowsAreCopies},
		{"RowsRefused", on.testRowsRefused},
		{"OutputsOfRows", func(t *testing.T) { on.eachPath(t, on.testOutputsOfRows) }},
		{"OutputsRefused", on.testOutputsRefused},
		{"RowsAllocateNothing", on.testRowsAllocateNothing},
		{"ActivityAgainstDefinition", on.testActivityAgainstDefinition},
		{"FlatOutputs", on.testFlatOutputs},
		{"ThreeStepsByHand", on.testThreeStepsByHand},
		{"RAdamRectifies", on.testRAdamRectifies},
		{"OptimizerStateIsAll", on.testOptimizerStateIsAll},
		{"OptimizerErrors", on.testOptimizerErrors},
		{"RangesOfAStep", on.testRangesOfAStep},
		{"RangesRefused", on.testRangesRefused},
		{"RangesAtTheSameTime", on.testRangesAtTheSameTime},
		{"ClipGradNorm", on.testClipGradNorm},
		{"Stepper", on.testStepper},
		{"QStepper", on.testQStepper},
		{"RowsOfAReport", on.testRowsOfAReport},
		{"ImportanceOfTransitions", on.testImportanceOfTransitions},
		{"Rescaled", on.testRescaled},
		{"DistributionsRefused", on.testDistributionsRefused},
		{"RowsOfDistributions", on.testRowsOfDistributions},
		{"QStepperOfDistributions", on.testQStepperOfDistributions},
		{"TausOfActing", on.testTausOfActing},
		{"QuantilesOfAKnownDistribution", on.testQuantilesOfAKnownDistribution},
		{"Munchausen", on.testMunchausen},
		{"Noise", on.testNoise},
		{"NoisyQStepper", on.testNoisyQStepper},
		{"NotFinite", on.testNotFinite},
		{"RowsNotFinite", on.testRowsNotFinite},
	} {
		t.Run(c.name, c.run)
	}
}

type suite struct{ Subject }

func (on *suite) eachPath(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if on.EachPath == nil {
		f(t)
		return
	}
	on.EachPath(t, f)
}

func (on *suite) device(t testing.TB, n int) nn.Device {
	t.Helper()
	d := Must(on.Open(n))(t)
	t.Cleanup(d.Close)
	return d
}

func (on *suite) learner(t testing.TB, s nn.Spec, rows int, loss nn.Loss) nn.Learner {
	t.Helper()
	return Must(on.device(t, 1).Learner(s, rows, loss))(t)
}

func (on *suite) network(t testing.TB, s nn.Spec, rows int) nn.Network {
	t.Helper()
	return Must(on.device(t, 1).Network(s, rows))(t)
}

func (on *suite) optimizer(t testing.TB, c nn.OptimizerConfig, size int) nn.Optimizer {
	t.Helper()
	return Must(on.device(t, 1).Optimizer(c, size))(t)
}
