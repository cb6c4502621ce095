//go:build gpu && cgo && linux

package nn

import (
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
)

func init() {
	mode := cudatest.Start()
	onOthers = func(t *testing.T, f func(t *testing.T)) {
		t.Run("cuda", func(t *testing.T) {
			if why, missing := strings.CutPrefix(mode, "missing: "); missing {
				t.Skip("left out: " + why)
			}
			tested = "cuda"
			defer func() { tested = "cpu" }()
			f(t)
		})
	}
}
