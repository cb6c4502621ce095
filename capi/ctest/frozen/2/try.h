/* What the frozen programs share. */
#ifndef TRY_H
#define TRY_H

#include <paceline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEED(condition)                                                                             \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      printf("%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, paceline_last_error()); \
      exit(1);                                                                                      \
    }                                                                                               \
  } while (0)

#define TRY(call) NEED((call) == PACELINE_OK)

/* A file in TMPDIR. */
static inline const char *tmp(const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", getenv("TMPDIR") == NULL ? "/tmp" : getenv("TMPDIR"), name);
  return path;
}

static inline paceline_trainer *small(const char *method, const char *env) {
  paceline_config *cfg;
  paceline_trainer *t;
  char *text;
  TRY(paceline_config_new(&cfg, method));
  TRY(paceline_config_set(cfg, "env", env));
  TRY(paceline_config_set(cfg, "num_envs", "4"));
  if (strcmp(method, "dqn") == 0) {
    TRY(paceline_config_set(cfg, "net_arch", "16"));
    TRY(paceline_config_set(cfg, "buffer_size", "5000"));
    TRY(paceline_config_set(cfg, "learning_starts", "200"));
    TRY(paceline_config_set(cfg, "window", "100"));
    TRY(paceline_config_set(cfg, "target_update_interval", "100"));
  }
  TRY(paceline_config_get(&text, cfg, "env"));
  NEED(strcmp(text, env) == 0);
  paceline_string_free(text);
  TRY(paceline_trainer_new(&t, cfg));
  paceline_config_free(cfg);
  return t;
}

#endif
