/*
 * A libcuda.so.1 for tests on machines without a GPU. This file has devices, contexts, modules and
 * memory; device memory is host memory. streams.cpp has streams, events, launches and graphs.
 *
 * The library exports only the functions of CUDA 12.0 and older that core/cuda may call. Modules
 * are empty: cuModuleGetFunction finds the kernel by its name among the kernels that were compiled
 * for the host (shim.h).
 *
 *	PACELINE_SOFTWARE_LOG=file               appends the name of every called function, one per line
 *	PACELINE_SOFTWARE_FAIL=name:N:code,...   the N-th call of the function returns the code; N 0: every call
 *	PACELINE_SOFTWARE_DRIVER=12090           the driver's version
 *	PACELINE_SOFTWARE_MEMORY=bytes           memory of each device; default 4 GiB
 *	PACELINE_SOFTWARE_SM=90                  the chip; chips below 80 lack the tf32 and bf16 kernels
 *	PACELINE_SOFTWARE_DEVICES=1              number of devices
 *	PACELINE_SOFTWARE_LATE=1                 enqueued work runs when a call waits for it, so that tests notice
 *	                                         callers that change memory too early
 *	PACELINE_SOFTWARE_CAPTURING=1            behaves as if another library captured a graph in the mode "global"
 *	PACELINE_SOFTWARE_THREADS=1              system threads instead of fibers
 *	PACELINE_SOFTWARE_ORDER=reverse          graphs run the last ready node first; launches run the last block
 *	                                         first, and the last thread of a block first
 *
 * Codes 700 to 719 mean that the context is lost: every later call that needs a context returns the
 * same code. New memory is filled with 0xFF bytes.
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

namespace software {

static std::recursive_mutex lock;
static bool initialised;
static CUresult lost;
static std::map<std::string, long long> calls;  // per function
static std::map<CUdeviceptr, size_t> allocations;
static size_t allocated;
static std::map<const void *, size_t> locked;  // page-locked host memory
static int contexts[64];                       // the address of element i is the context of device i
static thread_local int capture_mode;          // 0: global, 2: relaxed

long long setting(const char *name, long long standard) {
  const char *text = getenv(name);
  return text == nullptr || *text == 0 ? standard : strtoll(text, nullptr, 10);
}

// The code that PACELINE_SOFTWARE_FAIL gives for the n-th call of a function, or 0.
static CUresult asked_to_fail(const std::string &name, long long n) {
  const char *text = getenv("PACELINE_SOFTWARE_FAIL");
  for (std::string list = text == nullptr ? "" : text; !list.empty();) {
    const size_t comma = list.find(',');
    const std::string item = list.substr(0, comma);
    list = comma == std::string::npos ? "" : list.substr(comma + 1);
    const size_t first = item.find(':'), second = item.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const long long which = strtoll(item.c_str() + first + 1, nullptr, 10);
    if (item.substr(0, first) == name && (which == n || which == 0))
      return (CUresult)strtol(item.c_str() + second + 1, nullptr, 10);
  }
  return CUDA_SUCCESS;
}

// Whether a capture in the mode "global" forbids the function to threads that are not relaxed.
static bool forbidden(const std::string &name) {
  static const std::set<std::string> names = {"cuDevicePrimaryCtxRetain",
                                              "cuModuleLoadData",
                                              "cuModuleUnload",
                                              "cuMemAlloc_v2",
                                              "cuMemFree_v2",
                                              "cuMemHostAlloc",
                                              "cuMemFreeHost",
                                              "cuMemHostRegister_v2",
                                              "cuMemHostUnregister",
                                              "cuStreamCreateWithPriority",
                                              "cuStreamDestroy_v2",
                                              "cuStreamSynchronize",
                                              "cuStreamQuery",
                                              "cuEventCreate",
                                              "cuEventDestroy_v2",
                                              "cuEventQuery",
                                              "cuEventSynchronize",
                                              "cuCtxSynchronize",
                                              "cuFuncSetAttribute",
                                              "cuGraphExecDestroy"};
  return names.count(name) != 0;
}

Call::Call(const char *name, bool needs_context, const std::string &about) : refused(CUDA_SUCCESS), held(lock) {
  if (const char *path = getenv("PACELINE_SOFTWARE_LOG")) {
    if (FILE *log = fopen(path, "a")) {
      fprintf(log, "%s%s%s\n", name, about.empty() ? "" : " ", about.c_str());
      fclose(log);
    }
  }
  refused = asked_to_fail(name, ++calls[name]);
  if (refused >= CUDA_ERROR_ILLEGAL_ADDRESS && refused <= CUDA_ERROR_LAUNCH_FAILED) lost = refused;
  if (refused != CUDA_SUCCESS) return;
  if (!initialised && strcmp(name, "cuInit") != 0 && strcmp(name, "cuDriverGetVersion") != 0)
    refused = CUDA_ERROR_NOT_INITIALIZED;
  else if (needs_context)
    refused = lost != 0 ? lost : context_of_thread() == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
  if (refused == CUDA_SUCCESS && capture_mode != 2 && forbidden(name) && setting("PACELINE_SOFTWARE_CAPTURING", 0) != 0)
    refused = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static std::vector<void *> &context_stack() {
  static thread_local std::vector<void *> stack;
  return stack;
}

void *&context_of_thread() {
  static thread_local void *none;
  none = nullptr;
  return context_stack().empty() ? none : context_stack().back();
}

static int devices() { return (int)setting("PACELINE_SOFTWARE_DEVICES", 1); }
static size_t memory() { return (size_t)setting("PACELINE_SOFTWARE_MEMORY", 4ll << 30); }

// Whether the bytes lie in one allocation.
static bool valid(CUdeviceptr at, size_t bytes) {
  auto next = allocations.upper_bound(at);
  if (next == allocations.begin()) return false;
  const auto &found = *--next;
  return at - found.first <= found.second && bytes <= found.second - (at - found.first);
}

// Whether the bytes of the host lie in one range of page-locked memory.
static bool page_locked(const void *at, size_t bytes) {
  auto next = locked.upper_bound(at);
  if (next == locked.begin()) return false;
  const auto &found = *--next;
  const size_t from = (size_t)((const char *)at - (const char *)found.first);
  return from <= found.second && bytes <= found.second - from;
}

}  // namespace software

using namespace software;

// ------------------------------------------------------------------ devices

API cuInit(unsigned flags) {
  ENTER("cuInit");
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (devices() < 1) return CUDA_ERROR_NO_DEVICE;
  initialised = true;
  return CUDA_SUCCESS;
}

API cuDriverGetVersion(int *version) {
  ENTER("cuDriverGetVersion");
  *version = (int)setting("PACELINE_SOFTWARE_DRIVER", 12090);
  return CUDA_SUCCESS;
}

API cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount");
  *count = devices();
  return CUDA_SUCCESS;
}

API cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER("cuDeviceGet");
  if (ordinal < 0 || ordinal >= devices()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

API cuDeviceGetName(char *name, int length, CUdevice device) {
  ENTER("cuDeviceGetName");
  if (device < 0 || device >= devices() || length < 1) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, (size_t)length, "Software device sm_%lld", setting("PACELINE_SOFTWARE_SM", 90));
  return CUDA_SUCCESS;
}

API cuDeviceGetUuid(char uuid[16], CUdevice device) {
  ENTER("cuDeviceGetUuid");
  memcpy(uuid, "software device", 15);
  uuid[15] = (char)device;
  return CUDA_SUCCESS;
}

API cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  ENTER("cuDeviceTotalMem_v2");
  *bytes = memory();
  return CUDA_SUCCESS;
}

API cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  ENTER("cuDeviceGetAttribute");
  if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
  const int sm = (int)setting("PACELINE_SOFTWARE_SM", 90);
  switch (attribute) {
    case 1: *value = MOST_THREADS; break;  // threads per block
    case 2:
    case 3: *value = 1024; break;  // x and y of a block
    case 4: *value = 64; break;
    case 5: *value = 0x7FFFFFFF; break;  // x of a grid
    case 6:
    case 7: *value = 65535; break;
    case 8:
    case 97: *value = 48 << 10; break;  // shared memory per block
    case 10: *value = WARP; break;
    case 12: *value = 65536; break;  // registers per block
    case 16: *value = 132; break;    // multiprocessors
    case 39: *value = 2048; break;   // threads per multiprocessor
    case 41: *value = 1; break;      // unified addressing
    case 75: *value = sm / 10; break;
    case 76: *value = sm % 10; break;
    case 81: *value = 228 << 10; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

// ----------------------------------------------------------------- contexts

API cuDevicePrimaryCtxRetain(void **context, CUdevice device) {
  ENTER("cuDevicePrimaryCtxRetain");
  if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
  *context = &contexts[device];
  return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRelease_v2(CUdevice) {
  ENTER("cuDevicePrimaryCtxRelease_v2");
  return CUDA_SUCCESS;
}

API cuCtxPushCurrent_v2(void *context) {
  ENTER("cuCtxPushCurrent_v2");
  context_stack().push_back(context);
  return CUDA_SUCCESS;
}

API cuCtxPopCurrent_v2(void **context) {
  ENTER("cuCtxPopCurrent_v2");
  if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = context_stack().back();
  context_stack().pop_back();
  return CUDA_SUCCESS;
}

API cuCtxGetCurrent(void **context) {
  ENTER("cuCtxGetCurrent");
  *context = context_of_thread();
  return CUDA_SUCCESS;
}

API cuCtxSetCurrent(void *context) {
  ENTER("cuCtxSetCurrent");
  if (!context_stack().empty()) context_stack().pop_back();
  if (context != nullptr) context_stack().push_back(context);
  return CUDA_SUCCESS;
}

API cuCtxSynchronize(void) {
  ENTER_CONTEXT("cuCtxSynchronize");
  finish_all();
  return CUDA_SUCCESS;
}

API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER_CONTEXT("cuCtxGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}

API cuThreadExchangeStreamCaptureMode(int *mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

// ------------------------------------------------------ modules and functions

API cuModuleLoadData(void **module, const void *) {
  ENTER_CONTEXT("cuModuleLoadData");
  *module = &contexts[0];
  return CUDA_SUCCESS;
}

API cuModuleLoadDataEx(void **module, const void *, unsigned, int *, void **) {
  ENTER_CONTEXT("cuModuleLoadDataEx");
  *module = &contexts[0];
  return CUDA_SUCCESS;
}

API cuModuleUnload(void *) {
  ENTER_CONTEXT("cuModuleUnload");
  finish_all();
  return CUDA_SUCCESS;
}

API cuModuleGetFunction(Function **function, void *, const char *name) {
  ENTER_CONTEXT("cuModuleGetFunction");
  static std::map<const Kernel *, Function> functions;
  const std::string text = name;
  const std::string ending = text.substr(text.size() < 5 ? 0 : text.size() - 5);
  const Kernel *k = find_kernel(name);
  if (k == nullptr || (setting("PACELINE_SOFTWARE_SM", 90) < 80 && (ending == "_tf32" || ending == "_bf16")))
    return CUDA_ERROR_NOT_FOUND;
  functions[k].kernel = k;
  *function = &functions[k];
  return CUDA_SUCCESS;
}

API cuFuncSetAttribute(Function *, int, int) {
  ENTER_CONTEXT("cuFuncSetAttribute");
  return CUDA_SUCCESS;
}

API cuFuncGetAttribute(int *value, int attribute, Function *function) {
  ENTER_CONTEXT("cuFuncGetAttribute");
  *value = attribute == 0 ? (int)function->kernel->threads : attribute == 4 ? 64 : 0;
  return CUDA_SUCCESS;
}

// ------------------------------------------------------------------- memory

API cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
  ENTER_CONTEXT("cuMemAlloc_v2");
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void *p = nullptr;
  if (bytes > memory() - allocated || posix_memalign(&p, 256, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(p, 0xFF, bytes);
  *at = (CUdeviceptr)(uintptr_t)p;
  allocations[*at] = bytes;
  allocated += bytes;
  return CUDA_SUCCESS;
}

API cuMemFree_v2(CUdeviceptr at) {
  ENTER_CONTEXT("cuMemFree_v2");
  finish_all();
  const auto found = allocations.find(at);
  if (found == allocations.end()) return at == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  allocated -= found->second;
  allocations.erase(found);
  free((void *)(uintptr_t)at);
  return CUDA_SUCCESS;
}

API cuMemGetInfo_v2(size_t *available, size_t *total) {
  ENTER_CONTEXT("cuMemGetInfo_v2");
  *total = memory();
  *available = memory() - allocated;
  return CUDA_SUCCESS;
}

API cuMemHostAlloc(void **at, size_t bytes, unsigned) {
  ENTER_CONTEXT("cuMemHostAlloc");
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (posix_memalign(at, 4096, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  locked[*at] = bytes;
  return CUDA_SUCCESS;
}

API cuMemFreeHost(void *at) {
  ENTER_CONTEXT("cuMemFreeHost");
  finish_all();
  locked.erase(at);
  free(at);
  return CUDA_SUCCESS;
}

// Page-locks existing memory. A page must not be locked twice.
API cuMemHostRegister_v2(void *at, size_t bytes, unsigned) {
  ENTER_CONTEXT("cuMemHostRegister_v2");
  const uintptr_t page = 4096, first = (uintptr_t)at / page, last = ((uintptr_t)at + bytes - 1) / page;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  for (const auto &l : locked)
    if (first <= ((uintptr_t)l.first + l.second - 1) / page && (uintptr_t)l.first / page <= last)
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  locked[at] = bytes;
  return CUDA_SUCCESS;
}

API cuMemHostUnregister(void *at) {
  ENTER_CONTEXT("cuMemHostUnregister");
  finish_all();
  return locked.erase(at) == 1 ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, Stream *s) {
  ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
  if (!valid(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (late() && !page_locked(from, bytes)) {  // the driver copies pageable memory before the call returns
    const auto *p = static_cast<const char *>(from);
    const std::vector<char> copy(p, p + bytes);
    return enqueue(s, [=] { return memcpy((void *)(uintptr_t)to, copy.data(), bytes), CUDA_SUCCESS; });
  }
  return enqueue(s, [=] { return memcpy((void *)(uintptr_t)to, from, bytes), CUDA_SUCCESS; });
}

API cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, Stream *s) {
  ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
  if (!valid(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult code = enqueue(s, [=] { return memcpy(to, (const void *)(uintptr_t)from, bytes), CUDA_SUCCESS; });
  if (code == CUDA_SUCCESS && late() && s != nullptr && s->capture == nullptr && !page_locked(to, bytes))
    return finish(s);
  return code;
}

API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, Stream *s) {
  ENTER_CONTEXT("cuMemcpyDtoDAsync_v2");
  if (!valid(to, bytes) || !valid(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(s, [=] { return memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes), CUDA_SUCCESS; });
}

API cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t count, Stream *s) {
  ENTER_CONTEXT("cuMemsetD8Async");
  if (!valid(at, count)) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(s, [=] { return memset((void *)(uintptr_t)at, value, count), CUDA_SUCCESS; });
}

// ------------------------------------------------------------------- errors

static const struct {
  CUresult code;
  const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
};

API cuGetErrorName(CUresult code, const char **name) {
  for (const auto &e : errors)
    if (e.code == code) return *name = e.name, CUDA_SUCCESS;
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

API cuGetErrorString(CUresult code, const char **text) {
  for (const auto &e : errors)
    if (e.code == code) return *text = e.text, CUDA_SUCCESS;
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
