/* The functions of shim.h's macros, and small parts of the header: environments in files of
 * their own (section 5), paceline_devices (section 2), benchmarks (section 10). */
#include "shim.h"

#include <pthread.h>
#include <time.h>

int shim_refused(const void *frame) {
  if (pl_forked())
    return pl_fail(
        PACELINE_EFORKED,
        "the library was loaded before this process was forked and has no threads here; load it in the child "
        "itself, or start the child with exec (spawn)");
  if (!pl_startable())
    return pl_fail(
        PACELINE_EFAIL,
        "the library could not start: fewer than %d file descriptors were left when it was loaded; raise the "
        "limit (ulimit -n) or close some, and load it in a new process",
        PL_DESCRIPTORS);
  if (pl_on_other_stack(frame))
    return pl_fail(
        PACELINE_EFAIL,
        "called inside a function of yours from another stack (a coroutine's or a fiber's): call the library "
        "on the thread's own stack, or after the function has returned");
  return PACELINE_OK;
}

void shim_block_file_size(sigset_t *was) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &only, was);
}

/* Discards the signal of a failed write, unless the host has blocked it and reads it itself. */
void shim_unblock_file_size(const sigset_t *was) {
  sigset_t only;
  if (sigismember(was, SIGXFSZ)) return;
  sigemptyset(&only);
  sigaddset(&only, SIGXFSZ);
  while (sigtimedwait(&only, NULL, &(struct timespec){0, 0}) == SIGXFSZ) continue;
  pthread_sigmask(SIG_SETMASK, was, NULL);
}

int shim_need(const char *names, const void *const *pointers, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (pointers[i] == NULL) {
      for (; i > 0; i--) names = strchr(names, ',') + 2;
      return pl_fail(PACELINE_EINVAL, "%.*s: NULL, must point to something", (int)strcspn(names, ","), names);
    }
  return PACELINE_OK;
}

/* Whether text is UTF-8: complete characters in their shortest form, without surrogates. */
static int is_utf8(const unsigned char *c) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  while (*c != 0) {
    int more = *c < 0x80 ? 0 : *c < 0xC0 ? -1 : *c < 0xE0 ? 1 : *c < 0xF0 ? 2 : *c < 0xF8 ? 3 : -1;
    if (more < 0) return 0;
    uint32_t character = more == 0 ? *c : *c & (0x3F >> more);
    for (int i = 0; i < more; i++) {
      if ((*++c & 0xC0) != 0x80) return 0;
      character = character << 6 | (*c & 0x3F);
    }
    if (character < least[more] || character > 0x10FFFF || (character >= 0xD800 && character < 0xE000)) return 0;
    c++;
  }
  return 1;
}

int shim_check_text(const char *name, const char *text, size_t longest) {
  if (strnlen(text, longest + 1) > longest) return pl_fail(PACELINE_EINVAL, "%s: longer than %zu bytes", name, longest);
  if (!is_utf8((const unsigned char *)text)) return pl_fail(PACELINE_EINVAL, "%s: other bytes, must be UTF-8", name);
  return PACELINE_OK;
}

int shim_check_size(const char *name, uint32_t given, size_t first, size_t known) {
  if (given > known)
    return pl_fail(PACELINE_EVERSION, "%s.struct_size: %u, this library (%s) knows %zu bytes", name, given,
                   PACELINE_VERSION, known);
  if (given < first || given % 8 != 0) /* structs of every header are multiples of 8 bytes */
    return pl_fail(PACELINE_EINVAL, "%s.struct_size: %u, must be at least %zu (set it to sizeof)", name, given, first);
  return PACELINE_OK;
}

int paceline_env_load(char **out, const char *path) {
  ENTER;
  NEED(out);
  PATH(path);
  return GO(pacelineGoEnvLoad(out, (char *)path, &why));
}

int paceline_env_names(char **out) {
  ENTER;
  NEED(out);
  return GO(pacelineGoEnvNames(out, &why));
}

int paceline_devices(char **out) {
  ENTER;
  NEED(out);
  return GO(pacelineGoDevices(out, &why));
}

int paceline_bench(char **out, const char *name, const char *options) {
  ENTER;
  NEED(out);
  TEXT(name, PL_LONGEST_NAME);
  if (options != NULL) TEXT(options, PL_LONGEST_JSON);
  return GO(pacelineGoBench(out, (char *)name, (char *)options, &why));
}
