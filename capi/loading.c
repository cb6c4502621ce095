/*
 * Constructors before and after Go's own constructor. Loading must leave the process as it was:
 *
 *   - Floating-point mode. Go's first thread inherits the mode of the loading thread, and all of
 *     Go's threads descend from it. The loading thread has the library's mode while Go starts
 *     (float.c), and the host's mode again afterwards.
 *   - Signal mask. While Go starts, the mask blocks all signals except those that Go itself needs:
 *     the system must not deliver a signal that the host has blocked to a thread of Go.
 *   - Signal handlers. Go adds SA_ONSTACK to every handler of the host that it does not replace.
 *     This breaks a host that walks the stack in a handler or has small alternate stacks: the
 *     host's actions are restored.
 *   - Descriptors. Go opens an epoll and an eventfd descriptor some milliseconds after its start,
 *     and ends the process if it cannot. They are opened before loading ends, so that the host
 *     knows which descriptors are the library's. If too few are left, Go is not started, and
 *     every call is refused (pl_startable).
 *
 * A thread inherits cores, scheduling policy and niceness from the thread that starts it. That
 * thread may belong to the host and be bound to a core or run in real time. All threads of the
 * library get the values that the main thread of the process had at loading.
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

/* The linker's name for pthread_create in the library, where capi/build.sh wraps the function. A
 * Go program, such as this package's tests, has no such symbol: Go starts after the constructors
 * there, and they have nothing to do. */
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) __attribute__((weak));
static int is_library(void) { return __real_pthread_create != NULL; }

int pl_startable(void) { return startable || !is_library(); }

static int descriptors_left(void) {
  int fd[PL_DESCRIPTORS], n = 0;
  while (n < PL_DESCRIPTORS && (fd[n] = epoll_create1(EPOLL_CLOEXEC)) >= 0) n++;
  for (int i = 0; i < n; i++) close(fd[i]);
  return n == PL_DESCRIPTORS;
}

/* Constructors with a priority run before those without one; Go's has none. */
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
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), niceness); /* may fail without a privilege */
  return s.f(s.argument);
}

/* In the library the linker replaces pthread_create by this function (capi/build.sh). During
 * loading Go calls it once, for the thread that starts Go. */
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

/* Go's constructor runs first among those without a priority, because the linker puts Go's object
 * first. ctest/float_mode.c and ctest/signals.c fail if this changes. */
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
  /* On a new thread, because Go would give the loading thread an alternate signal stack. */
  if (startable && pthread_create(&opens, NULL, open_descriptors, NULL) == 0) pthread_join(opens, NULL);
  pthread_sigmask(SIG_SETMASK, &loader_mask, NULL);
  pl_float_leave(loader_mode);
}
