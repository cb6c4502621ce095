/*
 * What the files of the software device share: the driver's types, as far as they are
 * needed, and the state behind them. The numbers are those of the driver's interface.
 */
#ifndef PACELINE_SOFTWARE_DRIVER_H
#define PACELINE_SOFTWARE_DRIVER_H

#include "shim.h"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  CUDA_ERROR_CAPTURED_EVENT = 907,
};

namespace software {

// Node is one piece of work in a graph: what it does, and the nodes it waits for.
struct Node {
  std::function<CUresult()> work;
  std::set<size_t> after;
};

struct Graph {
  std::vector<Node> nodes;
};

// Capture is a graph in the making. The streams that take part have the same one.
struct Capture {
  Graph graph;
  struct Stream *origin;
};

struct Stream {
  int priority = 0;
  std::deque<std::function<CUresult()>> waiting;  // with PACELINE_SOFTWARE_LATE
  size_t enqueued = 0, done = 0;                  // pieces of work ever
  std::shared_ptr<Capture> capture;               // null: none is in progress
  std::set<size_t> last;                          // nodes that the stream's next one waits for
};

struct Event {
  std::shared_ptr<Capture> capture;  // that of the stream at the latest record
  std::set<size_t> last;
  Stream *stream = nullptr;  // of the latest record, and how much it had enqueued
  size_t until = 0;
  std::chrono::steady_clock::time_point at;
  bool recorded = false;
};

struct Function {
  const Kernel *kernel;
};

// Setting is what an environment variable says, or a default.
long long setting(const char *name, long long standard);

// Call begins every function of the interface: it holds the lock, writes the log and says
// whether the call goes on.
class Call {
 public:
  Call(const char *name, bool needs_context, const std::string &about = "");
  CUresult refused;  // 0: it goes on
 private:
  std::lock_guard<std::recursive_mutex> held;
};

void *&context_of_thread();

// Does the work now, or adds it to the capture that the stream takes part in; with
// PACELINE_SOFTWARE_LATE it is done when something waits for it.
CUresult enqueue(Stream *s, std::function<CUresult()> work);

// Does what waits on all streams, or on one.
void finish_all();
CUresult finish(Stream *s);

bool late();

CUresult run(const Graph &graph);

}  // namespace software

#define API extern "C" __attribute__((visibility("default"))) CUresult

/* Begins a function of the interface by name; the second one needs a current context. */
#define ENTER(name)                 \
  software::Call call(name, false); \
  if (call.refused != 0) return call.refused
#define ENTER_CONTEXT(name)        \
  software::Call call(name, true); \
  if (call.refused != 0) return call.refused

#endif
