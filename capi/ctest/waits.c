/* Environments whose steps wait: PACELINE_ENV_WAITS, and "waits" of env_options. */
#include "rows.h"

#include "counter.h"

/* A trainer with one thread on four counters. */
static paceline_trainer *of(family *f, uint32_t flags, const char *concurrent, const char *synchronized) {
  const char *const settings[] = {QUICK,      "num_threads",  "1",          "train_freq", "4", "concurrent",
                                  concurrent, "synchronized", synchronized, NULL};
  paceline_config *cfg = config(settings);
  paceline_env_table table = counter_table(0);
  table.flags = flags;
  paceline_trainer *t;
  OK(paceline_trainer_new_table(&t, cfg, &table, f, counter_release));
  paceline_config_free(cfg);
  return t;
}

/* With PACELINE_ENV_WAITS four steps wait at the same time although num_threads is 1. The results
 * are the same. */
static void waiting(const char *concurrent, const char *synchronized) {
  hashes h[2];
  for (uint32_t flags = 0; flags < 2; flags++) {
    family f = counters(SLEEP, 0);
    paceline_trainer *t = of(&f, flags, concurrent, synchronized);
    most_asleep = 0;
    OK(paceline_trainer_run(NULL, t, 320, 0));
    CHECK(flags == 0 ? most_asleep == 1 : most_asleep > 2);
    h[flags] = hashes_of(t);
    CHECK(stats_of(t).updates > 0);
    paceline_trainer_free(t);
    CHECK(f.released == 1);
  }
  CHECK(same(h[0], h[1]));
}

/* A failure names the environment, and the next run goes on. */
static void failing(void) {
  const enum fault faults[] = {FAIL_STEP, FAIL_SILENTLY, NAN_OBS, BAD_END};
  for (int k = 0; k < 4; k++) {
    family f = counters(faults[k], 60);
    paceline_trainer *t = of(&f, PACELINE_ENV_WAITS, k % 2 ? "true" : "false", k < 2 ? "true" : "false");
    OK(paceline_trainer_begin(t, 1000, 0));
    CHECK(paceline_trainer_run(NULL, t, 0, 0) != PACELINE_OK);
    CHECK(paceline_last_error_index() == 0);
    OK(paceline_trainer_run(NULL, t, 0, 0));
    CHECK(stats_of(t).num_timesteps >= 1000);
    paceline_trainer_free(t);
    CHECK(f.released == 1);
  }
}

/* Every environment has the option "waits", which changes no row. */
static void option(void) {
  paceline_vec *v = (void *)1;
  paceline_vec_options o = vec_options(2, 0, 1, 0, "{\"waits\": 1}");
  FAILS(paceline_vec_new(&v, "CartPole-v1", &o), PACELINE_EINVAL, "waits: 1, must be true or false");
  v = vec_of("CartPole-v1", 5, 0, 1, PACELINE_SAME_STEP, "{\"waits\": true}");
  paceline_vec *plain = vec_of("CartPole-v1", 5, 0, 1, PACELINE_SAME_STEP, "{\"waits\": false}");
  arrays a = arrays_for(v, 5), b = arrays_for(plain, 5);
  uint64_t seeds[] = {5, 6, 7, 8, 9};
  OK(paceline_vec_reset(v, seeds, NULL, all_of(&a)));
  OK(paceline_vec_reset(plain, seeds, NULL, all_of(&b)));
  for (int i = 0; i < 200; i++) {
    for (int k = 0; k < 5; k++) discrete(&a)[k] = (i / 3 + k) % 2;
    OK(paceline_vec_step(v, a.actions, all_of(&a)));
    OK(paceline_vec_step(plain, a.actions, all_of(&b)));
    for (uint32_t k = 0; k < 5; k++) CHECK(same_row(&a, k, &b, k, 1));
  }
  arrays_free(&a);
  arrays_free(&b);
  paceline_vec_free(v);
  paceline_vec_free(plain);
}

int main(void) {
  waiting("true", "true");
  waiting("true", "false");
  waiting("false", "true");
  waiting("false", "false");
  failing();
  option();
  return 0;
}
