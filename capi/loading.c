/*
 * What happens while the library is loaded, before and after Go's own constructor. Loading must
 * leave the process as it was:
 *
 *   - The floating-point mode of the loading thread, which Go's first thread and so all of Go's
 *     threads inherit, is ours while Go starts (float.c), and the host's again afterwards.
 *   - So is the signal mask. Go's threads accept only the signals that Go itself needs: a signal
 *     for the process must not end up on one of them where the host has blocked it.
 *   - Go adds SA_ONSTACK to every handler of the host's that it does not replace. A host that
 *     walks the stack in a handler, or has small alternate stacks, breaks by that: the host's
 *     actions are put back.
 *   - Go opens an epoll and an eventfd descriptor some milliseconds after its start, and ends the
 *     process where it cannot. They are opened before loading ends, so that the host can rely on
 *     which descriptors are whose. Where too few are left, Go is not started at all, and every
 *     call is refused (pl_startable).
 *
 * A thread inherits cores, scheduling policy and niceness from the thread that starts it, which
 * may be one of the host's that was bound to a core or made a real-time thread. The library's
 * threads all get what the process's main thread had while the library was loaded.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "bridge.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "_cgo_export.h"

static unsigned loader_mode;
static sigset_t loader_mask;
static struct sigaction host_actions[NSIG];
static int startable, loading;
static cpu_set_t cores;
static struct sched_param parameters;
static int cores_known, policy, niceness;

/* The linker's name for pthread_create in the library, where capi/build.sh has it wrapped. In a
 * program of Go's, as this package's tests are, there is none: Go starts after the constructors
 * there, which have nothing to do. */
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) __attribute__((weak));
static int is_library(void) { return __real_pthread_create != NULL; }

int pl_startable(void) { return startable || !is_library(); }

static int descriptors_left(void) {
  int fd[PL_DESCRIPTORS], n = 0;
  while (n < PL_DESCRIPTORS && (fd[n] = epoll_create1(EPOLL_CLOEXEC)) >= 0) n++;
  for (int i = 0; i < n; i++) close(fd[i]);
  return n == PL_DESCRIPTORS;
}

/* Constructors with a priority run before those without, as Go's is. */
__attribute__((constructor(101))) static void before_go(void) {
  static const int needed[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGURG};
  sigset_t others;
  if (!is_library()) return;
  startable = descriptors_left();
  cores_known = sched_getaffinity(getpid(), sizeof cores, &cores) == 0;
  policy = sched_getscheduler(getpid());
  sched_getparam(getpid(), &parameters);
  niceness = getpriority(PRIO_PROCESS, (id_t)getpid());
  loading = 1;
  loader_mode = pl_float_enter();
  for (int s = 1; s < NSIG; s++) sigaction(s, NULL, &host_actions[s]);
  sigfillset(&others);
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) sigdelset(&others, needed[i]);
  pthread_sigmask(SIG_BLOCK, &others, &loader_mask);
}

typedef struct start {
  void *(*f)(void *);
  void *argument;
} start;

static void *begin(void *argument) {
  start s = *(start *)argument;
  free(argument);
  if (cores_known) sched_setaffinity(0, sizeof cores, &cores);
  if (sched_getscheduler(0) != policy) sched_setscheduler(0, policy, &parameters);
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), niceness); /* which may not be allowed */
  return s.f(s.argument);
}

/* The linker puts this in the place of pthread_create in the library (capi/build.sh). While
 * loading, Go calls it once, for the thread that starts Go. */
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*f)(void *), void *argument) {
  if (loading && !startable) return 0;
  start *s = malloc(sizeof *s);
  if (s == NULL) return EAGAIN;
  *s = (start){f, argument};
  int code = __real_pthread_create(id, attr, begin, s);
  if (code != 0) free(s);
  return code;
}

static void *open_descriptors(void *unused) {
  pacelineGoOpenDescriptors();
  return unused;
}

/* Go's constructor comes first among those without a priority, as the linker puts Go's object
 * first. ctest/float_mode.c and ctest/signals.c fail if that ever changes. */
__attribute__((constructor)) static void after_go(void) {
  pthread_t opens;
  if (!is_library()) return;
  loading = 0;
  for (int s = 1; s < NSIG; s++) {
    struct sigaction is;
    const struct sigaction *was = &host_actions[s];
    if (sigaction(s, NULL, &is) != 0) continue;
    if (startable ? is.sa_handler == was->sa_handler && is.sa_flags != was->sa_flags
                  : is.sa_handler != was->sa_handler || is.sa_flags != was->sa_flags)
      sigaction(s, was, NULL);
  }
  /* On a thread of its own: Go would give the loading thread an alternate signal stack. */
  if (startable && pthread_create(&opens, NULL, open_descriptors, NULL) == 0) pthread_join(opens, NULL);
  pthread_sigmask(SIG_SETMASK, &loader_mask, NULL);
  pl_float_leave(loader_mode);
}
