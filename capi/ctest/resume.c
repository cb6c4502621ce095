/* N steps, save, load and N more steps give the same bits as 2N steps: for built-in environments
 * and tables, in all four modes, inside a window, with any number of threads. */
#include "counter.h"

typedef struct setup {
  const char *env; /* NULL: the counter table */
  const char *concurrent, *synchronized;
  const char *extra[13];
} setup;

static family f;

static paceline_trainer *make(const setup *s, const char *threads) {
  const char *settings[64] = {QUICK,           "concurrent",  s->concurrent, "synchronized",
                              s->synchronized, "num_threads", threads};
  int n = 0;
  while (settings[n] != NULL) n++;
  for (int i = 0; s->extra[i] != NULL; i++) settings[n++] = s->extra[i];
  paceline_config *cfg = config(settings);
  paceline_trainer *t;
  if (s->env != NULL) {
    OK(paceline_config_set(cfg, "env", s->env));
    OK(paceline_trainer_new(&t, cfg));
  } else {
    paceline_env_table table = counter_table(1);
    f = counters(SOUND, 0);
    OK(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release));
  }
  paceline_config_free(cfg);
  return t;
}

static void compare(const setup *s, int64_t first, int64_t total) {
  const char *path = tmp("resume.paceline");
  paceline_trainer *t = make(s, "1");
  OK(paceline_trainer_begin(t, total, 0));
  OK(paceline_trainer_run(NULL, t, 0, 0));
  hashes whole = hashes_of(t);
  paceline_stats want = stats_of(t);
  paceline_trainer_free(t);

  t = make(s, "3");
  OK(paceline_trainer_begin(t, total, 0));
  OK(paceline_trainer_run(NULL, t, first, 0));
  OK(paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE));
  hashes at_save = hashes_of(t);
  OK(paceline_trainer_run(NULL, t, 0, 0)); /* the save has changed nothing */
  CHECK(same(hashes_of(t), whole));
  paceline_trainer_free(t);

  t = make(s, "2"); /* as a new process would */
  OK(paceline_trainer_run(NULL, t, 777, 0));
  OK(paceline_trainer_load(t, path));
  CHECK(same(hashes_of(t), at_save));
  OK(paceline_trainer_run(NULL, t, 0, 0));
  hashes resumed = hashes_of(t);
  if (!same(resumed, whole)) {
    printf("%s, concurrent %s, synchronized %s, %lld of %lld: replay %s, weights %s, target %s\n",
           s->env == NULL ? "table" : s->env, s->concurrent, s->synchronized, (long long)first, (long long)total,
           strcmp(resumed.replay, whole.replay) ? "differs" : "same",
           strcmp(resumed.weights, whole.weights) ? "differs" : "same",
           strcmp(resumed.target, whole.target) ? "differs" : "same");
    exit(1);
  }
  paceline_stats is = stats_of(t);
  CHECK(is.num_timesteps == want.num_timesteps && is.updates == want.updates && is.episodes == want.episodes);
  CHECK(is.mean_return == want.mean_return || (isnan(is.mean_return) && isnan(want.mean_return)));
  paceline_trainer_free(t);

  t = make(s, "2"); /* loads the experience alone */
  OK(paceline_trainer_run(NULL, t, 777, 0));
  hashes own = hashes_of(t);
  OK(paceline_trainer_load_experience(t, path));
  hashes mixed = hashes_of(t);
  CHECK(strcmp(mixed.replay, at_save.replay) == 0 && strcmp(mixed.weights, own.weights) == 0);
  FAILS(paceline_trainer_run(NULL, t, 1, 0), PACELINE_EINVAL, "PACELINE_RESET_ENVS");
  OK(paceline_trainer_begin(t, 100, PACELINE_RESET_ENVS));
  OK(paceline_trainer_run(NULL, t, 0, 0));
  paceline_trainer_free(t);
}

/* Each slice learns, begun by begin or by run. An interrupted run that begins its remaining steps
 * equals an uninterrupted one. The learning rate falls to 0 over each slice. */
static void slices(const setup *s) {
  const char *path = tmp("slices.paceline");
  hashes after[3];
  paceline_trainer *t = make(s, "2");
  for (int k = 0; k < 3; k++) {
    OK(paceline_trainer_begin(t, 600, 0));
    CHECK(stats_of(t).total_timesteps == 600 * (k + 1));
    OK(paceline_trainer_run(NULL, t, 0, 0));
    after[k] = hashes_of(t);
    CHECK(k == 0 || strcmp(after[k].weights, after[k - 1].weights) != 0);
  }
  paceline_trainer_free(t);

  t = make(s, "2"); /* slices begun by run, the third one after a load */
  OK(paceline_trainer_run(NULL, t, 600, 0));
  OK(paceline_trainer_run(NULL, t, 600, 0));
  CHECK(same(hashes_of(t), after[1]));
  OK(paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE));
  paceline_trainer_free(t);
  t = make(s, "2");
  OK(paceline_trainer_load(t, path));
  OK(paceline_trainer_run(NULL, t, 600, 0));
  CHECK(same(hashes_of(t), after[2]));
  paceline_trainer_free(t);

  t = make(s, "2");
  OK(paceline_trainer_begin(t, 600, 0));
  OK(paceline_trainer_run(NULL, t, 250, 0));
  paceline_stats is = stats_of(t);
  OK(paceline_trainer_begin(t, is.total_timesteps - is.num_timesteps, 0));
  OK(paceline_trainer_run(NULL, t, 0, 0));
  CHECK(same(hashes_of(t), after[0]));
  OK(paceline_trainer_run(NULL, t, 100, 0)); /* begun by begin: steps after the end begin no run */
  CHECK(stats_of(t).total_timesteps == 600 && stats_of(t).num_timesteps >= 700);
  paceline_trainer_free(t);
}

/* The options of Rainbow, set together, train: the loss of the distribution is finite and above 0. */
static void all_parts_train(const setup *s) {
  paceline_trainer *t = make(s, "2");
  hashes before = hashes_of(t);
  OK(paceline_trainer_run(NULL, t, 600, 0));
  CHECK(stats_of(t).num_timesteps >= 600 && stats_of(t).updates > 0);
  CHECK(isfinite(metric_of(t, "train/loss")) && metric_of(t, "train/loss") > 0);
  CHECK(strcmp(hashes_of(t).weights, before.weights) != 0);
  paceline_trainer_free(t);
}

int main(void) {
  const char *const bools[] = {"false", "true"};
  const char *const envs[] = {"CartPole-v1", NULL};
  for (int mode = 0; mode < 4; mode++)
    for (int e = 0; e < 2; e++) {
      setup s = {envs[e], bools[mode & 1], bools[mode >> 1], {NULL}};
      compare(&s, 1333, 3000); /* inside a window */
      compare(&s, 1400, 2800); /* at the end of a window */
      compare(&s, 101, 1000);  /* in the warm-up */
    }
  setup target = {"CartPole-v1",
                  "true",
                  "true",
                  {"actor", "target", "target_update_interval", "300", "learning_rate_final", "0", NULL}};
  compare(&target, 1333, 2666);
  slices(&target);
  setup pixels = {"Catch-v0", "true", "true", {"train_freq", "20", "num_envs", "3", NULL}};
  compare(&pixels, 437, 874);
  setup rainbow = {"CartPole-v1",
                   "true",
                   "true",
                   {"n_steps", "3", "prioritized", "dqn_zoo", "dueling", "true", "double_q", "true", "distribution",
                    "categorical", "v_max", "100", NULL}};
  compare(&rainbow, 777, 1500);
  all_parts_train(&rainbow);

  /* Without save and restore, or without experience, new episodes start and learning goes on. */
  for (int flags = 0; flags < 2; flags++) {
    family g = counters(SOUND, 0), h = counters(SOUND, 0);
    paceline_trainer *t;
    OK(counter_trainer(&t, &g, 0));
    OK(paceline_trainer_begin(t, 2000, 0));
    OK(paceline_trainer_run(NULL, t, 1000, 0));
    OK(paceline_trainer_save(t, tmp("fresh.paceline"), (uint32_t)flags));
    hashes saved = hashes_of(t);
    paceline_trainer_free(t);
    OK(counter_trainer(&t, &h, 0));
    OK(paceline_trainer_load(t, tmp("fresh.paceline")));
    hashes loaded = hashes_of(t);
    CHECK(strcmp(saved.weights, loaded.weights) == 0 && strcmp(saved.target, loaded.target) == 0);
    if (flags == PACELINE_SAVE_EXPERIENCE) CHECK(strcmp(saved.replay, loaded.replay) == 0);
    CHECK(stats_of(t).num_timesteps == 1000);
    OK(paceline_trainer_run(NULL, t, 0, 0));
    CHECK(stats_of(t).num_timesteps == 2000);
    paceline_trainer_free(t);
  }
  return 0;
}
