package cuda

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The software device passes its self-test, and exports exactly the driver functions that core/cuda
// may call.
func TestSoftwareDevice(t *testing.T) {
	notEmulated(t)
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("left out: no C++ compiler")
	}
	folder, err := software()
	if err != nil {
		t.Fatal(err)
	}
	self := exec.Command(filepath.Join(folder, "selftest"))
	self.Env = append(self.Environ(), "ASAN_OPTIONS=detect_leaks=0", "PACELINE_SOFTWARE_THREADS=0")
	if out, err := self.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(folder, "libcuda.so.1")).Output()
	if err != nil {
		t.Skipf("left out: %v", err)
	}
	var exported []string
	for line := range strings.Lines(string(out)) {
		if name := strings.Fields(line)[2]; strings.HasPrefix(name, "cu") {
			exported = append(exported, name)
		}
	}
	want := strings.Fields(`cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetUuid cuDeviceTotalMem_v2
		cuDeviceGetAttribute cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetCurrent
		cuCtxSetCurrent cuCtxSynchronize cuCtxGetStreamPriorityRange cuModuleLoadData cuModuleLoadDataEx cuModuleUnload cuModuleGetFunction
		cuFuncSetAttribute cuFuncGetAttribute cuMemAlloc_v2 cuMemFree_v2 cuMemGetInfo_v2 cuMemHostAlloc cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister cuMemcpyHtoDAsync_v2
		cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemsetD8Async cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamSynchronize
		cuStreamQuery cuStreamWaitEvent cuEventCreate cuEventRecord cuEventQuery cuEventSynchronize cuEventElapsedTime cuEventDestroy_v2
		cuLaunchKernel cuStreamBeginCapture_v2 cuStreamEndCapture cuStreamIsCapturing cuThreadExchangeStreamCaptureMode cuGraphInstantiateWithFlags cuGraphGetNodes
		cuGraphLaunch cuGraphDestroy cuGraphExecDestroy cuGetErrorName cuGetErrorString`)
	slices.Sort(want)
	slices.Sort(exported)
	if !slices.Equal(exported, want) {
		t.Errorf("exported: %v\nmust be %v", exported, want)
	}
}
