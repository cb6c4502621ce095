/* Environments that the caller steps give the same bits as the same environments stepped by the
 * library: the rows of a paceline_vec are pushed into a trainer. */
#include <pthread.h>

#include "rows.h"

/* Trains for a number of steps on environments of a vector. If moved, every call gets other arrays,
 * and those of the call before are filled with garbage. */
static paceline_trainer *pushed(const char *const *settings, const char *env, const char *num_envs, const char *mode,
                                int64_t steps, int moved) {
  paceline_config *cfg = config(settings);
  OK(paceline_config_set(cfg, "num_envs", num_envs));
  OK(paceline_config_set(cfg, "autoreset", mode));
  uint32_t n = (uint32_t)atoi(num_envs);
  uint32_t how = strcmp(mode, "next_step") == 0 ? PACELINE_NEXT_STEP : PACELINE_SAME_STEP;
  paceline_vec *v = vec_of(env, n, 0, 1, how, NULL);
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action}, same_obs = obs;
  OK(paceline_vec_spec(&obs, &action, v));
  paceline_trainer *t;
  OK(paceline_trainer_new_push(&t, cfg, &obs, &action));
  paceline_config_free(cfg);
  OK(paceline_trainer_spec(&same_obs, &action, t));
  CHECK(same_obs.ndim == obs.ndim && memcmp(same_obs.shape, obs.shape, sizeof obs.shape) == 0 && action.n > 1);
  arrays a = arrays_for(v, n), b = arrays_for(v, n);
  const paceline_rows *rows = all_of(&a);
  OK(paceline_vec_reset(v, NULL, NULL, rows));
  FAILS(paceline_trainer_act(t, rows, a.actions, 0), PACELINE_EINVAL, "begin");
  OK(paceline_trainer_begin(t, steps, 0));
  FAILS(paceline_trainer_observe(t, rows, 0), PACELINE_EINVAL, "act");
  FAILS(paceline_trainer_run(NULL, t, 1, 0), PACELINE_EINVAL, "act and observe");
  do {
    OK(paceline_trainer_act(t, rows, a.actions, 0));
    if (moved) memset(a.rows.obs, 0x3c, n * a.obs_bytes);
    OK(paceline_vec_step(v, a.actions, rows));
    OK(paceline_trainer_observe(t, rows, 0));
    if (moved) {
      paceline_rows was = a.rows;
      memcpy(b.rows.obs, a.rows.obs, n * a.obs_bytes);
      a.rows = b.rows, b.rows = was;
      rows = all_of(&a);
      memset(was.obs, 0x3c, n * a.obs_bytes);
      memset(was.final_obs, 0x3c, n * a.obs_bytes);
      memset(was.rewards, 0x3c, n * sizeof *was.rewards);
      memset(was.terminated, 1, n);
      memset(was.truncated, 1, n);
    }
  } while (stats_of(t).num_timesteps < steps);
  paceline_vec_free(v);
  arrays_free(&a), arrays_free(&b);
  return t;
}

static void compare(const char *env, const char *num_envs, const char *mode, const char *train_freq, int64_t steps) {
  const char *const settings[] = {QUICK, "train_freq", train_freq, NULL};
  paceline_config *cfg = config(settings);
  OK(paceline_config_set(cfg, "env", env));
  OK(paceline_config_set(cfg, "num_envs", num_envs));
  paceline_trainer *own;
  OK(paceline_trainer_new(&own, cfg));
  OK(paceline_trainer_run(NULL, own, steps, 0));
  for (int moved = 0; moved < 2; moved++) {
    paceline_trainer *t = pushed(settings, env, num_envs, mode, steps, moved);
    hashes a = hashes_of(own), b = hashes_of(t);
    if (!same(a, b)) {
      printf("%s, %s environments, %s: replay %s\n", env, num_envs, mode,
             strcmp(a.replay, b.replay) ? "differs" : "same");
      exit(1);
    }
    CHECK(stats_of(t).episodes == stats_of(own).episodes && stats_of(t).updates == stats_of(own).updates);
    paceline_trainer_free(t);
  }
  paceline_trainer_free(own);
  paceline_config_free(cfg);
}

enum { ROWS = 4, SIZE = 8 };

/* Four environments that the caller steps, with observations of SIZE floats. */
typedef struct host {
  float obs[ROWS * SIZE], final_obs[ROWS * SIZE];
  double rewards[ROWS];
  uint8_t terminated[ROWS], truncated[ROWS];
  int32_t actions[ROWS];
  paceline_rows rows;
} host;

static paceline_trainer *hosted(host *h, const char *const *settings) {
  paceline_spec obs = {
      .struct_size = sizeof obs, .kind = PACELINE_BOX, .dtype = PACELINE_FLOAT32, .ndim = 1, .shape = {SIZE}};
  paceline_spec action = {.struct_size = sizeof action, .kind = PACELINE_DISCRETE, .dtype = PACELINE_INT32, .n = 2};
  paceline_config *cfg = config(settings);
  paceline_trainer *t;
  OK(paceline_trainer_new_push(&t, cfg, &obs, &action));
  paceline_config_free(cfg);
  memset(h, 0, sizeof *h);
  h->rows = (paceline_rows){.struct_size = sizeof h->rows,
                            .num_rows = ROWS,
                            .obs = h->obs,
                            .final_obs = h->final_obs,
                            .rewards = h->rewards,
                            .terminated = h->terminated,
                            .truncated = h->truncated};
  return t;
}

/* Rows with missing, forbidden or wrong fields. */
static void refused_rows(host *h, paceline_trainer *t, int observe) {
  uint8_t mask[ROWS * 2];
#define REFUSED(field, value, says)                                               \
  do {                                                                            \
    paceline_rows odd = h->rows;                                                  \
    odd.field = value;                                                            \
    if (observe)                                                                  \
      FAILS(paceline_trainer_observe(t, &odd, 0), PACELINE_EINVAL, says);         \
    else                                                                          \
      FAILS(paceline_trainer_act(t, &odd, h->actions, 0), PACELINE_EINVAL, says); \
  } while (0)
  REFUSED(num_rows, ROWS - 1, "rows.num_rows: 3, must be 4");
  REFUSED(obs, NULL, "rows.obs: NULL");
  REFUSED(action_masks, mask, "rows.action_masks: set, must be NULL");
  REFUSED(final_action_masks, mask, "rows.action_masks: set, must be NULL");
  REFUSED(device_type, 2, "rows.device_type: 2");
  REFUSED(device_id, 1, "device_id: 1");
  if (!observe) return;
  REFUSED(rewards, NULL, "rows.rewards: NULL");
  REFUSED(terminated, NULL, "rows.terminated: NULL");
  REFUSED(truncated, NULL, "rows.truncated: NULL");
  REFUSED(final_obs, NULL, "final_obs");
}

/* Invalid calls and numbers are refused before anything is stored. */
static void refused(void) {
  const char *const settings[] = {QUICK, NULL};
  host h;
  paceline_trainer *t = hosted(&h, settings);
  OK(paceline_trainer_begin(t, 1000, 0));
  h.rows.device_type = PACELINE_CPU;
  for (int i = 0; i < 10; i++) {
    refused_rows(&h, t, 0);
    h.obs[SIZE] = NAN; /* after the first round observe has stored this row without the NaN */
    FAILS(paceline_trainer_act(t, &h.rows, h.actions, 0), PACELINE_ENAN, "observation: component 0 is NaN");
    CHECK(paceline_last_error_index() == 1);
    h.obs[SIZE] = 0;
    FAILS(paceline_trainer_act(t, &h.rows, h.actions, -1), PACELINE_EINVAL, "max_ms: -1");
    CHECK(paceline_last_error_index() == -1);
    const paceline_rows least = {.struct_size = sizeof least, .num_rows = ROWS, .obs = h.obs};
    OK(paceline_trainer_act(t, i % 2 ? &least : &h.rows, h.actions, 0)); /* act reads nothing else */
    FAILS(paceline_trainer_act(t, &h.rows, h.actions, 0), PACELINE_EINVAL, "twice");
    refused_rows(&h, t, 1);
    h.rewards[2] = NAN;
    FAILS(paceline_trainer_observe(t, &h.rows, 0), PACELINE_ENAN, ": reward: NaN, must be finite");
    CHECK(paceline_last_error_index() == 2);
    h.rewards[2] = 1e300; /* infinite as float32 */
    FAILS(paceline_trainer_observe(t, &h.rows, 0), PACELINE_ENAN, ": reward: +Inf, must be finite");
    h.rewards[2] = 1;
    h.obs[3 * SIZE + 1] = INFINITY;
    FAILS(paceline_trainer_observe(t, &h.rows, 0), PACELINE_ENAN, ": observation: component 1 is +Inf");
    CHECK(paceline_last_error_index() == 3);
    h.obs[3 * SIZE + 1] = 0;
    h.truncated[1] = 1;
    h.final_obs[SIZE] = NAN;
    FAILS(paceline_trainer_observe(t, &h.rows, 0), PACELINE_ENAN, "component 0 is NaN");
    CHECK(paceline_last_error_index() == 1);
    h.final_obs[SIZE] = 0;
    h.truncated[1] = 0;
    CHECK(stats_of(t).num_timesteps == ROWS * i);
    OK(paceline_trainer_observe(t, &h.rows, 0));
  }
  paceline_trainer_free(t);
}

static _Atomic int quit;

static void *stop_often(void *t) {
  while (!quit) {
    OK(paceline_trainer_stop(t));
    usleep(300);
  }
  return NULL;
}

enum { CALM, STOPPED, TIMED };

/* A run whose updates are so slow that act waits for them, alone, stopped by another thread, or
 * with a limit of 1 ms; returns the number of interrupted calls. */
static int slow_run(hashes *hash, int how) {
  const char *const settings[] = {QUICK,        "net_arch", "256,256", "batch_size", "128",
                                  "train_freq", "1",        "window",  "32",         NULL};
  host h;
  paceline_trainer *t = hosted(&h, settings);
  OK(paceline_trainer_begin(t, 100000, 0));
  pthread_t stopper;
  if (how == STOPPED) pthread_create(&stopper, NULL, stop_often, t);
  int times = 0, status, again = how == TIMED ? PACELINE_ETIMEDOUT : PACELINE_ESTOPPED;
  for (int i = 0; i < 150; i++) {
    if (how == STOPPED && i == 149) { /* the last round is not stopped and finishes all updates */
      quit = 1;
      pthread_join(stopper, NULL);
    }
    int64_t limit = how == TIMED && i < 149 ? 1 : 0;
    memset(h.actions, 0x55, sizeof h.actions);
    while ((status = paceline_trainer_act(t, &h.rows, h.actions, limit)) == again) {
      for (int k = 0; k < ROWS; k++) CHECK(h.actions[k] == 0x55555555); /* an interrupted act writes nothing */
      times++;
    }
    STATUS(status, PACELINE_OK);
    for (int k = 0; k < ROWS; k++) {
      h.rewards[k] = (float)(h.actions[k] == (i + k) % 2);
      h.obs[SIZE * k + i % SIZE] = sinf((float)(i * ROWS + k));
    }
    while ((status = paceline_trainer_observe(t, &h.rows, limit)) == again) times++;
    STATUS(status, PACELINE_OK);
  }
  *hash = hashes_of(t);
  paceline_trainer_free(t);
  return times;
}

/* Acts and observes until another thread frees the trainer. */
static void *act_for_ever(void *arg) {
  host h;
  (void)arg;
  const char *const settings[] = {QUICK,        "net_arch", "512,512", "batch_size", "200",
                                  "train_freq", "1",        "window",  "8",          NULL};
  paceline_trainer *t = hosted(&h, settings);
  *(paceline_trainer * _Atomic *)arg = t;
  OK(paceline_trainer_begin(t, 1000000, 0));
  for (;;) {
    int status = paceline_trainer_act(t, &h.rows, h.actions, 0);
    if (status == PACELINE_OK) status = paceline_trainer_observe(t, &h.rows, 0);
    if (status == PACELINE_EHANDLE) return NULL;
    if (status != PACELINE_ESTOPPED) STATUS(status, PACELINE_OK);
  }
}

static void freed(void) {
  paceline_trainer *_Atomic t = NULL;
  pthread_t other;
  pthread_create(&other, NULL, act_for_ever, (void *)&t);
  while (t == NULL) usleep(1000); /* freeing NULL would stop nothing */
  usleep(300000);
  paceline_trainer_free(t);
  pthread_join(other, NULL);
}

int main(void) {
  compare("CartPole-v1", "4", "same_step", "4", 3000);
  compare("CartPole-v1", "1", "next_step", "4", 3000);
  compare("MountainCar-v0", "3", "same_step", "4", 1500); /* truncations */
  compare("Catch-v0", "3", "same_step", "20", 600);
  refused();
  hashes calm, harried, timed;
  CHECK(slow_run(&calm, CALM) == 0);
  CHECK(slow_run(&harried, STOPPED) > 0);
  CHECK(same(calm, harried));
  CHECK(slow_run(&timed, TIMED) > 0);
  CHECK(same(calm, timed));
  freed();
  return 0;
}
