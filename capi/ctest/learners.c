/* A3C, APPO, DQN and Gorila: learners around a store of parameters; GA3C: agents, predictors and trainers. A virtual
 * run has one result for any number of threads and continues from a checkpoint; a race is repeated from the file of its
 * order; environments may be built in, of a table, or stepped by the caller. */
#include "counter.h"

enum { STEPS = 1200 };

/* A method: its parameter set, a metric that counts, and settings after the common ones. */
typedef struct method {
  const char *name, *set, *metric, *preset;
  const char *const *settings;
} method;

#define WITH(...) ((const char *const[]){__VA_ARGS__, NULL})
#define AS_IT_IS ((const char *const[]){NULL})

#define ACTOR_CRITIC "n_steps", "8", "net_arch_pi", "16", "net_arch_vf", "16"
static const char *const a3c[] = {ACTOR_CRITIC, "learners", "2", NULL};
static const char *const appo[] = {ACTOR_CRITIC, "learners", "2",           "batch_size", "8",
                                   "n_epochs",   "2",        "pull_period", "3",          NULL};
static const char *const ga3c[] = {ACTOR_CRITIC, NULL};
static const char *const dqn[] = {
    "net_arch",   "16", "learning_starts", "80",   "batch_size",          "8",    "buffer_size", "800",
    "window",     "32", "train_freq",      "4",    "exploration_steps",   "600",  "learners",    "2",
    "tau",        "1",  "shards",          "3",    "learning_rate",       "0.01", "rule",        "overwrite",
    "concurrent", "1",  "double_q",        "true", "learning_rate_final", "0",    NULL};
static const char *const gorila[] = {"net_arch",    "16",  "learning_starts",   "80",  "batch_size", "8",
                                     "buffer_size", "800", "exploration_steps", "600", "bundles",    "2",
                                     "shards",      "3",   "max_staleness",     "2",   "outliers",   "2",
                                     NULL};
static const method methods[] = {{"a3c", "policy", "async/pushes", "stooke_abbeel", a3c},
                                 {"appo", "policy", "async/pushes", "stooke_abbeel", appo},
                                 {"ga3c", "policy", "ga3c/pps", "paper", ga3c},
                                 {"dqn", "q_net", "async/pushes", "sb3", dqn},
                                 {"gorila", "q_net", "async/pushes", "nair2015", gorila}};
static const method *const of_ga3c = &methods[2];

static paceline_config *config_of(const method *m) {
  paceline_config *cfg;
  OK(paceline_config_new(&cfg, m->name));
  OK(paceline_config_set(cfg, "num_envs", "4"));
  OK(paceline_config_set(cfg, "seed", "3"));
  for (const char *const *s = m->settings; *s != NULL; s += 2) OK(paceline_config_set(cfg, s[0], s[1]));
  return cfg;
}

/* A trainer with further settings; table: of counters, else CartPole. */
static paceline_trainer *make(const method *m, family *table, const char *const *more) {
  paceline_config *cfg = config_of(m);
  paceline_trainer *t;
  OK(paceline_config_set(cfg, "num_threads", "2"));
  for (; *more != NULL; more += 2) OK(paceline_config_set(cfg, more[0], more[1]));
  if (table != NULL) {
    paceline_env_table functions = counter_table(1);
    OK(paceline_trainer_new_table(&t, cfg, &functions, table, counter_release));
  } else {
    OK(paceline_config_set(cfg, "env", "CartPole-v1"));
    OK(paceline_trainer_new(&t, cfg));
  }
  paceline_config_free(cfg);
  return t;
}

typedef struct digest {
  char text[72];
} digest;

static digest digest_of(const method *m, paceline_trainer *t) {
  digest d;
  hash_of(d.text, t, m->set);
  return d;
}

/* Runs to the end and frees the trainer. */
static digest whole(const method *m, paceline_trainer *t) {
  OK(paceline_trainer_begin(t, STEPS, 0));
  OK(paceline_trainer_run(NULL, t, 0, 0));
  digest d = digest_of(m, t);
  CHECK(stats_of(t).num_timesteps >= STEPS && stats_of(t).num_timesteps < STEPS + 4 && stats_of(t).updates > 0);
  CHECK(metric_of(t, m->metric) > 0);
  paceline_trainer_free(t);
  return d;
}

static void virtual(const method *m) {
  const char *path = tmp("learners.paceline");
  digest want = whole(m, make(m, NULL, AS_IT_IS));
  for (int threads = 1; threads < 4; threads += 2) {
    char n[2] = {(char)('0' + threads), 0};
    digest got = whole(m, make(m, NULL, WITH("num_threads", n)));
    CHECK(strcmp(got.text, want.text) == 0);
  }
  paceline_trainer *t = make(m, NULL, AS_IT_IS);
  OK(paceline_trainer_begin(t, STEPS, 0));
  OK(paceline_trainer_run(NULL, t, 500, 0));
  OK(paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE));
  FAILS(paceline_trainer_save_order(t, tmp("virtual.order")), PACELINE_EINVAL,
        "order: not recorded with schedule virtual, must be schedule race or recorded");
  paceline_trainer_free(t);
  paceline_config *cfg;
  OK(paceline_config_load(&cfg, path));
  OK(paceline_trainer_new(&t, cfg));
  paceline_config_free(cfg);
  OK(paceline_trainer_load(t, path));
  OK(paceline_trainer_run(NULL, t, 0, 0));
  digest got = digest_of(m, t);
  CHECK(strcmp(got.text, want.text) == 0);
  paceline_trainer_free(t);
}

static void race(const method *m) {
  const char *path = tmp("race.order");
  for (int table = 0; table < 2; table++) {
    family f[2] = {counters(SOUND, 0), counters(SOUND, 0)};
    paceline_trainer *t = make(m, table ? &f[0] : NULL, WITH("schedule", "race"));
    OK(paceline_trainer_begin(t, STEPS, 0));
    OK(paceline_trainer_run(NULL, t, 0, 0));
    digest want = digest_of(m, t);
    OK(paceline_trainer_save_order(t, path));
    FAILS(paceline_trainer_save_order(t, "/nowhere/race.order"), PACELINE_EIO, "no such file or directory");
    int64_t steps = stats_of(t).num_timesteps;
    paceline_trainer_free(t);
    t = make(m, table ? &f[1] : NULL, WITH("schedule", "recorded", "order", path, "num_threads", "1"));
    OK(paceline_trainer_begin(t, STEPS, 0));
    OK(paceline_trainer_run(NULL, t, 0, 0));
    digest got = digest_of(m, t);
    CHECK(strcmp(got.text, want.text) == 0 && stats_of(t).num_timesteps == steps);
    paceline_trainer_free(t);
  }
}

/* One act and one observe are a round of every learner. */
static void pushed(const method *m) {
  paceline_config *cfg = config_of(m);
  paceline_trainer *t;
  digest of[2];
  paceline_spec obs = {
      .struct_size = sizeof obs, .kind = PACELINE_BOX, .dtype = PACELINE_FLOAT32, .ndim = 1, .shape = {2}};
  paceline_spec action = {.struct_size = sizeof action, .kind = PACELINE_DISCRETE, .dtype = PACELINE_INT32, .n = 2};
  for (int run = 0; run < 2; run++) {
    float rows_obs[8] = {0}, last[8] = {0};
    double rewards[4] = {0};
    uint8_t terminated[4] = {0}, truncated[4] = {0};
    int32_t actions[4];
    paceline_rows rows = {.struct_size = sizeof rows,
                          .num_rows = 4,
                          .obs = rows_obs,
                          .final_obs = last,
                          .rewards = rewards,
                          .terminated = terminated,
                          .truncated = truncated};
    OK(paceline_config_set(cfg, "num_threads", run ? "1" : "2"));
    OK(paceline_trainer_new_push(&t, cfg, &obs, &action));
    OK(paceline_trainer_begin(t, 400, PACELINE_RESET_ENVS));
    for (int round = 0; round < 100; round++) {
      OK(paceline_trainer_act(t, &rows, actions, 0));
      for (int i = 0; i < 4; i++) {
        rewards[i] = (actions[i] == (round + i) % 2);
        terminated[i] = round % 10 == 9;
        for (int k = 0; k < 2; k++) rows_obs[2 * i + k] = last[2 * i + k] = sinf((float)(round + i + k));
      }
      OK(paceline_trainer_observe(t, &rows, 0));
    }
    CHECK(stats_of(t).num_timesteps == 400 && stats_of(t).updates > 0);
    of[run] = digest_of(m, t);
    paceline_trainer_free(t);
  }
  CHECK(strcmp(of[0].text, of[1].text) == 0);
  paceline_config_free(cfg);
}

static void refused(const method *m) {
  paceline_config *cfg;
  paceline_trainer *t;
  OK(paceline_config_new(&cfg, m->name));
  OK(paceline_config_set(cfg, "env", "CartPole-v1"));
  if (m != of_ga3c) {
    const char *learners = m->settings == gorila ? "bundles" : "learners";
    char says[64];
    snprintf(says, sizeof says, "num_envs: 4, must be a multiple of %s (3)", learners);
    OK(paceline_config_set(cfg, learners, "3"));
    OK(paceline_config_set(cfg, "num_envs", "4"));
    FAILS(paceline_trainer_new(&t, cfg), PACELINE_EINVAL, says);
  }
  FAILS(paceline_config_set(cfg, "schedule", "hogwild"), PACELINE_EINVAL,
        "schedule: \"hogwild\", must be virtual, race, recorded");
  OK(paceline_config_set(cfg, "num_envs", "3"));
  OK(paceline_config_set(cfg, "schedule", "recorded"));
  FAILS(paceline_trainer_new(&t, cfg), PACELINE_EINVAL, "order: empty, must name a file with schedule recorded");
  OK(paceline_config_set(cfg, "order", tmp("no such file")));
  FAILS(paceline_trainer_new(&t, cfg), PACELINE_EIO, "no such file or directory");
  paceline_config_free(cfg);
  OK(paceline_config_new(&cfg, m->name));
  OK(paceline_config_preset(cfg, "tuned", "CartPole-v1"));
  OK(paceline_config_preset(cfg, m->preset, "CartPole-v1"));
  paceline_config_free(cfg);
}

/* The proposals of GA3C's tuner are in a checkpoint, and in a file if the host asks for it. */
static void traced(void) {
  const char *const with[] = {"tuner", "ladder", "tuner_period", "0.05", "tuner_pairs", "2", "num_envs", "8", NULL};
  const char *saved = tmp("traced.paceline");
  char text[2][4096];
  paceline_trainer *t = make(of_ga3c, NULL, with);
  OK(paceline_trainer_begin(t, STEPS, 0));
  OK(paceline_trainer_run(NULL, t, 0, 0));
  CHECK(metric_of(t, "ga3c/tuner_periods") > 2);
  OK(paceline_trainer_save(t, saved, PACELINE_SAVE_EXPERIENCE));
  for (int i = 0; i < 2; i++) {
    const char *path = tmp("trace.csv");
    OK(paceline_trainer_save_trace(t, path));
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    size_t n = fread(text[i], 1, sizeof text[i] - 1, f);
    text[i][n] = 0;
    fclose(f);
    CHECK(strstr(text[i], "period,time,predictors,trainers,agents,old,new,statistic,kept\n1,") == text[i]);
    paceline_trainer_free(t);
    if (i == 0) {
      t = make(of_ga3c, NULL, with);
      OK(paceline_trainer_load(t, saved));
    }
  }
  CHECK(strcmp(text[0], text[1]) == 0);
  t = make(of_ga3c, NULL, AS_IT_IS);
  FAILS(paceline_trainer_save_trace(t, tmp("none.csv")), PACELINE_EINVAL, "trace: nothing is adjusted with tuner none");
  paceline_trainer_free(t);
}

int main(void) {
  for (const method *m = methods; m < methods + sizeof methods / sizeof *methods; m++) {
    virtual(m);
    race(m);
    pushed(m);
    refused(m);
  }
  traced();
  paceline_config *cfg;
  paceline_trainer *t;
  OK(paceline_config_new(&cfg, "a2c"));
  OK(paceline_config_set(cfg, "env", "CartPole-v1"));
  OK(paceline_trainer_new(&t, cfg));
  FAILS(paceline_trainer_save_order(t, tmp("a2c.order")), PACELINE_EINVAL, "order: a2c has one learner and no order");
  FAILS(paceline_trainer_save_trace(t, tmp("a2c.csv")), PACELINE_EINVAL, "trace: a2c adjusts nothing");
  paceline_trainer_free(t);
  paceline_config_free(cfg);
  return 0;
}
