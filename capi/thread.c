/*
 * Thread-local data is one pointer: with a larger block, dlopen fails in
 * processes that have loaded other libraries before ("cannot allocate memory in
 * static TLS block").
 */
#include "bridge.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct texts {
  char error[PL_TEXT];
  char callback[PL_TEXT];
  int has_callback;
} texts;

/* initial-exec, as Go's own thread-local word is: no call to find it. */
static __thread texts *mine __attribute__((tls_model("initial-exec")));
static texts no_memory = {.error = "out of memory while an error's text was being kept"};

static pthread_key_t key;
static volatile sig_atomic_t forked;

static void thread_ends(void *block) {
  mine = NULL; /* a later destructor of this thread may call us again */
  free(block);
}

static void child_begins(void) { forked = 1; }

__attribute__((constructor(101))) static void prepare(void) {
  pthread_key_create(&key, thread_ends);
  pthread_atfork(NULL, NULL, child_begins);
}

int pl_forked(void) { return forked; }

static texts *my_texts(void) {
  if (mine == NULL || mine == &no_memory) {
    texts *block = calloc(1, sizeof *block);
    if (block == NULL || pthread_setspecific(key, block) != 0) {
      free(block);
      mine = &no_memory;
      return NULL;
    }
    mine = block;
  }
  return mine;
}

int pl_fail(int code, const char *format, ...) {
  texts *t = my_texts();
  if (t != NULL) {
    va_list args;
    va_start(args, format);
    vsnprintf(t->error, sizeof t->error, format, args);
    va_end(args);
  }
  return code;
}

const char *paceline_last_error(void) { return mine == NULL ? "" : mine->error; }

void paceline_set_callback_error(const char *text) {
  texts *t = text == NULL ? NULL : my_texts();
  if (t != NULL) {
    snprintf(t->callback, sizeof t->callback, "%s", text);
    t->has_callback = 1;
  }
}

const char *pl_callback_text(void) { return mine != NULL && mine->has_callback ? mine->callback : NULL; }

void pl_callback_clear(void) {
  if (mine != NULL && mine != &no_memory) mine->has_callback = 0;
}
