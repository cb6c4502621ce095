/*
 * Helpers of the test programs. A program exits with 0, or prints the failed check and exits with
 * 1. run.sh limits its time. TMPDIR is a folder of its own.
 */
#ifndef T_H
#define T_H

#include <errno.h>
#include <math.h>
#include <paceline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                            \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      printf("%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, paceline_last_error()); \
      exit(1);                                                                                      \
    }                                                                                               \
  } while (0)

#define OK(call) STATUS(call, PACELINE_OK)

#define STATUS(call, want)                                                                                       \
  do {                                                                                                           \
    int got = (call);                                                                                            \
    if (got != (want)) {                                                                                         \
      printf("%s:%d: %s: %s, must be %s; last error: %s\n", __FILE__, __LINE__, #call, paceline_status_str(got), \
             paceline_status_str(want), paceline_last_error());                                                  \
      exit(1);                                                                                                   \
    }                                                                                                            \
  } while (0)

/* Checks that the call fails with status want and a text that contains says. */
#define FAILS(call, want, says)                                                                                   \
  do {                                                                                                            \
    STATUS(call, want);                                                                                           \
    if (strstr(paceline_last_error(), says) == NULL) {                                                            \
      printf("%s:%d: %s: \"%s\", must contain \"%s\"\n", __FILE__, __LINE__, #call, paceline_last_error(), says); \
      exit(1);                                                                                                    \
    }                                                                                                             \
  } while (0)

static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The path of a file in TMPDIR. Eight calls later the text is overwritten. */
static inline const char *tmp(const char *name) {
  static char paths[8][4096];
  static int next;
  char *path = paths[next++ % 8];
  const char *dir = getenv("TMPDIR");
  snprintf(path, sizeof paths[0], "%s/%s", dir == NULL ? "/tmp" : dir, name);
  return path;
}

/* A configuration of "key", "value", ..., NULL. */
static inline paceline_config *config(const char *const *settings) {
  paceline_config *cfg = NULL;
  OK(paceline_config_new(&cfg, "dqn"));
  for (; *settings != NULL; settings += 2) OK(paceline_config_set(cfg, settings[0], settings[1]));
  return cfg;
}

/* A small, quick run that trains: updates begin after 200 steps. */
#define QUICK                                                                                                         \
  "net_arch", "16", "num_envs", "4", "num_threads", "2", "learning_starts", "200", "batch_size", "16", "buffer_size", \
      "5000", "window", "100", "target_update_interval", "100", "learning_rate", "0.001"

static inline paceline_trainer *quick(const char *env) {
  const char *const settings[] = {QUICK, "env", env, NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t = NULL;
  OK(paceline_trainer_new(&t, cfg));
  paceline_config_free(cfg);
  return t;
}

static inline paceline_stats stats_of(paceline_trainer *t) {
  paceline_stats s = {.struct_size = sizeof s};
  OK(paceline_trainer_stats(&s, t));
  return s;
}

/* The digests of a trainer's experience and networks. */
typedef struct hashes {
  char replay[72], weights[72], target[72];
} hashes;

static inline void hash_of(char *out, paceline_trainer *t, const char *part) {
  char *text;
  OK(paceline_trainer_hash(&text, t, part));
  CHECK(strlen(text) == 64);
  strcpy(out, text);
  paceline_string_free(text);
}

static inline hashes hashes_of(paceline_trainer *t) {
  hashes h;
  hash_of(h.replay, t, "replay");
  hash_of(h.weights, t, "q_net");
  hash_of(h.target, t, "q_net_target");
  return h;
}

/* The metric of that name. */
static inline double metric_of(paceline_trainer *t, const char *name) {
  paceline_metric m = {.struct_size = sizeof m};
  size_t i;
  OK(paceline_trainer_metric_index(&i, t, name));
  OK(paceline_trainer_metric(&m, t, i));
  return m.value;
}

/* A paceline_eval_options for one call. */
#define EPISODES(n, random, with_seed)                                                                \
  &(paceline_eval_options) {                                                                          \
    .struct_size = sizeof(paceline_eval_options), .episodes = n, .epsilon = random, .seed = with_seed \
  }

static inline int same(hashes a, hashes b) {
  return strcmp(a.replay, b.replay) == 0 && strcmp(a.weights, b.weights) == 0 && strcmp(a.target, b.target) == 0;
}

#endif
