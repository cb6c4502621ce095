/*
 * Runs the blocks of a launch, one after another. The threads of a block are fibers on the calling
 * thread, so that a barrier costs about twenty instructions per thread. With
 * PACELINE_SOFTWARE_THREADS=1 they are system threads with real barriers, so that the thread
 * sanitizer finds data races of a kernel.
 */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <ucontext.h>
#endif

#include <condition_variable>
#include <mutex>
#include <thread>

// The ends of the section of __shared__ variables, which the linker defines.
extern "C" unsigned char __start_paceline_shared[] __attribute__((weak));
extern "C" unsigned char __stop_paceline_shared[] __attribute__((weak));

namespace software {

thread_local Thread *current;
Grid grid;

static const Kernel *kernels;

Kernel::Kernel(const char *name, size_t arg_bytes, unsigned threads, void (*call)(const void *))
    : name(name), arg_bytes(arg_bytes), threads(threads), call(call), next(kernels) {
  kernels = this;
}

const Kernel *find_kernel(const char *name) {
  const Kernel *k = kernels;
  while (k != nullptr && strcmp(k->name, name) != 0) k = k->next;
  return k;
}

// ------------------------------------------------------------------ barriers

// Barrier opens when all expected threads have arrived. A thread that ends is no longer expected.
struct Barrier {
  int expected = 0, arrived = 0;
  unsigned opened = 0;
  std::mutex lock;
  std::condition_variable open;
};

struct Warp {
  Barrier barrier;
  unsigned char handed[WARP][32];
};

static bool real_threads;
static Barrier block;
static Warp warps[MOST_THREADS / WARP];
static Thread threads[MOST_THREADS];

static void yield();
static int idle;  // switches of fibers since a barrier opened or a fiber ended

static void open(Barrier &b) {
  b.arrived = 0;
  b.opened++;
  if (real_threads)
    b.open.notify_all();
  else
    idle = 0;
}

static void wait(Barrier &b) {
  std::unique_lock<std::mutex> held(b.lock, std::defer_lock);
  if (real_threads) held.lock();
  const unsigned before = b.opened;
  if (++b.arrived == b.expected) {
    open(b);
    return;
  }
  while (b.opened == before) {
    if (real_threads)
      b.open.wait(held);
    else
      yield();
  }
}

static void leave(Barrier &b) {
  std::unique_lock<std::mutex> held(b.lock, std::defer_lock);
  if (real_threads) held.lock();
  if (--b.expected > 0 && b.arrived == b.expected) open(b);
}

void block_barrier() { wait(block); }
void warp_barrier() { wait(current->warp->barrier); }

const unsigned char (*exchange(const void *own, size_t bytes))[32] {
  Warp *w = current->warp;
  memcpy(w->handed[current->lane], own, bytes);
  warp_barrier();
  return w->handed;
}

// Initialises the shared memory, the barriers and the threads of a block.
static void start_block() {
  const int n = (int)(grid.threads.x * grid.threads.y * grid.threads.z);
  if (__start_paceline_shared != nullptr)
    memset(__start_paceline_shared, 0xFF, (size_t)(__stop_paceline_shared - __start_paceline_shared));
  block.expected = n;
  for (int i = 0; i < n; i++) {
    const unsigned row = (unsigned)i / grid.threads.x;
    threads[i] = {
        {(unsigned)i % grid.threads.x, row % grid.threads.y, row / grid.threads.y}, i % WARP, &warps[i / WARP]};
    warps[i / WARP].barrier.expected = i % WARP + 1;
  }
}

// Flushes denormals to zero, as the GPU does. Returns the previous mode.
static unsigned flush_denormals() {
#if defined(__x86_64__)
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040);
  return mode;
#else
  return 0;
#endif
}

static void restore_mode(unsigned mode) {
#if defined(__x86_64__)
  _mm_setcsr(mode);
#else
  (void)mode;
#endif
}

// -------------------------------------------------------------------- fibers

static struct {
  const Kernel *kernel;
  const void *args;
  int fibers;   // of the block
  int running;  // fibers that have not ended
  int now;      // the fiber that runs
  bool ended[MOST_THREADS];
  bool last_first;  // run blocks and their threads in reverse order
} work;

enum { STACK = 64 << 10 };
static unsigned char *stacks;  // of all fibers

static void fiber_main();

#if defined(__x86_64__)

// Saves the callee-saved registers on this stack, switches to the other stack, and restores its
// registers.
extern "C" void paceline_switch(void **from, void *to);
asm(R"(
.text
.local paceline_switch
.type paceline_switch, @function
paceline_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");

static void *contexts[MOST_THREADS + 1];  // stack pointers; the last one is that of launch's caller

static void make_fiber(int i) {
  void **top = (void **)(stacks + (size_t)(i + 1) * STACK);
  *--top = nullptr;             // a return address for fiber_main, which never returns; aligns the stack
  *--top = (void *)fiber_main;  // popped by ret
  top -= 6;                     // registers
  contexts[i] = top;
}

static void switch_to(int from, int to) { paceline_switch(&contexts[from], contexts[to]); }

#else

static ucontext_t contexts[MOST_THREADS + 1];

static void make_fiber(int i) {
  getcontext(&contexts[i]);
  contexts[i].uc_stack.ss_sp = stacks + (size_t)i * STACK;
  contexts[i].uc_stack.ss_size = STACK;
  makecontext(&contexts[i], fiber_main, 0);
}

static void switch_to(int from, int to) { swapcontext(&contexts[from], &contexts[to]); }

#endif

static void go_to(int next) {
  const int from = work.now;
  work.now = next;
  if (next < work.fibers) current = &threads[next];
  switch_to(from, next);
}

// Switches to the next fiber that has not ended.
static void yield() {
  if (++idle > 2 * work.fibers) {
    fprintf(stderr, "software device: %s: deadlock: all threads of a block wait\n", work.kernel->name);
    abort();
  }
  int next = work.now;
  do next = (next + (work.last_first ? work.fibers - 1 : 1)) % work.fibers;
  while (work.ended[next]);
  if (next != work.now) go_to(next);
}

static void fiber_main() {
  work.kernel->call(work.args);
  leave(current->warp->barrier);
  leave(block);
  idle = 0;
  work.ended[work.now] = true;
  if (--work.running == 0)
    go_to(work.fibers);  // the caller of launch
  else
    yield();
  abort();  // a fiber that has ended must not be resumed
}

static void run_fibers() {
  const int n = block.expected;
  work.fibers = work.running = n;
  idle = 0;
  for (int i = 0; i < n; i++) {
    work.ended[i] = false;
    make_fiber(i);
  }
  work.now = n;  // the caller of launch
  go_to(work.last_first ? n - 1 : 0);
  current = nullptr;
}

// ------------------------------------------------------- threads of the system

// Pool has the system threads, which are started once. Thread i runs thread i of every block that
// has more than i threads.
struct Pool {
  std::mutex lock;
  std::condition_variable start, done;
  unsigned round = 0;  // number of blocks so far
  int made = 0, wanted = 0, left = 0;
};

static void work_for(Pool &pool, int i, unsigned seen) {
  flush_denormals();
  for (;;) {
    {
      std::unique_lock<std::mutex> held(pool.lock);
      pool.start.wait(held, [&] { return pool.round != seen; });
      seen = pool.round;
      if (i >= pool.wanted) continue;
    }
    current = &threads[i];
    work.kernel->call(work.args);
    leave(current->warp->barrier);
    leave(block);
    std::unique_lock<std::mutex> held(pool.lock);
    if (--pool.left == 0) pool.done.notify_one();
  }
}

static void run_threads() {
  static Pool &pool = *new Pool();  // never freed: its threads wait in it until the process ends
  std::unique_lock<std::mutex> held(pool.lock);
  pool.wanted = pool.left = block.expected;
  for (; pool.made < pool.wanted; pool.made++) std::thread(work_for, std::ref(pool), pool.made, pool.round).detach();
  pool.round++;
  pool.start.notify_all();
  pool.done.wait(held, [] { return pool.left == 0; });
}

bool reversed() {
  const char *asked = getenv("PACELINE_SOFTWARE_ORDER");
  return asked != nullptr && strcmp(asked, "reverse") == 0;
}

void launch(const Kernel &kernel, uint3 blocks, uint3 threads_of_block, const void *args) {
  const char *asked = getenv("PACELINE_SOFTWARE_THREADS");
  real_threads = asked != nullptr && strcmp(asked, "1") == 0;
  if (stacks == nullptr && !real_threads)
    stacks = (unsigned char *)mmap(nullptr, (size_t)MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  work.kernel = &kernel;
  work.args = args;
  grid.blocks = blocks;
  grid.threads = threads_of_block;
  const unsigned mode = flush_denormals();
  work.last_first = reversed();
  const uint64_t n = (uint64_t)blocks.x * blocks.y * blocks.z;
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t b = work.last_first ? n - 1 - i : i, row = b / blocks.x;
    grid.block = {(unsigned)(b % blocks.x), (unsigned)(row % blocks.y), (unsigned)(row / blocks.y)};
    start_block();
    if (real_threads)
      run_threads();
    else
      run_fibers();
  }
  restore_mode(mode);
}

}  // namespace software
