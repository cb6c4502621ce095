/*
 * Tests the parts of the software device that the kernels' tests do not use: graphs of several
 * streams, calls that fail on request, full memory. It is linked with this folder's libcuda.so.1;
 * TestSoftwareDevice of core/cuda runs it.
 */
#include "../kernels/args.cuh"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

struct Handle;
typedef unsigned long long Address;

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(Handle **, int);
int cuCtxPushCurrent_v2(Handle *);
int cuCtxPopCurrent_v2(Handle **);
int cuModuleLoadData(Handle **, const void *);
int cuModuleGetFunction(Handle **, Handle *, const char *);
int cuMemAlloc_v2(Address *, size_t);
int cuMemFree_v2(Address);
int cuMemHostRegister_v2(void *, size_t, unsigned);
int cuMemHostUnregister(void *);
int cuThreadExchangeStreamCaptureMode(int *);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemcpyHtoDAsync_v2(Address, const void *, size_t, Handle *);
int cuMemcpyDtoHAsync_v2(void *, Address, size_t, Handle *);
int cuMemcpyDtoDAsync_v2(Address, Address, size_t, Handle *);
int cuStreamCreateWithPriority(Handle **, unsigned, int);
int cuStreamSynchronize(Handle *);
int cuStreamWaitEvent(Handle *, Handle *, unsigned);
int cuStreamBeginCapture_v2(Handle *, int);
int cuStreamEndCapture(Handle *, Handle **);
int cuStreamIsCapturing(Handle *, int *);
int cuEventCreate(Handle **, unsigned);
int cuEventRecord(Handle *, Handle *);
int cuEventQuery(Handle *);
int cuGraphInstantiateWithFlags(Handle **, Handle *, unsigned long long);
int cuGraphGetNodes(Handle *, Handle **, size_t *);
int cuGraphLaunch(Handle *, Handle *);
int cuLaunchKernel(Handle *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle *, void **,
                   void **);
}

#define MUST(what)                                               \
  if (!(what)) {                                                 \
    printf("selftest.cpp:%d: %s, must hold\n", __LINE__, #what); \
    exit(1);                                                     \
  }

static const size_t MEMORY = 1 << 20;
static Address a, b, c;

static void set(Address at, int value) { MUST(cuMemcpyHtoDAsync_v2(at, &value, sizeof value, nullptr) == 0); }

static int get(Address at) {
  int value = 0;
  MUST(cuMemcpyDtoHAsync_v2(&value, at, sizeof value, nullptr) == 0);
  return value;
}

// Captures a copy of a to b on stream two, and a copy of b to c on stream one. If `joined`, stream
// one first waits for stream two.
static int capture(Handle *one, Handle *two, bool joined, Handle **graph) {
  Handle *fork, *join;
  MUST(cuEventCreate(&fork, 0) == 0 && cuEventCreate(&join, 0) == 0);
  MUST(cuStreamBeginCapture_v2(one, 2) == 0);
  MUST(cuEventRecord(fork, one) == 0 && cuStreamWaitEvent(two, fork, 0) == 0);
  int capturing = 0;
  MUST(cuStreamIsCapturing(two, &capturing) == 0 && capturing == 1);
  MUST(cuMemcpyDtoDAsync_v2(b, a, 4, two) == 0);
  MUST(cuStreamSynchronize(one) == 900);  // a capturing stream cannot be waited for
  if (joined) {
    MUST(cuEventRecord(join, two) == 0 && cuEventQuery(join) == 907 && cuStreamWaitEvent(one, join, 0) == 0);
  }
  MUST(cuMemcpyDtoDAsync_v2(c, b, 4, one) == 0);
  return cuStreamEndCapture(one, graph);
}

static void graphs() {
  Handle *one, *two, *graph, *executable;
  MUST(cuStreamCreateWithPriority(&one, 1, 0) == 0 && cuStreamCreateWithPriority(&two, 1, 0) == 0);
  set(a, 1), set(b, 2), set(c, 3);
  MUST(capture(one, two, false, &graph) == 904);
  int capturing = 1;
  MUST(cuStreamIsCapturing(two, &capturing) == 0 && capturing == 0);
  MUST(capture(one, two, true, &graph) == 0);
  MUST(get(c) == 3);  // captured, not run
  size_t nodes = 0;
  MUST(cuGraphGetNodes(graph, nullptr, &nodes) == 0 && nodes == 2);
  MUST(cuGraphInstantiateWithFlags(&executable, graph, 0) == 0);
  for (const char *order : {"", "reverse"}) {  // both orders respect the dependencies
    setenv("PACELINE_SOFTWARE_ORDER", order, 1);
    set(a, 7), set(b, 2), set(c, 3);
    MUST(cuGraphLaunch(executable, one) == 0 && get(b) == 7 && get(c) == 7);
  }
}

static void memory() {
  size_t available = 0, total = 0;
  Address big = 0;
  MUST(cuMemGetInfo_v2(&available, &total) == 0 && total == MEMORY && available == MEMORY - 3 * 4);
  MUST(cuMemAlloc_v2(&big, MEMORY) == 2);
  MUST(cuMemAlloc_v2(&big, available) == 0 && cuMemFree_v2(big) == 0 && cuMemFree_v2(big) == 1);
  char bytes[8] = {};
  MUST(cuMemcpyHtoDAsync_v2(a, bytes, 8, nullptr) == 1);  // beyond the allocation
}

static void functions() {
  Handle *module, *f;
  MUST(cuModuleLoadData(&module, "") == 0);
  MUST(cuModuleGetFunction(&f, module, "no_such_kernel") == 500);
  MUST(cuModuleGetFunction(&f, module, "dense_forward_tf32") == 0);
  setenv("PACELINE_SOFTWARE_SM", "75", 1);
  MUST(cuModuleGetFunction(&f, module, "dense_forward_tf32") == 500);
  MUST(cuModuleGetFunction(&f, module, "dense_forward_fp32") == 0);
  long long args[64] = {};
  void *params[] = {args};
  MUST(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr) == 1);  // not 128 threads
}

// Adds zeros to an array and writes each sum to the next element. The result depends on the order
// of the blocks and of their threads.
static void orders() {
  const int n = 600;
  Handle *module, *f;
  MUST(cuModuleLoadData(&module, "") == 0 && cuModuleGetFunction(&f, module, "add") == 0);
  Address x = 0, zeros = 0;
  float values[n + 1], none[n] = {};
  MUST(cuMemAlloc_v2(&x, sizeof values) == 0 && cuMemAlloc_v2(&zeros, sizeof none) == 0);
  MUST(cuMemcpyHtoDAsync_v2(zeros, none, sizeof none, nullptr) == 0);
  ElementsArgs args = {n, (float *)x, (float *)zeros, (float *)x + 1, 0, 0};
  void *params[] = {&args};
  for (const bool reverse : {false, true}) {
    setenv("PACELINE_SOFTWARE_ORDER", reverse ? "reverse" : "", 1);
    for (int i = 0; i <= n; i++) values[i] = (float)i;
    MUST(cuMemcpyHtoDAsync_v2(x, values, sizeof values, nullptr) == 0);
    MUST(cuLaunchKernel(f, 3, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr) == 0);
    MUST(cuMemcpyDtoHAsync_v2(values, x, sizeof values, nullptr) == 0);
    for (int i = 1; i <= n; i++) MUST(values[i] == (reverse ? (float)(i - 1) : 0));
  }
  MUST(cuMemFree_v2(x) == 0 && cuMemFree_v2(zeros) == 0);
}

// With PACELINE_SOFTWARE_LATE, work runs when the host or another stream waits for it. Only
// pageable memory is read before the call returns.
static void late() {
  setenv("PACELINE_SOFTWARE_LATE", "1", 1);
  Handle *one, *two, *event;
  MUST(cuStreamCreateWithPriority(&one, 1, 0) == 0 && cuStreamCreateWithPriority(&two, 1, 0) == 0);
  MUST(cuEventCreate(&event, 0) == 0);
  alignas(4096) static int locked[1024], plain;
  MUST(cuMemHostRegister_v2(locked, sizeof locked, 0) == 0 && cuMemHostRegister_v2(locked + 1, 4, 0) == 712);
  for (int *from : {locked, &plain}) {
    for (const bool waiting : {false, true}) {
      set(a, 1);
      *from = 2;
      MUST(cuMemcpyHtoDAsync_v2(a, from, 4, one) == 0 && cuEventRecord(event, one) == 0 && get(a) == 1);
      MUST(!waiting || cuEventQuery(event) == 600);  // a query runs one piece of work
      *from = 3;
      MUST(cuStreamWaitEvent(two, event, 0) == 0 && cuMemcpyDtoDAsync_v2(b, a, 4, two) == 0);
      MUST(cuStreamSynchronize(waiting ? one : two) == 0 && cuEventQuery(event) == 0);
      MUST(get(a) == (from == &plain || waiting ? 2 : 3) && (waiting || get(b) == get(a)));
      MUST(cuStreamSynchronize(two) == 0);
    }
  }
  MUST(cuMemHostUnregister(locked) == 0 && cuMemHostUnregister(locked) == 713);
  setenv("PACELINE_SOFTWARE_LATE", "", 1);
}

static void captures() {
  int mode = 2;
  setenv("PACELINE_SOFTWARE_CAPTURING", "1", 1);
  Address at = 0;
  MUST(cuMemAlloc_v2(&at, 4) == 900);
  MUST(cuThreadExchangeStreamCaptureMode(&mode) == 0 && mode == 0 && cuMemAlloc_v2(&at, 4) == 0);
  MUST(cuThreadExchangeStreamCaptureMode(&mode) == 0 && mode == 2 && cuMemFree_v2(at) == 900);
  setenv("PACELINE_SOFTWARE_CAPTURING", "", 1);
}

static void failures() {
  Address at = 0;
  setenv("PACELINE_SOFTWARE_FAIL", "cuStreamCreateWithPriority:6:2,cuMemcpyDtoDAsync_v2:9:719", 1);
  Handle *s;
  MUST(cuStreamCreateWithPriority(&s, 1, 0) == 0 && cuStreamCreateWithPriority(&s, 1, 0) == 2);
  MUST(cuStreamCreateWithPriority(&s, 1, 0) == 0);
  MUST(cuMemcpyDtoDAsync_v2(b, a, 4, nullptr) == 719);
  MUST(cuMemAlloc_v2(&at, 4) == 719);  // the context is lost: all later calls fail
}

int main() {
  char value[32];
  snprintf(value, sizeof value, "%zu", MEMORY);
  setenv("PACELINE_SOFTWARE_MEMORY", value, 1);
  Handle *context;
  MUST(cuDevicePrimaryCtxRetain(&context, 0) == 3 && cuInit(0) == 0);
  MUST(cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuDevicePrimaryCtxRetain(&context, 1) == 101);
  MUST(cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuMemAlloc_v2(&a, 4) == 201);  // no context is current
  MUST(cuCtxPushCurrent_v2(context) == 0);
  MUST(cuMemAlloc_v2(&a, 4) == 0 && cuMemAlloc_v2(&b, 4) == 0 && cuMemAlloc_v2(&c, 4) == 0);
  graphs();
  memory();
  orders();
  functions();
  late();
  captures();
  failures();
  return 0;
}
