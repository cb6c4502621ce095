/* Declarations that the C files and the Go files share. */
#ifndef PACELINE_BRIDGE_H
#define PACELINE_BRIDGE_H

#include "paceline.h"

/* Bytes of one error text, its NUL included; longer ones are cut. */
#define PL_TEXT 1024

/* The error of an exported Go function: the last argument of each function that can fail. */
typedef struct pl_error {
  int64_t index; /* the environment or row that failed or was refused, or -1 */
  char text[PL_TEXT];
} pl_error;

/* The longest texts that are accepted, in bytes without the NUL. */
#define PL_LONGEST_NAME 1023
#define PL_LONGEST_PATH 4095
#define PL_LONGEST_VALUE 65535
#define PL_LONGEST_JSON (1 << 20)

/* ---- float.c: the floating-point mode. */

/* Sets the mode of all computation here (round to nearest, no flush to zero, no traps) and
 * returns the host's mode, for pl_float_leave. */
unsigned pl_float_enter(void);
void pl_float_leave(unsigned mode);

/* ---- loading.c: loading the library. */

/* Descriptors that Go needs to start: epoll, eventfd, and files that it reads and closes. */
#define PL_DESCRIPTORS 8

/* 0 if fewer were left at loading. Go was not started then, and no function may call Go. */
int pl_startable(void);

/* ---- thread.c: the state of a thread, and the fork flag. */

/* Not 0 in a child of fork() of the process that loaded the library. */
int pl_forked(void);

/* Not 0 if this thread is in a function of the host and frame is not on the thread's own stack.
 * Go would take a coroutine's stack for an overflow of its own. */
int pl_on_other_stack(const void *frame);

/* Prepares this thread for its first call into Go; later ones return at once. */
void pl_thread_enter(void);

/* Stores the text as this thread's error, with no environment, and returns code. */
int pl_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Stores the error that Go has reported as this thread's error and returns code. */
int pl_failed(int code, const pl_error *why);

/* The text that this thread's callback set since pl_callback_clear, or NULL. */
const char *pl_callback_text(void);
void pl_callback_clear(void);

/* The functions of the host that this thread is in, the innermost first. owner: the family of an
 * environment, or PL_OPENING for the constructors and paceline_env_open of a plugin. The memory is
 * the caller's. A call that would wait for such a function to return is refused inside it. */
typedef struct pl_inside {
  const void *owner;
  struct pl_inside *outer;
} pl_inside;

extern const char pl_opening[];
#define PL_OPENING ((const void *)pl_opening)

void pl_inside_enter(pl_inside *it, const void *owner);
void pl_inside_leave(pl_inside *it);
/* Whether this thread is in a function of owner. */
int pl_is_inside(const void *owner);
int pl_is_opening(void);

/* ---- trampoline.c: calls into an environment table, for Go. */

/* One family of environments: a copy of the host's table. */
typedef struct pl_family {
  paceline_env_table table;
  void *user;
  void (*release)(void *user);
} pl_family;

/* One environment, and the arguments of its call in progress: a step allocates nothing. */
typedef struct pl_env {
  const pl_family *family;
  void *env;
  uint32_t *action; /* int32 and float; after the struct */
  float reward;
  uint8_t ended;
  char *text; /* the text of a failed call, or NULL; Go frees it */
} pl_env;

/* The arguments of step_many, in memory of C's for as many environments as were asked for. */
typedef struct pl_batch {
  void **envs;
  void **obs;
  uint32_t *rows;
  char *actions;
  float *rewards;
  uint8_t *ended;
} pl_batch;

/* NULL where memory is short. Freed by free. */
pl_batch *pl_batch_new(uint32_t n, size_t action_size);

int pl_env_spec(const pl_family *f, paceline_spec *obs, paceline_spec *action, char **text);
int pl_env_create(pl_env *e, uint32_t index, uint64_t seed);
int pl_env_reset(pl_env *e, void *obs);
int pl_env_step(pl_env *e, void *obs);
/* One step of n environments of a family. The row of envs[k] is at obs + rows[k] * size, which is
 * Go's memory. text as in pl_env_spec. */
int pl_env_step_many(const pl_family *f, pl_batch *b, uint32_t n, void *obs, size_t size, char **text);
int pl_env_mask(pl_env *e, uint8_t *mask);
int pl_env_save(pl_env *e, void *buf, size_t *len);
int pl_env_restore(pl_env *e, const void *buf, size_t len);
void pl_env_destroy(pl_env *e);
void pl_family_release(pl_family *f);

/* ---- plugin.c, and trampoline.c for the call: environments in files of their own. */

/* Loads the file and returns its function; NULL on failure, with the reason in *text. Go frees
 * *text. */
paceline_env_open_function *pl_plugin_load(const char *path, char **text);

/* Calls open. *text: the text of a failure, or NULL; Go frees it. */
int pl_plugin_open(paceline_env_open_function *open, paceline_env_plugin *out, char **text);

#endif
