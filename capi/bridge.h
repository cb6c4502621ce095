/* What the C files and the Go files share. */
#ifndef PACELINE_BRIDGE_H
#define PACELINE_BRIDGE_H

#include "paceline.h"

/* Bytes of one error text, its NUL included; longer ones are cut. */
#define PL_TEXT 1024

/* What an export of Go reports when it fails: every one of them has such a pointer as its
 * last argument. */
typedef struct pl_error {
  int64_t index; /* the environment that failed, or -1 */
  char text[PL_TEXT];
} pl_error;

/* The longest texts that are taken, in bytes. */
#define PL_LONGEST_NAME 1023
#define PL_LONGEST_PATH 4095
#define PL_LONGEST_VALUE 65535
#define PL_LONGEST_JSON (1 << 20)

/* ---- float.c: the floating-point mode is part of the arithmetic. */

/* Sets the mode that everything here computes in (round to nearest, no flush to
 * zero, no traps) and returns the host's, for pl_float_leave. */
unsigned pl_float_enter(void);
void pl_float_leave(unsigned mode);

/* ---- loading.c: what loading leaves as it was. */

/* Descriptors that Go needs to start: epoll, eventfd, and what it reads and closes again. */
#define PL_DESCRIPTORS 8

/* 0 where fewer were left, and Go was not started: nothing may call into Go then. */
int pl_startable(void);

/* ---- thread.c: what belongs to a thread, and the fork flag. */

/* Not 0 in a child of fork() of the process that loaded the library. */
int pl_forked(void);

/* Not 0 where this thread is in a function of the host's and the caller's frame is not on the
 * stack of the thread: a coroutine's, which Go would take for an overflow of its own. */
int pl_on_other_stack(const void *frame);

/* Prepares this thread for its first call into Go; later ones return at once. */
void pl_thread_enter(void);

/* Stores text as this thread's error, about no environment, and returns code. */
int pl_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Stores what Go has reported as this thread's error and returns code. */
int pl_failed(int code, const pl_error *why);

/* The text that this thread's callback set since pl_callback_clear, or NULL. */
const char *pl_callback_text(void);
void pl_callback_clear(void);

/* A function of the host's that this thread is in: of an environment's family, or
 * PL_OPENING while a file's environment is asked for. In memory of the caller's, innermost
 * first. What would wait for such a function to return is refused inside it. */
typedef struct pl_inside {
  const void *what;
  struct pl_inside *outer;
} pl_inside;

extern const char pl_opening[];
#define PL_OPENING ((const void *)pl_opening)

void pl_inside_enter(pl_inside *it, const void *what);
void pl_inside_leave(pl_inside *it);
/* Whether this thread is in one of what. */
int pl_is_inside(const void *what);
int pl_is_opening(void);

/* ---- trampoline.c: calls into an environment table, for Go. */

/* One family of environments: a copy of the host's table. */
typedef struct pl_family {
  paceline_env_table table;
  void *user;
  void (*release)(void *user);
} pl_family;

/* One environment and the arguments of the call in progress, so that a step
 * allocates nothing. */
typedef struct pl_env {
  const pl_family *family;
  void *env;
  int32_t action;
  float reward;
  uint8_t ended;
  char *text; /* of a call that failed, or NULL; freed by Go */
} pl_env;

int pl_env_spec(const pl_family *f, paceline_spec *obs, paceline_spec *action, char **text);
int pl_env_create(pl_env *e, uint32_t index, uint64_t seed);
int pl_env_reset(pl_env *e, void *obs);
int pl_env_step(pl_env *e, void *obs);
int pl_env_mask(pl_env *e, uint8_t *mask);
int pl_env_save(pl_env *e, void *buf, size_t *len);
int pl_env_restore(pl_env *e, const void *buf, size_t len);
void pl_env_destroy(pl_env *e);
void pl_family_release(pl_family *f);

/* ---- plugin.c, and trampoline.c for the call: environments in files of their own. */

/* Loads the file and finds its function; NULL where that fails. *text: why, freed by Go. */
paceline_env_open_function *pl_plugin_load(const char *path, char **text);

/* Asks it for the file's environment. *text: what is wrong, or NULL; freed by Go. */
int pl_plugin_open(paceline_env_open_function *open, paceline_env_plugin *out, char **text);

#endif
