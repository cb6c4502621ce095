//go:build gpu && cgo && linux

/* The slots that trampolines.S jumps through. The first use of a device opens the driver's library
 * and fills the slots. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef void function(void);

/* gorgonia.org/cu calls cuInit while the process loads the library, and ends the process if cuInit
 * fails. This stand-in does nothing: openDriver in driver.go calls the driver's own cuInit. */
static CUresult succeed(void) { return CUDA_SUCCESS; }
static CUresult not_open(void) { return CUDA_ERROR_NOT_INITIALIZED; }
static CUresult lacks(void) { return CUDA_ERROR_NOT_FOUND; }

#define SYMBOL(number, name) {#name, 0},
#define NEEDED(number, name) {#name, 1},
#define INIT NEEDED
static const struct {
  const char *name;
  int needed;
} symbols[] = {
#include "symbols.h"
};
#undef SYMBOL
#undef NEEDED
#undef INIT

enum { SLOTS = sizeof symbols / sizeof *symbols };

#define SYMBOL(number, name) (function *)not_open,
#define NEEDED SYMBOL
#define INIT(number, name) (function *)succeed,
HIDDEN function *paceline_cuda_slots[SLOTS] = {
#include "symbols.h"
};
#undef SYMBOL
#undef NEEDED
#undef INIT

/* The driver does not work in a child of fork(), so the child's calls must not reach it. */
static void forked(void) {
  for (int i = 0; i < SLOTS; i++) paceline_cuda_slots[i] = (function *)not_open;
}

enum paceline_cuda_loaded paceline_cuda_load(char *why, size_t size) {
  function *found[SLOTS];
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == NULL) {
    snprintf(why, size, "%s", dlerror());
    return PACELINE_CUDA_MISSING;
  }
  for (int i = 0; i < SLOTS; i++) {
    found[i] = (function *)dlsym(driver, symbols[i].name);
    if (found[i] == NULL && symbols[i].needed) {
      snprintf(why, size, "%s", symbols[i].name);
      dlclose(driver);
      return PACELINE_CUDA_LACKS;
    }
    if (found[i] == NULL) found[i] = (function *)lacks;
  }
  memcpy(paceline_cuda_slots, found, sizeof found);
  pthread_atfork(NULL, NULL, forked);
  return PACELINE_CUDA_LOADED;
}
