//go:build gpu && cgo && linux

/* Calls of CUDA's driver. Each function enters the context, makes its calls and leaves the context. */
#include "driver.h"

CUresult paceline_cuda_relax(CUstreamCaptureMode *before) {
  *before = CU_STREAM_CAPTURE_MODE_RELAXED;
  return cuThreadExchangeStreamCaptureMode(before);
}
void paceline_cuda_unrelax(CUstreamCaptureMode *before) { cuThreadExchangeStreamCaptureMode(before); }

CUresult paceline_cuda_enter(CUcontext ctx, CUstreamCaptureMode *before) {
  CUcontext ours;
  CUresult result = cuCtxPushCurrent(ctx);
  if (result != CUDA_SUCCESS) return result;
  result = paceline_cuda_relax(before);
  if (result != CUDA_SUCCESS) cuCtxPopCurrent(&ours);
  return result;
}

void paceline_cuda_leave(CUstreamCaptureMode *before) {
  CUcontext ours;
  paceline_cuda_unrelax(before);
  cuCtxPopCurrent(&ours);
}

#define IN(ctx, call)                                    \
  do {                                                   \
    CUstreamCaptureMode before;                          \
    CUresult result = paceline_cuda_enter(ctx, &before); \
    if (result != CUDA_SUCCESS) return result;           \
    result = (call);                                     \
    paceline_cuda_leave(&before);                        \
    return result;                                       \
  } while (0)

static CUresult first(CUresult a, CUresult b) { return a != CUDA_SUCCESS ? a : b; }

/* ---------------------------------------------------------------- memory */

static CUresult alloc(CUdeviceptr *out, size_t bytes, CUstream zeroing) {
  CUresult result = cuMemAlloc(out, bytes);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemsetD8Async(*out, 0, bytes, zeroing);
  if (result == CUDA_SUCCESS) result = cuStreamSynchronize(zeroing);
  if (result != CUDA_SUCCESS) cuMemFree(*out);
  return result;
}

CUresult paceline_cuda_alloc(CUcontext ctx, CUdeviceptr *out, size_t bytes, CUstream zeroing) {
  IN(ctx, alloc(out, bytes, zeroing));
}
CUresult paceline_cuda_free(CUcontext ctx, CUdeviceptr at) { IN(ctx, cuMemFree(at)); }
CUresult paceline_cuda_host_alloc(CUcontext ctx, void **out, size_t bytes) { IN(ctx, cuMemHostAlloc(out, bytes, 0)); }
CUresult paceline_cuda_host_free(CUcontext ctx, void *at) { IN(ctx, cuMemFreeHost(at)); }
CUresult paceline_cuda_host_register(CUcontext ctx, void *at, size_t bytes) {
  IN(ctx, cuMemHostRegister(at, bytes, 0));
}
CUresult paceline_cuda_host_unregister(CUcontext ctx, void *at) { IN(ctx, cuMemHostUnregister(at)); }
CUresult paceline_cuda_free_bytes(CUcontext ctx, size_t *left, size_t *total) { IN(ctx, cuMemGetInfo(left, total)); }

/* Copies of memory that is not page-locked must wait: the caller may reuse or free the memory as
 * soon as the call returns. Such a copy cannot be captured, because a replay would use the memory
 * later. */
static CUresult may_wait(CUstream s) {
  CUstreamCaptureStatus status;
  CUresult result = cuStreamIsCapturing(s, &status);
  if (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE) result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return result;
}

static CUresult upload(CUstream s, CUdeviceptr to, const void *from, size_t bytes, int pinned) {
  if (pinned) return cuMemcpyHtoDAsync(to, from, bytes, s);
  CUresult result = may_wait(s);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemcpyHtoDAsync(to, from, bytes, s);
  return first(result, cuStreamSynchronize(s));
}

static CUresult download(CUstream s, void *to, CUdeviceptr from, size_t bytes, int pinned) {
  if (pinned) return cuMemcpyDtoHAsync(to, from, bytes, s);
  CUresult result = may_wait(s);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemcpyDtoHAsync(to, from, bytes, s);
  return first(result, cuStreamSynchronize(s));
}

CUresult paceline_cuda_upload(CUcontext ctx, CUstream s, CUdeviceptr to, const void *from, size_t bytes, int pinned) {
  IN(ctx, upload(s, to, from, bytes, pinned));
}
CUresult paceline_cuda_download(CUcontext ctx, CUstream s, void *to, CUdeviceptr from, size_t bytes, int pinned) {
  IN(ctx, download(s, to, from, bytes, pinned));
}
CUresult paceline_cuda_copy(CUcontext ctx, CUstream s, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  IN(ctx, cuMemcpyDtoDAsync(to, from, bytes, s));
}
CUresult paceline_cuda_zero(CUcontext ctx, CUstream s, CUdeviceptr at, size_t bytes) {
  IN(ctx, cuMemsetD8Async(at, 0, bytes, s));
}

/* --------------------------------------------------------------- kernels */

static CUresult function(CUfunction f, int limit, int *registers, int *shared, int *threads) {
  CUresult result = cuFuncGetAttribute(registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f);
  result = first(result, cuFuncGetAttribute(shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
  result = first(result, cuFuncGetAttribute(threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
  if (result != CUDA_SUCCESS) return result;
  return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit - *shared);
}

CUresult paceline_cuda_function(CUcontext ctx, CUfunction f, int limit, int *registers, int *shared, int *threads) {
  IN(ctx, function(f, limit, registers, shared, threads));
}

CUresult paceline_cuda_launch(CUcontext ctx, CUstream s, CUfunction f, const unsigned *grid, const unsigned *block,
                              unsigned shared, void *args) {
  void *parameters[] = {args};
  IN(ctx, cuLaunchKernel(f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, s, parameters, NULL));
}

static CUresult finish(CUstream s) {
  CUstreamCaptureStatus status;
  CUresult result = cuStreamIsCapturing(s, &status);
  if (result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE) return result;
  return cuStreamSynchronize(s);
}

CUresult paceline_cuda_finish(CUcontext ctx, CUstream s) { IN(ctx, finish(s)); }

/* ---------------------------------------------------------------- events */

CUresult paceline_cuda_record(CUcontext ctx, CUstream s, CUevent e) { IN(ctx, cuEventRecord(e, s)); }
CUresult paceline_cuda_wait(CUcontext ctx, CUstream s, CUevent e) { IN(ctx, cuStreamWaitEvent(s, e, 0)); }
CUresult paceline_cuda_synchronize(CUcontext ctx, CUstream s) { IN(ctx, cuStreamSynchronize(s)); }
CUresult paceline_cuda_event_query(CUcontext ctx, CUevent e) { IN(ctx, cuEventQuery(e)); }
CUresult paceline_cuda_event_synchronize(CUcontext ctx, CUevent e) { IN(ctx, cuEventSynchronize(e)); }
CUresult paceline_cuda_event_elapsed(CUcontext ctx, float *ms, CUevent from, CUevent to) {
  IN(ctx, cuEventElapsedTime(ms, from, to));
}

/* ---------------------------------------------------------------- graphs */

/* Relaxed, because several threads make the calls of one capture, and because calls of other
 * libraries must neither be refused nor end the capture. */
CUresult paceline_cuda_capture_begin(CUcontext ctx, CUstream s) {
  IN(ctx, cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUresult capture_end(CUstream s, CUgraphExec *out, size_t *nodes) {
  CUgraph graph = NULL;
  CUresult result = cuStreamEndCapture(s, &graph);
  if (graph == NULL) return result;
  if (result == CUDA_SUCCESS && out != NULL) {
    result = cuGraphGetNodes(graph, NULL, nodes);
    if (result == CUDA_SUCCESS) /* a node keeps the priority of its stream */
      result = cuGraphInstantiateWithFlags(out, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  }
  return first(result, cuGraphDestroy(graph));
}

CUresult paceline_cuda_capture_end(CUcontext ctx, CUstream s, CUgraphExec *out, size_t *nodes) {
  IN(ctx, capture_end(s, out, nodes));
}
static CUresult replay(CUstream s, CUgraphExec g, int times) {
  CUresult result = CUDA_SUCCESS;
  for (; times > 0 && result == CUDA_SUCCESS; times--) result = cuGraphLaunch(g, s);
  return result;
}
CUresult paceline_cuda_replay(CUcontext ctx, CUstream s, CUgraphExec g, int times) { IN(ctx, replay(s, g, times)); }
CUresult paceline_cuda_graph_free(CUcontext ctx, CUgraphExec g) { IN(ctx, cuGraphExecDestroy(g)); }
