//go:build gpu && cgo && linux

package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/cuda/cudatest"
)

// oldFunctions has the functions of CUDA 12.0 that core/cuda may call.
const oldFunctions = `
	cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetUuid cuDeviceTotalMem_v2 cuDeviceGetAttribute
	cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetCurrent cuCtxSetCurrent
	cuCtxSynchronize cuCtxGetStreamPriorityRange cuModuleLoadData cuModuleLoadDataEx cuModuleUnload cuModuleGetFunction
	cuFuncSetAttribute cuFuncGetAttribute cuMemAlloc_v2 cuMemFree_v2 cuMemGetInfo_v2 cuMemHostAlloc cuMemFreeHost cuMemHostRegister_v2 cuMemHostUnregister
	cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemsetD8Async cuStreamCreateWithPriority cuStreamDestroy_v2
	cuStreamSynchronize cuStreamQuery cuStreamWaitEvent cuEventCreate cuEventRecord cuEventQuery cuEventSynchronize
	cuEventElapsedTime cuEventDestroy_v2 cuLaunchKernel cuStreamBeginCapture_v2 cuStreamEndCapture cuStreamIsCapturing
	cuThreadExchangeStreamCaptureMode cuGraphInstantiateWithFlags cuGraphGetNodes cuGraphLaunch cuGraphDestroy cuGraphExecDestroy cuGetErrorName cuGetErrorString`

// The functions marked NEEDED are exactly the functions that are called, and all of them are in
// CUDA 12.0.
func TestOldDriversSuffice(t *testing.T) {
	needSoftwareDevice(t)
	needed, _ := symbols(t)
	old := strings.Fields(oldFunctions)
	for _, name := range needed {
		if !slices.Contains(old, name) {
			t.Errorf("%s: newer than CUDA 12.0", name)
		}
	}
	exported, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(os.Getenv("PACELINE_SOFTWARE"), "libcuda.so.1")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(exported)) {
		if strings.HasPrefix(field, "cu") && !slices.Contains(old, field) {
			t.Errorf("the software device has %s, which old drivers lack", field)
		}
	}
	log := filepath.Join(t.TempDir(), "log")
	if got := runScenario(t, "everything", "PACELINE_SOFTWARE_LOG="+log); got != "no error" {
		t.Error(got)
	}
	if got := runScenario(t, "no such kernel", "PACELINE_SOFTWARE_LOG="+log); !strings.Contains(got, "CUDA_ERROR_NOT_FOUND") {
		t.Error(got)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range strings.Lines(string(text)) {
		calls[strings.Fields(line)[0]]++
	}
	calls["cuGetErrorName"]++ // the log leaves these two out
	calls["cuGetErrorString"]++
	for _, name := range needed {
		if calls[name] == 0 {
			t.Errorf("%s is NEEDED in symbols.h, but never called", name)
		}
	}
	for name := range calls {
		if !slices.Contains(needed, name) {
			t.Errorf("%s is called, but not NEEDED in symbols.h", name)
		}
	}
	// Calls restore the thread's context, because the host may use CUDA itself.
	if push, pop := calls["cuCtxPushCurrent_v2"], calls["cuCtxPopCurrent_v2"]; push == 0 || push != pop {
		t.Errorf("the context was entered %d times and left %d times", push, pop)
	}
}

// The process retains a GPU's context until it ends, because making one takes long.
func TestContextIsRetained(t *testing.T) {
	needSoftwareDevice(t)
	log := filepath.Join(t.TempDir(), "log")
	if got := runScenario(t, "opened twice", "PACELINE_SOFTWARE_LOG="+log); got != "no error" {
		t.Error(got)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	retained := 0
	for line := range strings.Lines(string(text)) {
		switch strings.TrimSpace(line) {
		case "cuDevicePrimaryCtxRetain":
			retained++
		case "cuDevicePrimaryCtxRelease_v2":
			if retained--; retained == 0 {
				t.Error("the process released its context")
			}
		}
	}
	if retained != 1 {
		t.Errorf("the context is retained %d times after all Devices are closed, must be 1", retained)
	}
}

// symbols.h is what the generator writes for this version of cu.
func TestSymbolsMatchCu(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short")
	}
	have, err := os.ReadFile("symbols.h")
	if err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "symbols.h")
	generate := exec.Command("go", "run", "./internal/symbols", written)
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want, err := os.ReadFile(written); err != nil || string(want) != string(have) {
		t.Errorf("symbols.h does not match this version of cu: run core/cuda/go.sh generate ./core/cuda (%v)", err)
	}
}

// Before the first use of a device, cu's functions return without calling the driver: cu calls
// cuInit at program start, and ends the process if cuInit fails.
func TestDriverIsLoadedOnFirstUse(t *testing.T) {
	needSoftwareDevice(t)
	log := filepath.Join(t.TempDir(), "log")
	if got := runScenario(t, "closed driver", "PACELINE_SOFTWARE_LOG="+log); got != "version -1, devices: NotInitialized" {
		t.Error(got)
	}
	if _, err := os.Stat(log); err == nil {
		t.Error("the driver was called")
	}
}

// In a child of fork() no call reaches the driver.
func TestFork(t *testing.T) {
	needSoftwareDevice(t)
	folder := t.TempDir()
	program := filepath.Join(folder, "fork")
	var flags []string
	for _, flag := range strings.Fields(os.Getenv("CGO_CFLAGS")) {
		flags = append(flags, strings.Trim(flag, "'"))
	}
	compile := compiler(append(flags, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I.", "testdata/fork.c", "driver.c", "trampolines.S",
		"-o", program, "-ldl", "-pthread")...)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := cudatest.Command(program)
	run.Env = append(os.Environ(), "PACELINE_SOFTWARE_LOG="+filepath.Join(folder, "log"))
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if log, err := os.ReadFile(filepath.Join(folder, "log")); err != nil || string(log) != "cuInit\ncuDeviceGetCount\ncuDeviceGetCount\n" {
		t.Errorf("the driver was called: %s (%v)", log, err)
	}
}
