//go:build gpu && cgo && linux

package a2c

import (
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func init() { cudatest.Start() }

// What every method promises holds on a GPU, with action masks and with V-trace, too.
func TestOnGPU(t *testing.T) {
	cudatest.Need(t)
	masked := subject(nil)
	masked.Masked = true
	traintest.OnGPU(t, masked)
	t.Run("V-trace", func(t *testing.T) {
		traintest.OnGPU(t, subject(map[string]string{"vtrace": "true", "n_steps": "8", "vtrace_groups": "2", "vtrace_steps": "2"}))
	})
}

func TestLostGPU(t *testing.T) { traintest.LostGPU(t, subject(nil), "TestLostGPU") }
