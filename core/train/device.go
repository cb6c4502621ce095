package train

import (
	"fmt"
	"strings"

	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/nn/devices"
	"github.com/paceline-rl/paceline/core/nn/gpu"
)

// deviceAuto selects a GPU for convolutions if one is usable, else the CPU.
const deviceAuto = "auto"

// checkDevice checks the setting device, as far as that is possible before environments are made.
func checkDevice(c *Common) error {
	if c.Device != deviceAuto {
		if err := devices.Check(c.Device); err != nil {
			return fmt.Errorf("device: %q, must be \"auto\", \"cpu\", \"cuda\" or \"cuda:1\" ...", c.Device)
		}
	}
	if c.Device == "cpu" && c.Precision == string(nn.TF32) {
		return errTF32
	}
	return nil
}

var errTF32 = fmt.Errorf("precision: tf32, must be fp32 or bf16 on the CPU")

// openDevice makes the device that computes the networks. The setting policy is resolved.
func (t *Trainer) openDevice() (err error) {
	c, name := t.common, t.common.Device
	if name == deviceAuto {
		name = t.choose(devices.FirstGPU)
	}
	if name != "cpu" && t.def.OnlyCPU {
		return fmt.Errorf("device: %s, must be auto or cpu for %s", name, t.def.Name)
	}
	if name != "cpu" && t.external != nil {
		return fmt.Errorf("device: %s, must be auto or cpu where updates is outside", name)
	}
	if given, must := t.onlyCPU(); name != "cpu" && given != "" {
		return fmt.Errorf("%s, must be %s on %s; the device cpu computes it", given, must, name)
	}
	n := t.cores.Cores()
	if name != "cpu" {
		if t.device, err = devices.Open(name, n, t.cores); err != nil && c.Device != deviceAuto {
			return err
		}
		if err != nil {
			t.monitor.Notify("device: auto, and the CPU computes, since the GPU does not: %v", err)
			name = "cpu"
		}
	}
	if name == "cpu" {
		if c.Precision == string(nn.TF32) {
			return errTF32
		}
		if t.device, err = devices.Open(name, n, t.cores); err != nil {
			return err
		}
	}
	t.monitor.use.device = t.device
	c.Device, _, _ = strings.Cut(t.device.Name(), " ")
	return nil
}

// HasCUDA reports whether this build has CUDA in it.
const HasCUDA = devices.HasCUDA

// GPUs describes the GPUs of this machine. The first call opens NVIDIA's driver. The error says why
// there are none.
func GPUs() ([]gpu.Info, error) { return devices.GPUs() }

// onlyCPU asks the settings of the method, as CPUSettings.
func (t *Trainer) onlyCPU() (given, must string) {
	if s, ok := t.cfg.settings().(CPUSettings); ok {
		return s.OnlyCPU(t.common.Policy)
	}
	return "", ""
}

// choose returns the device that "auto" stands for. firstGPU is devices.FirstGPU.
func (t *Trainer) choose(firstGPU func() (gpu.Info, bool)) string {
	c := t.common
	if c.ISA == "portable" || t.def.OnlyCPU || t.external != nil {
		return "cpu"
	}
	first, ok := firstGPU()
	given, _ := t.onlyCPU()
	// The CPU does not compute tf32 either, and the error of an old GPU says more.
	if p := nn.Precision(c.Precision); given == "" && p != nn.TF32 && !first.Computes(p) {
		given = "precision: " + c.Precision
	}
	switch {
	case !ok:
		return "cpu"
	case given != "":
		t.monitor.Notify("device: auto, and the CPU computes, because %s does not compute %s", first, given)
		return "cpu"
	case c.Policy != PolicyCNN:
		t.monitor.Notify("device: auto, and the CPU computes, which is faster for networks without convolutions; device: cuda takes %s", first)
		return "cpu"
	}
	t.monitor.Notify("device: auto, and %s computes; device: cpu has results of its own for the same seed", first)
	return "cuda"
}
