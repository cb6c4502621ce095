// Package devices opens the devices that compute networks by their names.
package devices

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/cpu"
	"github.com/paceline-rl/paceline/core/nn/gpu"
	"github.com/paceline-rl/paceline/core/threads"
)

// Open returns the device called name: "cpu", of n threads (see cpu.New), or the GPU "cuda:0",
// "cuda:1" and so on. "cuda" is "cuda:0".
func Open(name string, n int, budget *threads.Budget) (nn.Device, error) {
	if name == "cpu" {
		return cpu.New(n, budget)
	}
	index, err := gpuIndex(name)
	if err != nil {
		return nil, err
	}
	d, err := gpu.Open(index)
	if err != nil && strings.HasPrefix(err.Error(), "cuda:") { // the error names the device
		return nil, fmt.Errorf("device: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("device: %s: %w", name, err)
	}
	return d, nil
}

// Check checks a name for Open. It opens nothing.
func Check(name string) error {
	if name == "cpu" {
		return nil
	}
	_, err := gpuIndex(name)
	return err
}

func gpuIndex(name string) (int, error) {
	if name == "cuda" {
		return 0, nil
	}
	if number, ok := strings.CutPrefix(name, "cuda:"); ok {
		if index, err := strconv.ParseUint(number, 10, 8); err == nil {
			return int(index), nil
		}
	}
	return 0, fmt.Errorf("device: %q, must be \"cpu\", \"cuda\" or \"cuda:0\", \"cuda:1\" ...", name)
}

// HasCUDA reports whether this build has CUDA in it.
const HasCUDA = gpu.Built

// GPUs describes the GPUs of this machine. The first call opens NVIDIA's driver. The error says why
// there are none.
func GPUs() ([]gpu.Info, error) { return gpu.Infos() }

// FirstGPU describes the GPU that "cuda" opens. ok says whether there is one.
func FirstGPU() (first gpu.Info, ok bool) {
	infos, err := gpu.Infos()
	if err != nil || len(infos) == 0 {
		return gpu.Info{}, false
	}
	return infos[0], true
}
