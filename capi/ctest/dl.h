/* For programs that load the library with dlopen: the functions that they use, as pointers under
 * the header's names. */
#ifndef DL_H
#define DL_H

#include <dlfcn.h>
#include <paceline.h>
#include <stdio.h>
#include <stdlib.h>

/* clang-format off */
#define DL_FUNCTIONS(X)                                                              \
  X(paceline_last_error) X(paceline_status_str) X(paceline_abi_version)              \
  X(paceline_config_new) X(paceline_config_set) X(paceline_config_free)              \
  X(paceline_trainer_new) X(paceline_trainer_new_table) X(paceline_trainer_run)      \
  X(paceline_trainer_stats) X(paceline_trainer_hash) X(paceline_trainer_stop)        \
  X(paceline_trainer_free) X(paceline_trainer_begin) X(paceline_policy_from_trainer) \
  X(paceline_policy_evaluate) X(paceline_policy_free) X(paceline_set_callback_error) \
  X(paceline_trainer_metric) X(paceline_trainer_metric_index) X(paceline_string_free)
/* clang-format on */

#define DECLARE(name) static __typeof__(name) *dl_##name;
DL_FUNCTIONS(DECLARE)
#undef DECLARE

static void *dl_load(void) {
  const char *path = getenv("PACELINE_LIBRARY");
  if (path == NULL) {
    printf("PACELINE_LIBRARY is not set\n");
    exit(1);
  }
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("%s\n", dlerror());
    exit(1);
  }
#define FIND(name) dl_##name = (__typeof__(name) *)dlsym(library, #name);
  DL_FUNCTIONS(FIND)
#undef FIND
  return library;
}

#define paceline_last_error() (dl_paceline_last_error == NULL ? "not loaded" : dl_paceline_last_error())
#define paceline_status_str dl_paceline_status_str
#define paceline_abi_version dl_paceline_abi_version
#define paceline_config_new dl_paceline_config_new
#define paceline_config_set dl_paceline_config_set
#define paceline_config_free dl_paceline_config_free
#define paceline_trainer_new dl_paceline_trainer_new
#define paceline_trainer_new_table dl_paceline_trainer_new_table
#define paceline_trainer_run dl_paceline_trainer_run
#define paceline_trainer_stats dl_paceline_trainer_stats
#define paceline_trainer_hash dl_paceline_trainer_hash
#define paceline_trainer_stop dl_paceline_trainer_stop
#define paceline_trainer_free dl_paceline_trainer_free
#define paceline_trainer_begin dl_paceline_trainer_begin
#define paceline_policy_from_trainer dl_paceline_policy_from_trainer
#define paceline_policy_evaluate dl_paceline_policy_evaluate
#define paceline_policy_free dl_paceline_policy_free
#define paceline_set_callback_error dl_paceline_set_callback_error

#define paceline_trainer_metric dl_paceline_trainer_metric
#define paceline_trainer_metric_index dl_paceline_trainer_metric_index
#define paceline_string_free dl_paceline_string_free

#endif
