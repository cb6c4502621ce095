package cpu

import (
	"math"
	"testing"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/nntest"
)

func mustCPU(t testing.TB, n int) nn.Device {
	t.Helper()
	d := nntest.Must(New(n, nil))(t)
	t.Cleanup(d.Close)
	return d
}

func mustLearner(t testing.TB, s nn.Spec, rows int, loss nn.Loss) nn.Learner {
	t.Helper()
	return nntest.Must(mustCPU(t, 1).Learner(s, rows, loss))(t)
}

func mustNetwork(t testing.TB, s nn.Spec, rows int) nn.Network {
	t.Helper()
	return nntest.Must(mustCPU(t, 1).Network(s, rows))(t)
}

func mustOptimizer(t testing.TB, c nn.OptimizerConfig, size int) nn.Optimizer {
	t.Helper()
	return nntest.Must(mustCPU(t, 1).Optimizer(c, size))(t)
}

func subject() nntest.Subject {
	return nntest.Subject{
		Open:     func(n int) (nn.Device, error) { return New(n, nil) },
		EachPath: nntest.OnEveryISA,
		Spoil:    func(_ *testing.T, s nn.Stepper) { s.(*stepper).grad[0] = float32(math.NaN()) },
	}
}

func TestDevice(t *testing.T) { nntest.Run(t, subject()) }

func TestAgainstTorch(t *testing.T) { nntest.AgainstTorch(t, subject(), "../testdata/reference.json") }
