/* Environments that step together in one call: step_many of a table. */
#include "rows.h"

#include "counter.h"

static atomic_int calls, stepped, fail_at;

static int step_many(void *user, uint32_t n, void *const *envs, const void *actions, void *const *obs, float *rewards,
                     uint8_t *end) {
  family *f = user;
  int call = ++calls;
  CHECK(n >= 1 && n <= 4);
  stepped += (int)n;
  if (call == fail_at) return paceline_set_callback_error("the simulator is out of memory"), 1;
  for (uint32_t k = 0; k < n; k++) {
    CHECK(((counter *)envs[k])->family == f);
    CHECK(rewards[k] == 0 && end[k] == 0);
    int code = counter_step(envs[k], (const int32_t *)actions + k, obs[k], &rewards[k], &end[k]);
    if (code != 0) return code;
  }
  return 0;
}

static paceline_trainer *of(family *f, int batched, const char *groups) {
  const char *const settings[] = {QUICK, "num_threads", "2", "train_freq", "4", "groups", groups, NULL};
  paceline_config *cfg = config(settings);
  paceline_env_table table = counter_table(1);
  if (batched) table.step_many = step_many;
  paceline_trainer *t;
  OK(paceline_trainer_new_table(&t, cfg, &table, f, counter_release));
  paceline_config_free(cfg);
  return t;
}

/* The same steps in a fourth of the calls, or with two groups in half as many, and the same result. */
static void one_call_a_round(void) {
  hashes h[3];
  for (int k = 0; k < 3; k++) {
    family f = counters(SOUND, 0);
    paceline_trainer *t = of(&f, k > 0, k < 2 ? "1" : "2");
    calls = stepped = 0;
    OK(paceline_trainer_run(NULL, t, 320, 0));
    CHECK(calls == (k == 0 ? 0 : k == 1 ? 80 : 160));
    CHECK(stepped == (k == 0 ? 0 : 320));
    CHECK(stats_of(t).updates > 0);
    h[k] = hashes_of(t);
    paceline_trainer_free(t);
    CHECK(f.released == 1);
  }
  CHECK(same(h[0], h[1]));
  CHECK(same(h[0], h[2]));
}

/* A failed call is the failure of all its environments, with its text; one bad row is that of its environment alone.
 * The next run goes on. */
static void failing(void) {
  family f = counters(SOUND, 0);
  paceline_trainer *t = of(&f, 1, "1");
  calls = 0;
  fail_at = 50;
  OK(paceline_trainer_begin(t, 1000, 0));
  FAILS(paceline_trainer_run(NULL, t, 0, 0), PACELINE_ECALLBACK, "environment 0: the simulator is out of memory");
  fail_at = 0;
  OK(paceline_trainer_run(NULL, t, 0, 0));
  CHECK(stats_of(t).num_timesteps >= 1000);
  paceline_trainer_free(t);

  const enum fault faults[] = {NAN_OBS, BAD_END, INF_REWARD};
  for (int k = 0; k < 3; k++) {
    family g = counters(faults[k], 60);
    t = of(&g, 1, "1");
    OK(paceline_trainer_begin(t, 1000, 0));
    CHECK(paceline_trainer_run(NULL, t, 0, 0) != PACELINE_OK);
    CHECK(paceline_last_error_index() == 0);
    CHECK(stats_of(t).num_timesteps == 60 * 4 - 1);
    OK(paceline_trainer_run(NULL, t, 0, 0));
    CHECK(stats_of(t).num_timesteps >= 1000);
    paceline_trainer_free(t);
  }
}

/* A caller that was compiled before step_many was added passes a smaller table, whose bytes behind it may be anything. */
static void older_caller(void) {
  family f = counters(SOUND, 0);
  const char *const settings[] = {QUICK, NULL};
  paceline_config *cfg = config(settings);
  paceline_env_table table = counter_table(0);
  table.struct_size = offsetof(paceline_env_table, step_many);
  memset(&table.step_many, 0xff, sizeof table.step_many);
  paceline_trainer *t;
  OK(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release));
  OK(paceline_trainer_run(NULL, t, 100, 0));
  paceline_trainer_free(t);
  paceline_config_free(cfg);
}

static void refused(void) {
  family f = counters(SOUND, 0);
  const char *const settings[] = {QUICK, NULL};
  paceline_config *cfg = config(settings);
  paceline_env_table table = counter_table(0);
  table.step_many = step_many;
  table.flags = PACELINE_ENV_WAITS;
  paceline_trainer *t = (void *)1;
  FAILS(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release), PACELINE_EINVAL,
        "table.step_many: a function, must be NULL with the flag PACELINE_ENV_WAITS");
  CHECK(f.released == 1);
  paceline_config_free(cfg);
}

int main(void) {
  one_call_a_round();
  failing();
  older_caller();
  refused();
  return 0;
}
