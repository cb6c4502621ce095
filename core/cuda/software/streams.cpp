/*
 * Streams, events, launches and graphs. Enqueued work runs immediately on the calling thread, or
 * with PACELINE_SOFTWARE_LATE as late as the driver may run it. A capturing stream adds nodes to
 * the graph instead; streams and events give the dependencies of a node. As in the driver, the end
 * of a capture fails if the work of another stream is not joined.
 */
#include "driver.h"

#include <stdlib.h>

namespace software {

static std::set<Stream *> streams;

bool late() { return setting("PACELINE_SOFTWARE_LATE", 0) != 0; }

// Runs a stream's work until `until` pieces are done since its start. A piece may run work of
// another stream first.
static CUresult finish(Stream *s, size_t until) {
  if (streams.count(s) == 0) return CUDA_SUCCESS;
  CUresult code = CUDA_SUCCESS;
  while (s->done < until && !s->waiting.empty()) {
    const auto work = std::move(s->waiting.front());
    s->waiting.pop_front();
    if (const CUresult failed = work()) code = failed;
    s->done++;
  }
  return code;
}

CUresult finish(Stream *s) { return finish(s, s->enqueued); }

void finish_all() {
  for (Stream *s : streams) finish(s);
}

CUresult enqueue(Stream *s, std::function<CUresult()> work) {
  if (s != nullptr && s->capture == nullptr && late()) {
    s->waiting.push_back(std::move(work));
    s->enqueued++;
    return CUDA_SUCCESS;
  }
  if (s == nullptr || s->capture == nullptr) return work();
  s->capture->graph.nodes.push_back({std::move(work), s->last});
  s->last = {s->capture->graph.nodes.size() - 1};
  return CUDA_SUCCESS;
}

CUresult run(const Graph &graph) {
  const bool reverse = reversed();
  const size_t n = graph.nodes.size();
  std::vector<bool> done(n);
  for (size_t count = 0; count < n; count++) {
    const auto ready = [&](size_t i) {
      if (done[i]) return false;
      for (size_t before : graph.nodes[i].after)
        if (!done[before]) return false;
      return true;
    };
    size_t i = reverse ? n - 1 : 0;
    while (!ready(i)) reverse ? i-- : i++;
    done[i] = true;
    if (const CUresult code = graph.nodes[i].work()) return code;
  }
  return CUDA_SUCCESS;
}

// Whether the nodes in `last` and their predecessors are all nodes of the graph.
static bool covers(const Graph &graph, const std::set<size_t> &last) {
  std::vector<bool> seen(graph.nodes.size());
  std::vector<size_t> todo(last.begin(), last.end());
  size_t count = 0;
  while (!todo.empty()) {
    const size_t i = todo.back();
    todo.pop_back();
    if (seen[i]) continue;
    seen[i] = true;
    count++;
    todo.insert(todo.end(), graph.nodes[i].after.begin(), graph.nodes[i].after.end());
  }
  return count == graph.nodes.size();
}

}  // namespace software

using namespace software;

API cuStreamCreateWithPriority(Stream **s, unsigned, int priority) {
  ENTER_CONTEXT("cuStreamCreateWithPriority");
  streams.insert(*s = new Stream());
  (*s)->priority = priority;
  return CUDA_SUCCESS;
}

API cuStreamDestroy_v2(Stream *s) {
  ENTER_CONTEXT("cuStreamDestroy_v2");
  if (streams.count(s) == 0) return CUDA_ERROR_INVALID_HANDLE;
  finish(s);
  streams.erase(s);
  delete s;
  return CUDA_SUCCESS;
}

API cuStreamSynchronize(Stream *s) {
  ENTER_CONTEXT("cuStreamSynchronize");
  if (s != nullptr && s->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return s == nullptr ? CUDA_SUCCESS : finish(s);
}

API cuStreamQuery(Stream *s) {
  ENTER_CONTEXT("cuStreamQuery");
  return s != nullptr && s->capture != nullptr ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

API cuStreamWaitEvent(Stream *s, Event *e, unsigned) {
  ENTER_CONTEXT("cuStreamWaitEvent");
  if (s == nullptr) return CUDA_SUCCESS;
  if (e->capture == nullptr) {
    Stream *before = e->stream;
    const size_t until = e->until;
    return before == nullptr ? CUDA_SUCCESS : enqueue(s, [before, until] { return finish(before, until); });
  }
  if (s->capture == nullptr) {
    s->capture = e->capture;  // the stream joins the capture
    s->last.clear();
  } else if (s->capture != e->capture) {
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  s->last.insert(e->last.begin(), e->last.end());
  return CUDA_SUCCESS;
}

// ------------------------------------------------------------------- events

API cuEventCreate(Event **e, unsigned) {
  ENTER_CONTEXT("cuEventCreate");
  *e = new Event();
  return CUDA_SUCCESS;
}

API cuEventDestroy_v2(Event *e) {
  ENTER_CONTEXT("cuEventDestroy_v2");
  delete e;
  return CUDA_SUCCESS;
}

API cuEventRecord(Event *e, Stream *s) {
  ENTER_CONTEXT("cuEventRecord");
  e->recorded = true;
  e->at = std::chrono::steady_clock::now();
  e->capture = s == nullptr ? nullptr : s->capture;
  e->last = s == nullptr ? std::set<size_t>() : s->last;
  e->stream = e->capture == nullptr ? s : nullptr;
  e->until = s == nullptr ? 0 : s->enqueued;
  return CUDA_SUCCESS;
}

API cuEventQuery(Event *e) {
  ENTER_CONTEXT("cuEventQuery");
  if (e->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (e->stream == nullptr || streams.count(e->stream) == 0 || e->stream->done >= e->until) return CUDA_SUCCESS;
  const CUresult code = finish(e->stream, e->stream->done + 1);  // a query lets the device make progress
  return code != CUDA_SUCCESS ? code : CUDA_ERROR_NOT_READY;
}

API cuEventSynchronize(Event *e) {
  ENTER_CONTEXT("cuEventSynchronize");
  if (e->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  return e->stream == nullptr ? CUDA_SUCCESS : finish(e->stream, e->until);
}

API cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
  ENTER_CONTEXT("cuEventElapsedTime");
  if (!start->recorded || !end->recorded) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - start->at).count();
  return CUDA_SUCCESS;
}

// ----------------------------------------------------------------- launches

API cuLaunchKernel(Function *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, Stream *s, void **params, void **extra) {
  Call call("cuLaunchKernel", true,
            std::string(f->kernel->name) + " " + std::to_string(s == nullptr ? 0 : s->priority));
  if (call.refused != 0) return call.refused;
  const Kernel *k = f->kernel;
  if (grid_x < 1 || grid_x > 0x7FFFFFFF || grid_y < 1 || grid_y > 65535 || grid_z < 1 || grid_z > 65535 ||
      block_x * block_y * block_z != k->threads || shared != 0 || params == nullptr || extra != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const unsigned char *from = static_cast<const unsigned char *>(params[0]);
  std::vector<unsigned char> bytes(from, from + k->arg_bytes);
  const uint3 blocks = {grid_x, grid_y, grid_z}, threads = {block_x, block_y, block_z};
  return enqueue(s, [k, bytes, blocks, threads] {
    alignas(16) unsigned char args[4096];
    memcpy(args, bytes.data(), bytes.size());
    return launch(*k, blocks, threads, args), CUDA_SUCCESS;
  });
}

// ------------------------------------------------------------------- graphs

API cuStreamBeginCapture_v2(Stream *s, int) {
  ENTER_CONTEXT("cuStreamBeginCapture_v2");
  if (s == nullptr || s->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  s->capture = std::make_shared<Capture>();
  s->capture->origin = s;
  s->last.clear();
  return CUDA_SUCCESS;
}

API cuStreamEndCapture(Stream *s, Graph **graph) {
  ENTER_CONTEXT("cuStreamEndCapture");
  const std::shared_ptr<Capture> capture = s->capture;
  *graph = nullptr;
  if (capture == nullptr || capture->origin != s) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  const bool joined = covers(capture->graph, s->last);
  for (Stream *t : streams)
    if (t->capture == capture) {
      t->capture = nullptr;
      t->last.clear();
    }
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = new Graph(capture->graph);
  return CUDA_SUCCESS;
}

API cuStreamIsCapturing(Stream *s, int *status) {
  ENTER_CONTEXT("cuStreamIsCapturing");
  *status = s != nullptr && s->capture != nullptr;
  return CUDA_SUCCESS;
}

API cuGraphInstantiateWithFlags(Graph **executable, Graph *graph, unsigned long long) {
  ENTER_CONTEXT("cuGraphInstantiateWithFlags");
  *executable = new Graph(*graph);
  return CUDA_SUCCESS;
}

API cuGraphGetNodes(Graph *graph, void **nodes, size_t *count) {
  ENTER_CONTEXT("cuGraphGetNodes");
  for (size_t i = 0; nodes != nullptr && i < *count; i++)
    nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
  if (nodes == nullptr || *count > graph->nodes.size()) *count = graph->nodes.size();
  return CUDA_SUCCESS;
}

API cuGraphLaunch(Graph *executable, Stream *s) {
  ENTER_CONTEXT("cuGraphLaunch");
  if (s != nullptr && s->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return enqueue(s, [executable] { return run(*executable); });
}

API cuGraphDestroy(Graph *graph) {
  ENTER_CONTEXT("cuGraphDestroy");
  delete graph;
  return CUDA_SUCCESS;
}

API cuGraphExecDestroy(Graph *executable) {
  ENTER_CONTEXT("cuGraphExecDestroy");
  finish_all();
  delete executable;
  return CUDA_SUCCESS;
}
