// Package cuda is the driver's side of the GPU: devices, memory, streams, events and
// graphs of CUDA, for core/nn's device to enqueue its kernels with. It knows no network.
//
// It is whole with the build tag gpu, cgo and Linux, and otherwise (cuda_off.go) refuses
// every call with ErrNotBuilt. core/cuda/go.sh runs go with the tag and makes what that
// needs: NVIDIA's headers and kernels.zip, the machine code of core/cuda/kernels.
//
// What holds here:
//
//   - A build with the tag is the library for everybody. It needs no libcuda.so.1: every
//     function of the driver is a hidden jump through a slot (trampolines.S over symbols.h),
//     and the slots answer CUDA_ERROR_NOT_INITIALIZED until Devices or Open is called first,
//     which opens the driver (driver.c). gorgonia.org/cu, which calls cuInit when it is
//     loaded and ends the process where that fails, sees a success there.
//   - A driver of CUDA 12.0, version 525, has all that is called: symbols.h says NEEDED.
//   - The primary context, which another library in the process, such as PyTorch, shares, is held from the
//     first Open until the process ends: making it takes some tenths of a second.
//   - The environment variable PACELINE_CUDA_EAGER=1 makes Launch wait for the kernel, and users of graphs launch what
//     they would capture (Device.Eager): so an error of a kernel names it.
//   - Every call is made with the thread's capture mode relaxed, and captures are relaxed: a library that captures
//     a graph in the mode "global" at the same time, as PyTorch does, neither refuses our calls nor is ended by them.
//   - The driver runs streams concurrently over 8 connections (its environment variable CUDA_DEVICE_MAX_CONNECTIONS);
//     streams beyond that share one and may wait for each other. A DQN makes 6: one for acting, two for updates, and one
//     each for parameters, for new memory and for the copies that outlive the GPU.
//   - cu is used for devices, modules, and for making streams and events. What it lacks and what
//     is called often is in calls.c, where each function enters and leaves the context by
//     itself: a goroutine may be on any thread, and a thread may be the host's.
//   - Any goroutine may call anything at any time. Closing waits for the calls in progress
//     on what it closes (gate.go); later ones get fault.ErrClosed. Closing twice is fine. A
//     Device is closed last: what was not closed before it, is never freed.
//   - Launch, Replay, Record, Wait, Upload, Download, Copy and Zero do not allocate.
//   - In a child of fork() the slots answer CUDA_ERROR_NOT_INITIALIZED again.
//   - Errors are sentences that name the device. A *fault.Memory is one where memory was
//     short. After an error that wraps ErrLost the device's memory is gone for this process:
//     every later call on the Device returns that error, without calling the driver.
package cuda
