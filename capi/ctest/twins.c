/* Two copies of the library in one process, each with its own Go runtime, train at the same time
 * with the results of one copy alone. This is not promised for other Go libraries. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <paceline.h>

enum { RUNS = 3 };

typedef struct twin {
  const char *path;
  char digests[RUNS][65];
} twin;

#define NEED(condition)                                     \
  do {                                                      \
    if (!(condition)) {                                     \
      printf("%s:%d: %s\n", t->path, __LINE__, #condition); \
      exit(1);                                              \
    }                                                       \
  } while (0)

static void *train(void *arg) {
  twin *t = arg;
  void *library = dlopen(t->path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return puts(dlerror()), exit(1), NULL;
#define FUNCTION(name) __typeof__(name) *name##_ = (__typeof__(name) *)dlsym(library, #name)
  FUNCTION(paceline_config_new);
  FUNCTION(paceline_config_set);
  FUNCTION(paceline_config_free);
  FUNCTION(paceline_trainer_new);
  FUNCTION(paceline_trainer_run);
  FUNCTION(paceline_trainer_hash);
  FUNCTION(paceline_trainer_free);
  FUNCTION(paceline_string_free);
  for (int i = 0; i < RUNS; i++) {
    paceline_config *cfg;
    paceline_trainer *trainer;
    char *digest;
    NEED(paceline_config_new_(&cfg, "dqn") == 0);
    const char *const settings[] = {"env",
                                    "CartPole-v1",
                                    "num_envs",
                                    "4",
                                    "num_threads",
                                    "2",
                                    "net_arch",
                                    "16",
                                    "buffer_size",
                                    "5000",
                                    "learning_starts",
                                    "200",
                                    "window",
                                    "100",
                                    "target_update_interval",
                                    "100",
                                    NULL};
    for (const char *const *s = settings; *s != NULL; s += 2) NEED(paceline_config_set_(cfg, s[0], s[1]) == 0);
    NEED(paceline_trainer_new_(&trainer, cfg) == 0);
    NEED(paceline_trainer_run_(NULL, trainer, 2000, 0) == 0);
    NEED(paceline_trainer_hash_(&digest, trainer, "q_net") == 0);
    strcpy(t->digests[i], digest);
    paceline_string_free_(digest);
    NEED(paceline_trainer_free_(trainer) == 0);
    paceline_config_free_(cfg);
  }
  return NULL;
}

int main(void) {
  static char copy[4096], command[9000];
  const char *first = getenv("PACELINE_LIBRARY"), *folder = getenv("TMPDIR");
  snprintf(copy, sizeof copy, "%s/twin.so", folder == NULL ? "/tmp" : folder);
  snprintf(command, sizeof command, "cp -L '%s' '%s'", first, copy);
  if (system(command) != 0) return 1;
  twin twins[2] = {{.path = first}, {.path = copy}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, train, &twins[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 2 * RUNS; i++)
    if (strcmp(twins[i / RUNS].digests[i % RUNS], twins[0].digests[0]) != 0) return puts("the digests differ"), 1;
  return 0;
}
