/* The C part of core/cuda: loading the driver (driver.c), and the calls that gorgonia.org/cu lacks
 * or does not make within one context (calls.c). */
#ifndef PACELINE_CUDA_DRIVER_H
#define PACELINE_CUDA_DRIVER_H

#include <cuda.h>
#include <stddef.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum paceline_cuda_loaded { PACELINE_CUDA_LOADED, PACELINE_CUDA_MISSING, PACELINE_CUDA_LACKS };

/* Opens libcuda.so.1 and fills the slots. Must not be called again after LOADED. MISSING: why gets
 * dlopen's message. LACKS: why gets the name of a function that the driver must have. */
HIDDEN enum paceline_cuda_loaded paceline_cuda_load(char *why, size_t size);

/* Sets the thread's capture mode to relaxed, so that the thread may make any call while another
 * library captures a graph in the mode "global", as PyTorch does. Without relax the driver would
 * refuse the call and end that capture. before gets the thread's mode, for unrelax. */
HIDDEN CUresult paceline_cuda_relax(CUstreamCaptureMode *before);
HIDDEN void paceline_cuda_unrelax(CUstreamCaptureMode *before);
/* enter also makes the context current; leave restores both. */
HIDDEN CUresult paceline_cuda_enter(CUcontext ctx, CUstreamCaptureMode *before);
HIDDEN void paceline_cuda_leave(CUstreamCaptureMode *before);

/* Every call below enters the context and leaves it again: a goroutine changes threads between two
 * calls, and the threads may be the host's. */

HIDDEN CUresult paceline_cuda_alloc(CUcontext ctx, CUdeviceptr *out, size_t bytes, CUstream zeroing);
HIDDEN CUresult paceline_cuda_free(CUcontext ctx, CUdeviceptr at);
HIDDEN CUresult paceline_cuda_host_alloc(CUcontext ctx, void **out, size_t bytes);
HIDDEN CUresult paceline_cuda_host_free(CUcontext ctx, void *at);
/* Page-locks existing memory: whole pages. */
HIDDEN CUresult paceline_cuda_host_register(CUcontext ctx, void *at, size_t bytes);
HIDDEN CUresult paceline_cuda_host_unregister(CUcontext ctx, void *at);
HIDDEN CUresult paceline_cuda_free_bytes(CUcontext ctx, size_t *left, size_t *total);

/* pinned: the host memory is page-locked, and the call returns before the copy is done. */
HIDDEN CUresult paceline_cuda_upload(CUcontext ctx, CUstream s, CUdeviceptr to, const void *from, size_t bytes,
                                     int pinned);
HIDDEN CUresult paceline_cuda_download(CUcontext ctx, CUstream s, void *to, CUdeviceptr from, size_t bytes, int pinned);
HIDDEN CUresult paceline_cuda_copy(CUcontext ctx, CUstream s, CUdeviceptr to, CUdeviceptr from, size_t bytes);
HIDDEN CUresult paceline_cuda_zero(CUcontext ctx, CUstream s, CUdeviceptr at, size_t bytes);

/* Returns a kernel's registers per thread, static shared memory in bytes, and the threads that a
 * block may have. Afterwards launches may ask for `limit` minus `shared` bytes of dynamic shared
 * memory. */
HIDDEN CUresult paceline_cuda_function(CUcontext ctx, CUfunction f, int limit, int *registers, int *shared,
                                       int *threads);
HIDDEN CUresult paceline_cuda_launch(CUcontext ctx, CUstream s, CUfunction f, const unsigned *grid,
                                     const unsigned *block, unsigned shared, void *args);

/* Waits for the stream's work. Does nothing if the stream is capturing. */
HIDDEN CUresult paceline_cuda_finish(CUcontext ctx, CUstream s);

HIDDEN CUresult paceline_cuda_record(CUcontext ctx, CUstream s, CUevent e);
HIDDEN CUresult paceline_cuda_wait(CUcontext ctx, CUstream s, CUevent e);
HIDDEN CUresult paceline_cuda_synchronize(CUcontext ctx, CUstream s);
HIDDEN CUresult paceline_cuda_event_query(CUcontext ctx, CUevent e);
HIDDEN CUresult paceline_cuda_event_synchronize(CUcontext ctx, CUevent e);
HIDDEN CUresult paceline_cuda_event_elapsed(CUcontext ctx, float *ms, CUevent from, CUevent to);

HIDDEN CUresult paceline_cuda_capture_begin(CUcontext ctx, CUstream s);
/* out NULL: discards the graph. */
HIDDEN CUresult paceline_cuda_capture_end(CUcontext ctx, CUstream s, CUgraphExec *out, size_t *nodes);
HIDDEN CUresult paceline_cuda_replay(CUcontext ctx, CUstream s, CUgraphExec g, int times);
HIDDEN CUresult paceline_cuda_graph_free(CUcontext ctx, CUgraphExec g);

#endif
