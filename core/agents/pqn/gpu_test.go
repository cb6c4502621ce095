//go:build gpu && cgo && linux

package pqn

import (
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
	"github.com/paceline-rl/paceline/core/train/traintest"
)

func init() { cudatest.Start() }

// The suite passes on a GPU.
func TestSuiteOnGPU(t *testing.T) {
	cudatest.Need(t)
	traintest.OnGPU(t, subject(nil))
}

func TestLostGPU(t *testing.T) { traintest.LostGPU(t, subject(nil), "TestLostGPU") }
