/*
 * The types and functions that the files of the software device share. The numbers are those of the
 * driver's interface.
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

// Node is a piece of work in a graph, with the nodes that it waits for.
struct Node {
  std::function<CUresult()> work;
  std::set<size_t> after;
};

struct Graph {
  std::vector<Node> nodes;
};

// Capture is a graph in construction. All streams of a capture share it.
struct Capture {
  Graph graph;
  struct Stream *origin;
};

struct Stream {
  int priority = 0;
  std::deque<std::function<CUresult()>> waiting;  // with PACELINE_SOFTWARE_LATE
  size_t enqueued = 0, done = 0;                  // pieces of work since the start
  std::shared_ptr<Capture> capture;               // null: not capturing
  std::set<size_t> last;                          // nodes that the stream's next node waits for
};

struct Event {
  // All fields are as of the latest record.
  std::shared_ptr<Capture> capture;
  std::set<size_t> last;
  Stream *stream = nullptr;
  size_t until = 0;  // the stream's enqueued work
  std::chrono::steady_clock::time_point at;
  bool recorded = false;
};

struct Function {
  const Kernel *kernel;
};

// Returns the number in an environment variable, or `standard` if it is unset.
long long setting(const char *name, long long standard);

// Every function of the interface begins with a Call, which takes the lock and writes the log.
class Call {
 public:
  Call(const char *name, bool needs_context, const std::string &about = "");
  CUresult refused;  // the function must return this code unless it is 0
 private:
  std::lock_guard<std::recursive_mutex> held;
};

void *&context_of_thread();

// Runs the work, or adds it to the stream's capture. With PACELINE_SOFTWARE_LATE the work runs when
// a call waits for it.
CUresult enqueue(Stream *s, std::function<CUresult()> work);

// Run the waiting work of all streams, or of one stream.
void finish_all();
CUresult finish(Stream *s);

bool late();

CUresult run(const Graph &graph);

}  // namespace software

#define API extern "C" __attribute__((visibility("default"))) CUresult

/* Begins a function of the interface. ENTER_CONTEXT needs a current context. */
#define ENTER(name)                 \
  software::Call call(name, false); \
  if (call.refused != 0) return call.refused
#define ENTER_CONTEXT(name)        \
  software::Call call(name, true); \
  if (call.refused != 0) return call.refused

#endif
