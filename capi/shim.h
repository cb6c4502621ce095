/*
 * Macros of the shim_*.c files. These files have one function for each of include/paceline.h;
 * functions that cannot fail are in info.c and thread.c. Each function has three parts. ENTER
 * refuses calls that Go would not survive: in a forked child, on a coroutine's stack. C checks
 * the arguments as far as it can. GO calls the function of export_*.go in the library's
 * floating-point mode and stores its error for this thread.
 */
#ifndef PACELINE_SHIM_H
#define PACELINE_SHIM_H

#include "bridge.h"

#include <signal.h>
#include <string.h>

#include "_cgo_export.h"

_Static_assert(sizeof(void *) == 8, "handles are 64-bit ids, typed as pointers");

#define ENTER    \
  pl_error why;  \
  unsigned mode; \
  int code;      \
  if ((code = shim_refused(__builtin_frame_address(0))) != PACELINE_OK) return code

#define GO(call)                                                                    \
  (pl_thread_enter(), mode = pl_float_enter(), code = (call), pl_float_leave(mode), \
   code == PACELINE_OK ? code : pl_failed(code, &why))

/* GO for calls that write a file. At the process's limit of file sizes (RLIMIT_FSIZE) the system
 * sends SIGXFSZ, which would end the host. With the signal blocked the write fails instead. */
#define GO_WRITING(call)          \
  do {                            \
    sigset_t was;                 \
    shim_block_file_size(&was);   \
    GO(call);                     \
    shim_unblock_file_size(&was); \
    return code;                  \
  } while (0)

#define NEED(...)                                                                                         \
  do {                                                                                                    \
    const void *const pointers[] = {__VA_ARGS__};                                                         \
    if ((code = shim_need(#__VA_ARGS__, pointers, sizeof pointers / sizeof *pointers)) != 0) return code; \
  } while (0)

#define TEXT(text, longest)                                               \
  do {                                                                    \
    NEED(text);                                                           \
    if ((code = shim_check_text(#text, text, longest)) != 0) return code; \
  } while (0)

#define PATH(path)                                                                        \
  do {                                                                                    \
    TEXT(path, PL_LONGEST_PATH);                                                          \
    if (*(path) == 0) return pl_fail(PACELINE_EINVAL, #path ": empty, must name a file"); \
  } while (0)

/* Refuses a struct of a newer header, and one smaller than the first version's. */
#define SIZED(pointer, type)                                                              \
  do {                                                                                    \
    code = shim_check_size(#pointer, (pointer)->struct_size, FIRST_##type, sizeof(type)); \
    if (code != PACELINE_OK) return code;                                                 \
  } while (0)

/* full: a copy of *pointer. Fields that an older header lacks are zero. */
#define COPY(type, full, pointer) \
  NEED(pointer);                  \
  SIZED(pointer, type);           \
  type full = {0};                \
  shim_copy_in(&full, pointer)

/* The same for a pointer that may be NULL: full_or_null is then NULL. */
#define COPY_OR_NULL(type, full, pointer) \
  type full = {0};                        \
  if (pointer != NULL) {                  \
    SIZED(pointer, type);                 \
    shim_copy_in(&full, pointer);         \
  }                                       \
  type *full##_or_null = pointer == NULL ? NULL : &full

/* Calls Go, which writes an id to made, and writes the handle to *out. */
#define MAKE(out, call)                             \
  uint64_t made;                                    \
  if (GO(call) == PACELINE_OK) *out = handle(made); \
  return code

/* Calls Go, which fills in full, an empty struct, and copies full to *out on success. */
#define FILL(type, out, call)                             \
  SIZED(out, type);                                       \
  type full = {0};                                        \
  if (GO(call) == PACELINE_OK) shim_copy_out(out, &full); \
  return code

enum { /* sizes in the first version with PACELINE_ABI_VERSION 2 */
       FIRST_paceline_option = 40,
       FIRST_paceline_spec = 64,
       FIRST_paceline_rows = 104,
       FIRST_paceline_env_table = 72,
       FIRST_paceline_stats = 96,
       FIRST_paceline_metric = 40,
       FIRST_paceline_parameter = 64,
       FIRST_paceline_act_options = 56,
       FIRST_paceline_eval_options = 48,
       FIRST_paceline_evaluation = 56,
       FIRST_paceline_vec_options = 32,
       FIRST_paceline_transitions = 56,
       FIRST_paceline_store_options = 72,
       FIRST_paceline_push = 48,
       FIRST_paceline_answer = 24,
       FIRST_paceline_gradient = 56,
       FIRST_paceline_steps = 48,
       FIRST_paceline_minibatch = 80
};

/* PACELINE_OK, or an error if Go may not be called. frame: the caller's. */
int shim_refused(const void *frame);
void shim_block_file_size(sigset_t *was);
void shim_unblock_file_size(const sigset_t *was);
int shim_need(const char *names, const void *const *pointers, size_t n);
int shim_check_text(const char *name, const char *text, size_t longest);
int shim_check_size(const char *name, uint32_t given, size_t first, size_t known);

/* Copy struct_size bytes from and to the caller's struct. */
static inline void shim_copy_in(void *full, const void *in) { memcpy(full, in, *(const uint32_t *)in); }

static inline void shim_copy_out(void *out, void *full) {
  uint32_t size = *(uint32_t *)out;
  *(uint32_t *)full = size;
  memcpy(out, full, size);
}

static inline uint64_t id(const void *handle) { return (uint64_t)(uintptr_t)handle; }
static inline void *handle(uint64_t id) { return (void *)(uintptr_t)id; }

#define SPEC(noun, it, go)                                                                           \
  int paceline_##noun##_spec(paceline_spec *obs, paceline_spec *action, const paceline_##noun *it) { \
    ENTER;                                                                                           \
    NEED(obs, action, it);                                                                           \
    SIZED(obs, paceline_spec);                                                                       \
    SIZED(action, paceline_spec);                                                                    \
    paceline_spec o = {0}, a = {0};                                                                  \
    if (GO(go(&o, &a, id(it), &why)) == PACELINE_OK) {                                               \
      shim_copy_out(obs, &o);                                                                        \
      shim_copy_out(action, &a);                                                                     \
    }                                                                                                \
    return code;                                                                                     \
  }

/* A free that waits for functions of the host, and is refused inside them. */
#define FREE_OUTSIDE(noun, go)                              \
  int paceline_##noun##_free(paceline_##noun *it) {         \
    ENTER;                                                  \
    return it == NULL ? PACELINE_OK : GO(go(id(it), &why)); \
  }

#define FREE(noun, go)                                                                 \
  void paceline_##noun##_free(paceline_##noun *it) {                                   \
    if (it == NULL || shim_refused(__builtin_frame_address(0)) != PACELINE_OK) return; \
    pl_thread_enter();                                                                 \
    unsigned mode = pl_float_enter();                                                  \
    go(id(it));                                                                        \
    pl_float_leave(mode);                                                              \
  }

#endif
