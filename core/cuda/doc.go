// Package cuda wraps CUDA's driver: devices, memory, streams, events and graphs. The GPU device of
// core/nn enqueues its kernels with this package, which knows nothing about networks.
//
// The build tag gpu, with cgo on Linux, builds the whole package. In any other build (cuda_off.go)
// every call returns ErrNotBuilt. core/cuda/go.sh runs go with the tag and first makes what that
// build needs: NVIDIA's headers and kernels.zip, the machine code of core/cuda/kernels.
//
// Invariants:
//
//   - A build with the tag also runs on machines without a GPU. The library is not linked with
//     libcuda.so.1: every driver function is a hidden jump through a slot (trampolines.S expands
//     symbols.h). The first call of Devices or Open loads the driver (driver.c). Until then the
//     slots return CUDA_ERROR_NOT_INITIALIZED, except for cuInit, which returns success:
//     gorgonia.org/cu calls cuInit when the process loads the library, and ends the process if
//     cuInit fails.
//   - A driver for CUDA 12.0 (version 525) has every function that is called. symbols.h marks these
//     functions NEEDED.
//   - Other libraries in the process, such as PyTorch, share the primary context. The process
//     retains it from the first Open on, until it ends or the GPU is lost: making a context takes
//     some tenths of a second.
//   - With PACELINE_CUDA_EAGER=1 in the environment, Launch waits for the kernel, and users of
//     graphs launch each kernel instead of capturing it (Device.Eager). An error then names the
//     kernel that caused it.
//   - Calls run with the thread's capture mode relaxed, and captures are relaxed. So another
//     library may capture a graph in the mode "global" at the same time, as PyTorch does: the
//     driver neither refuses our calls nor ends that capture.
//   - The driver runs streams concurrently over 8 connections (CUDA_DEVICE_MAX_CONNECTIONS). More
//     streams than connections may wait for one another. A DQN makes 6 streams: one for acting, two
//     for updates, one for parameters, one for new memory, one for the backup in host memory.
//   - Devices, modules, and the creation of streams and events go through gorgonia.org/cu. calls.c
//     has the functions that cu lacks and those that are called often. Each of them enters and
//     leaves the context itself, because a goroutine may run on any thread, also on a host's.
//   - Any goroutine may make any call at any time. Closing an object waits for the calls in
//     progress on it (gate.go); later calls return fault.ErrClosed. Closing twice is allowed. Close
//     a Device last: objects that are open at that time are never freed.
//   - Launch, Replay, Record, Wait, Upload, Download, Copy and Zero do not allocate.
//   - In a child of fork() the slots return CUDA_ERROR_NOT_INITIALIZED again.
//   - Error messages name the device. Memory that cannot be allocated gives a *fault.Memory. An
//     error that wraps ErrLost means that this process has lost the contents of the GPU's memory.
//     Every later call on the Device returns the same error and does not call the driver.
package cuda
