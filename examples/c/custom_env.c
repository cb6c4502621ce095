/*
 * Your own environment as a table of C functions: a corridor of ten cells. An episode starts in a
 * random cell of the left half. Action 1 moves right, action 0 left. The right end ends the episode
 * with reward 1; every other step has reward -0.05. The best policy always moves right.
 */
#include <paceline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 10, LIMIT = 50 };

/* One environment. The struct is the whole state, random numbers included, so save copies it. */
typedef struct corridor {
  uint64_t random;
  int cell, steps;
} corridor;

static float where(const corridor *c) { return (float)c->cell / (CELLS - 1); }

static int spec(void *user, paceline_spec *obs, paceline_spec *action) {
  (void)user;
  obs->kind = PACELINE_BOX;
  obs->dtype = PACELINE_FLOAT32;
  obs->ndim = 1;
  obs->shape[0] = 1;
  action->kind = PACELINE_DISCRETE;
  action->dtype = PACELINE_INT32;
  action->n = 2;
  return 0;
}

static int create(void *user, uint32_t index, uint64_t seed, void **env) {
  corridor *c = calloc(1, sizeof *c);
  (void)user;
  (void)index;
  if (c == NULL) {
    paceline_set_callback_error("corridor: out of memory");
    return -1;
  }
  c->random = seed;
  *env = c;
  return 0;
}

static int reset(void *env, void *obs) {
  corridor *c = env;
  c->random = c->random * 6364136223846793005u + 1442695040888963407u;
  c->cell = (int)((c->random >> 33) % (CELLS / 2));
  c->steps = 0;
  *(float *)obs = where(c);
  return 0;
}

static int step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  corridor *c = env;
  c->cell += *(const int32_t *)action == 1 ? 1 : c->cell > 0 ? -1 : 0;
  c->steps++;
  *reward = -0.05f;
  *end = 0;
  if (c->cell == CELLS - 1) {
    *reward = 1;
    *end = PACELINE_TERMINATED;
  } else if (c->steps == LIMIT) {
    *end = PACELINE_TRUNCATED;
  }
  *(float *)obs = where(c);
  return 0;
}

/* Optional: with save and restore a checkpoint continues inside an episode. */
static int save(void *env, void *buf, size_t *len) {
  if (buf != NULL && *len >= sizeof(corridor)) memcpy(buf, env, sizeof(corridor));
  *len = sizeof(corridor);
  return 0;
}

static int restore(void *env, const void *buf, size_t len) {
  if (len != sizeof(corridor)) {
    paceline_set_callback_error("corridor: not a state of a corridor");
    return -1;
  }
  memcpy(env, buf, len);
  return 0;
}

static const paceline_env_table table = {
    .struct_size = sizeof table,
    .spec = spec,
    .create = create,
    .reset = reset,
    .step = step,
    .save = save,
    .restore = restore,
    .destroy = free,
};

#define TRY(call)                                                                      \
  do {                                                                                 \
    int status = (call);                                                               \
    if (status != PACELINE_OK) {                                                       \
      fprintf(stderr, "%s: %s\n", paceline_status_str(status), paceline_last_error()); \
      return 1;                                                                        \
    }                                                                                  \
  } while (0)

int main(void) {
  static const char *const settings[][2] = {{"num_envs", "8"},
                                            {"learning_starts", "500"},
                                            {"buffer_size", "10000"},
                                            {"net_arch", "32"},
                                            {"learning_rate", "0.003"},
                                            {"target_update_interval", "200"},
                                            {"train_freq", "2"},
                                            {"batch_size", "32"},
                                            {"exploration_steps", "2000"},
                                            {"window", "200"},
                                            {"seed", "1"}};
  paceline_config *cfg;
  TRY(paceline_config_new(&cfg, "dqn"));
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    TRY(paceline_config_set(cfg, settings[i][0], settings[i][1]));

  paceline_trainer *trainer;
  paceline_stats stats = {.struct_size = sizeof stats};
  TRY(paceline_trainer_new_table(&trainer, cfg, &table, NULL, NULL));
  TRY(paceline_trainer_run(&stats, trainer, 6000, 0));
  printf("after %lld steps: mean return %.2f\n", (long long)stats.num_timesteps, stats.mean_return);

  /* The actions in all cells: each should be 1, to the right. */
  paceline_policy *policy;
  TRY(paceline_policy_from_trainer(&policy, trainer));
  float obs[CELLS];
  int32_t actions[CELLS];
  for (int i = 0; i < CELLS; i++) obs[i] = (float)i / (CELLS - 1);
  TRY(paceline_policy_act(policy, CELLS, obs, NULL, actions, NULL));
  printf("actions by cell:");
  for (int i = 0; i < CELLS - 1; i++) printf(" %d", actions[i]);
  printf("\n");

  paceline_policy_free(policy);
  paceline_trainer_free(trainer);
  paceline_config_free(cfg);
  return 0;
}
