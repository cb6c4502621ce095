/*
 * The state of a thread. Thread-local data is one pointer: with a larger block dlopen fails in
 * processes that have loaded other libraries before ("cannot allocate memory in static TLS
 * block").
 */
#define _GNU_SOURCE /* pthread_getattr_np */
#include "bridge.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "_cgo_export.h"

typedef struct thread_state {
  pl_error error;
  char callback[PL_TEXT];
  int has_callback;
  int entered;         /* the thread has called Go */
  pl_inside *inside;   /* the innermost function of the host that the thread is in */
  uintptr_t low, high; /* the thread's own stack; 0 until find_stack */
} thread_state;

/* initial-exec, as Go's own thread-local word: access needs no call. */
static __thread thread_state *state __attribute__((tls_model("initial-exec")));
static thread_state no_memory = {.error = {-1, "out of memory while an error's text was being stored"}};

static pthread_key_t key;
static int no_key; /* the host uses all keys */
static volatile sig_atomic_t forked;

static void thread_ends(void *block) {
  state = NULL; /* a later destructor of this thread may call the library again */
  free(block);
}

static void child_begins(void) { forked = 1; }

__attribute__((constructor(101))) static void prepare(void) {
  no_key = pthread_key_create(&key, thread_ends) != 0;
  pthread_atfork(NULL, NULL, child_begins);
}

int pl_forked(void) { return forked; }

static thread_state *own_state(void) {
  if (state == NULL || state == &no_memory) {
    thread_state *block = no_key ? NULL : calloc(1, sizeof *block);
    if (block == NULL || pthread_setspecific(key, block) != 0) {
      free(block);
      state = &no_memory;
      return NULL;
    }
    block->error.index = -1;
    state = block;
  }
  return state;
}

/* Go unblocks some signals at a thread's first call and leaves them unblocked until the thread
 * ends. The host's mask is restored after that call. */
void pl_thread_enter(void) {
  sigset_t mask;
  if (state != NULL && state->entered) return;
  thread_state *t = own_state();
  if (t != NULL) t->entered = 1;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  pacelineGoNothing();
  pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

int pl_fail(int code, const char *format, ...) {
  thread_state *t = own_state();
  if (t != NULL) {
    va_list args;
    va_start(args, format);
    vsnprintf(t->error.text, sizeof t->error.text, format, args);
    va_end(args);
    t->error.index = -1;
  }
  return code;
}

int pl_failed(int code, const pl_error *why) {
  pl_fail(code, "%s", why->text);
  if (state != &no_memory) state->error.index = why->index;
  return code;
}

const char *paceline_last_error(void) { return state == NULL ? "" : state->error.text; }
int64_t paceline_last_error_index(void) { return state == NULL ? -1 : state->error.index; }

void paceline_set_callback_error(const char *text) {
  thread_state *t = text == NULL ? NULL : own_state();
  if (t != NULL) {
    snprintf(t->callback, sizeof t->callback, "%s", text);
    t->has_callback = 1;
  }
}

const char *pl_callback_text(void) { return state != NULL && state->has_callback ? state->callback : NULL; }

void pl_callback_clear(void) {
  if (state != NULL && state != &no_memory) state->has_callback = 0;
}

void pl_inside_enter(pl_inside *it, const void *owner) {
  thread_state *t = own_state();
  it->owner = owner;
  if (t == NULL) return; /* without memory, calls inside are not refused */
  it->outer = t->inside;
  t->inside = it;
}

void pl_inside_leave(pl_inside *it) {
  if (state != NULL && state->inside == it) state->inside = it->outer;
}

const char pl_opening[] = "";
int pl_is_opening(void) { return pl_is_inside(PL_OPENING); }

/* Finds the stack that the system gave this thread. Without /proc the C library does not know the
 * main thread's stack: it ends at the program's name and is as large as the limit allows. */
static void find_stack(thread_state *t) {
  pthread_attr_t attr;
  void *low = NULL;
  size_t size = 0;
  struct rlimit most;
  pthread_attr_init(&attr);
  if (pthread_getattr_np(pthread_self(), &attr) == 0 && pthread_attr_getstack(&attr, &low, &size) == 0) {
    t->low = (uintptr_t)low;
    t->high = t->low + size;
  } else {
    t->high = (uintptr_t)getauxval(AT_EXECFN);
    t->low = getrlimit(RLIMIT_STACK, &most) != 0 || most.rlim_cur > t->high / 2 ? t->high / 2 : t->high - most.rlim_cur;
  }
  pthread_attr_destroy(&attr);
}

int pl_on_other_stack(const void *frame) {
  thread_state *t = state;
  if (t == NULL || t->inside == NULL) return 0;
  if (t->high == 0) find_stack(t);
  uintptr_t here = (uintptr_t)frame, outer = (uintptr_t)t->inside;
  return here < t->low || here >= outer || outer >= t->high;
}

int pl_is_inside(const void *owner) {
  for (pl_inside *it = state == NULL ? NULL : state->inside; it != NULL; it = it->outer)
    if (it->owner == owner) return 1;
  return 0;
}
