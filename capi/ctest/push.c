/* Environments that the caller steps give the same bits as the same ones
 * stepped by the library: a paceline_vec is pushed into a trainer. */
#include <pthread.h>

#include "rows.h"

static paceline_trainer *pushed(const char *const *settings, const char *env, const char *num_envs, const char *mode,
                                int64_t steps) {
  paceline_config *cfg = config(settings);
  OK(paceline_config_set(cfg, "num_envs", num_envs));
  OK(paceline_config_set(cfg, "autoreset", mode));
  uint32_t n = (uint32_t)atoi(num_envs);
  paceline_vec *v =
      vec_of(env, n, 0, 1, strcmp(mode, "next_step") == 0 ? PACELINE_NEXT_STEP : PACELINE_SAME_STEP, NULL);
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
  OK(paceline_vec_spec(&obs, &action, v));
  paceline_trainer *t;
  OK(paceline_trainer_new_push(&t, cfg, &obs, &action));
  paceline_config_free(cfg);
  paceline_buffers to = {.struct_size = sizeof to};
  OK(paceline_trainer_buffers(&to, t));
  room r = room_for(v, n); /* whose observations the trainer reads where they are written */
  CHECK(to.obs_bytes == r.obs_bytes && to.num_envs == n && to.action_bytes == 4);
  paceline_rows rows = *all_of(&r);
  rows.obs = to.obs;
  rows.final_obs = to.final_obs;
  OK(paceline_vec_reset(v, NULL, NULL, &rows));
  FAILS(paceline_trainer_act(t), PACELINE_EINVAL, "begin");
  OK(paceline_trainer_begin(t, steps, 0));
  FAILS(paceline_trainer_observe(t, NULL), PACELINE_EINVAL, "act");
  FAILS(paceline_trainer_run(t, 1, 0, NULL), PACELINE_EINVAL, "act and observe");
  paceline_stats s = {.struct_size = sizeof s};
  do {
    OK(paceline_trainer_act(t));
    OK(paceline_vec_step(v, to.actions, &rows));
    for (uint32_t i = 0; i < n; i++) {
      to.rewards[i] = (float)rows.rewards[i];
      to.ended[i] = (uint8_t)over(&r, i);
    }
    OK(paceline_trainer_observe(t, &s));
  } while (s.num_timesteps < steps);
  paceline_buffers_release(to.id);
  paceline_vec_free(v);
  room_free(&r);
  return t;
}

static void compare(const char *env, const char *num_envs, const char *mode, const char *train_freq, int64_t steps) {
  const char *const settings[] = {QUICK, "train_freq", train_freq, NULL};
  paceline_config *cfg = config(settings);
  OK(paceline_config_set(cfg, "env", env));
  OK(paceline_config_set(cfg, "num_envs", num_envs));
  paceline_trainer *own;
  OK(paceline_trainer_new(&own, cfg));
  OK(paceline_trainer_run(own, steps, 0, NULL));
  paceline_trainer *t = pushed(settings, env, num_envs, mode, steps);
  paceline_hashes a = hashes_of(own), b = hashes_of(t);
  if (!same(a, b)) {
    printf("%s, %s environments, %s: replay %s\n", env, num_envs, mode,
           strcmp(a.replay, b.replay) ? "differs" : "same");
    exit(1);
  }
  CHECK(stats_of(t).episodes == stats_of(own).episodes && stats_of(t).updates == stats_of(own).updates);
  paceline_trainer_free(t);
  paceline_trainer_free(own);
  paceline_config_free(cfg);
}

/* What a caller may write wrongly: refused before anything is kept. */
static void refused(void) {
  const char *const settings[] = {QUICK, NULL};
  paceline_config *cfg = config(settings);
  paceline_spec obs = {
      .struct_size = sizeof obs, .kind = PACELINE_BOX, .dtype = PACELINE_FLOAT32, .ndim = 1, .shape = {3}};
  paceline_spec action = {.struct_size = sizeof action, .kind = PACELINE_DISCRETE, .dtype = PACELINE_INT32, .n = 2};
  paceline_trainer *t;
  OK(paceline_trainer_new_push(&t, cfg, &obs, &action));
  paceline_config_free(cfg);
  paceline_buffers b = {.struct_size = sizeof b};
  OK(paceline_trainer_buffers(&b, t));
  OK(paceline_trainer_begin(t, 1000, 0));
  for (int i = 0; i < 10; i++) {
    OK(paceline_trainer_act(t));
    FAILS(paceline_trainer_act(t), PACELINE_EINVAL, "twice");
    b.rewards[2] = NAN;
    FAILS(paceline_trainer_observe(t, NULL), PACELINE_ENAN, ": reward: NaN, must be finite");
    b.rewards[2] = 1;
    ((float *)b.obs)[4] = INFINITY;
    FAILS(paceline_trainer_observe(t, NULL), PACELINE_ENAN, ": observation: component 1 is +Inf");
    ((float *)b.obs)[4] = 0;
    b.ended[3] = 4;
    FAILS(paceline_trainer_observe(t, NULL), PACELINE_EINVAL, ": ended: 4, must be 0 to 3");
    b.ended[3] = 0;
    CHECK(stats_of(t).num_timesteps == 4 * i);
    OK(paceline_trainer_observe(t, NULL));
  }
  paceline_trainer_free(t);
  ((float *)b.obs)[0] = 1; /* ours until released */
  paceline_buffers_release(b.id);
}

static volatile int quit;

static void *stop_often(void *t) {
  while (!quit) {
    OK(paceline_trainer_stop(t));
    usleep(300);
  }
  return NULL;
}

/* A course with updates so slow that act waits for them; returns how many calls
 * were stopped meanwhile. */
static int slow_course(paceline_hashes *h, int stopped) {
  const char *const settings[] = {QUICK,        "net_arch", "256,256", "batch_size", "128",
                                  "train_freq", "1",        "window",  "32",         NULL};
  paceline_config *cfg = config(settings);
  paceline_spec obs = {
      .struct_size = sizeof obs, .kind = PACELINE_BOX, .dtype = PACELINE_FLOAT32, .ndim = 1, .shape = {8}};
  paceline_spec action = {.struct_size = sizeof action, .kind = PACELINE_DISCRETE, .dtype = PACELINE_INT32, .n = 2};
  paceline_trainer *t;
  OK(paceline_trainer_new_push(&t, cfg, &obs, &action));
  paceline_config_free(cfg);
  paceline_buffers b = {.struct_size = sizeof b};
  OK(paceline_trainer_buffers(&b, t));
  OK(paceline_trainer_begin(t, 100000, 0));
  pthread_t stopper;
  if (stopped) pthread_create(&stopper, NULL, stop_often, t);
  int times = 0, status;
  for (int i = 0; i < 150; i++) {
    if (stopped && i == 149) { /* the last round is not stopped, and makes up for all */
      quit = 1;
      pthread_join(stopper, NULL);
    }
    while ((status = paceline_trainer_act(t)) == PACELINE_ESTOPPED) times++;
    STATUS(status, PACELINE_OK);
    for (int k = 0; k < 4; k++) {
      b.rewards[k] = (float)(b.actions[k] == (i + k) % 2);
      ((float *)b.obs)[8 * k + i % 8] = sinf((float)(i * 4 + k));
    }
    while ((status = paceline_trainer_observe(t, NULL)) == PACELINE_ESTOPPED) times++;
    STATUS(status, PACELINE_OK);
  }
  *h = hashes_of(t);
  paceline_trainer_free(t);
  paceline_buffers_release(b.id);
  return times;
}

int main(void) {
  compare("CartPole-v1", "4", "same_step", "4", 3000);
  compare("CartPole-v1", "1", "next_step", "4", 3000);
  compare("MountainCar-v0", "3", "same_step", "4", 1500); /* truncations */
  compare("Catch-v0", "3", "same_step", "20", 600);
  refused();
  paceline_hashes calm, harried;
  CHECK(slow_course(&calm, 0) == 0);
  CHECK(slow_course(&harried, 1) > 0);
  CHECK(same(calm, harried));
  return 0;
}
