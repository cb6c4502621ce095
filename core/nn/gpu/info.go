package gpu

import (
	"fmt"

	"github.com/paceline-rl/paceline/core/cuda"
	"github.com/paceline-rl/paceline/core/nn"
)

// Built reports whether this build has CUDA in it.
const Built = cuda.Built

// Info describes a GPU.
type Info struct {
	Device     string // "cuda:0", by the index that Open takes
	Name, UUID string
	Capability string // compute capability: "9.0"
	Major      int    // the first number of Capability
	Memory     int64  // bytes
	CUDA       string // the newest CUDA of the driver: "12.9"
}

// String returns the name that a device of this GPU has.
func (i Info) String() string { return i.Device + " (" + i.Name + ")" }

// Computes reports whether a device of this GPU computes with precision p.
func (i Info) Computes(p nn.Precision) bool { return p == nn.FP32 || i.Major >= 8 }

// Infos describes the GPUs of this machine. The first call opens NVIDIA's driver. The error says
// why there are none.
func Infos() ([]Info, error) {
	all, err := cuda.Devices()
	var list []Info
	for _, i := range all {
		list = append(list, infoOf(i))
	}
	return list, err
}

func infoOf(i cuda.Info) Info {
	return Info{
		Device: fmt.Sprintf("cuda:%d", i.Index), Name: i.Name, UUID: i.UUID,
		Capability: fmt.Sprintf("%d.%d", i.Major, i.Minor), Major: i.Major, Memory: i.Bytes,
		CUDA: fmt.Sprintf("%d.%d", i.Driver/1000, i.Driver%1000/10),
	}
}
