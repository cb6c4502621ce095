/* Environments that fail: the error has the environment's number and the original text, the other
 * environments go on, and everything is freed once. */
#include "counter.h"

/* A run fails, and the next one goes on. */
static void at_a_step(enum fault fault, int at, int status, const char *says) {
  family f = counters(fault, at);
  paceline_trainer *t;
  OK(counter_trainer(&t, &f, 0));
  OK(paceline_trainer_begin(t, 1000, 0));
  FAILS(paceline_trainer_run(NULL, t, 0, 0), status, says);
  CHECK(strncmp(paceline_last_error(), "environment 0: ", 15) == 0);
  CHECK(strstr(paceline_last_error() + 1, "environment 0: ") == NULL && paceline_last_error_index() == 0);
  paceline_stats s = stats_of(t);
  CHECK(s.num_timesteps < 1000);
  OK(paceline_trainer_run(&s, t, 0, 0)); /* the fault occurs only once */
  CHECK(s.num_timesteps >= 1000 && isfinite(metric_of(t, "train/loss")));
  paceline_trainer_free(t);
  CHECK(f.made == 4 && f.destroyed == 4 && f.released == 1);
}

static void at_creation(enum fault fault, const char *says, int made) {
  family f = counters(fault, 0);
  paceline_trainer *t = (void *)1;
  FAILS(counter_trainer(&t, &f, 1), PACELINE_ECALLBACK, says);
  CHECK(paceline_last_error_index() == (fault == FAIL_CREATE ? 2 : -1));
  CHECK(t == (void *)1 && f.made == made && f.destroyed == made && f.released == 1);
}

/* Specs that are refused, of a table and of pushed environments. */
static void spec(paceline_spec obs, paceline_spec action, const char *says) {
  family f = counters(SOUND, 0);
  paceline_trainer *t;
  f.obs = obs;
  f.action = action;
  FAILS(counter_trainer(&t, &f, 0), PACELINE_EINVAL, says);
  CHECK(f.made == 0 && f.released == 1);
  const char *const settings[] = {QUICK, NULL};
  paceline_config *cfg = config(settings);
  FAILS(paceline_trainer_new_push(&t, cfg, &obs, &action), PACELINE_EINVAL, says);
  paceline_config_free(cfg);
}

static void specs(void) {
  const family ok = counters(SOUND, 0);
  static const int32_t branches[] = {2, 3, 0};
  static const float bounds[][2] = {{-1, NAN}, {-1, 1}, {2, -2}, {INFINITY, 1}, {-INFINITY, 1}};
  paceline_spec o, a;
#define WRONG(change, says) \
  do {                      \
    o = ok.obs;             \
    a = ok.action;          \
    change;                 \
    spec(o, a, says);       \
  } while (0)
  WRONG(o.kind = PACELINE_DISCRETE, "observation kind: 2");
  WRONG(o.kind = 0, "observation kind: 0");
  WRONG(o.dtype = PACELINE_INT32, "observation dtype: 3");
  WRONG(o.dtype = 77, "observation dtype: 77");
  WRONG(o.ndim = 0, "observation ndim: 0");
  WRONG(o.ndim = 5, "observation ndim: 5");
  WRONG(o.shape[0] = 0, "shape");
  WRONG(o.shape[0] = -3, "shape");
  WRONG(o.shape[0] = INT64_MAX, "shape");
  WRONG((o.ndim = 2, o.shape[1] = INT64_MAX / 2), "shape");
  WRONG(o.frame_stack = 3, "frame_stack");
  WRONG(o.frame_stack = -1, "frame_stack");
  WRONG(a.kind = 0, "action kind: 0");
  WRONG(a.kind = 5, "action kind: 5");
  WRONG(a.kind = PACELINE_BOX, "action dtype: 3, must be PACELINE_FLOAT32");
  WRONG((a.kind = PACELINE_BOX, a.dtype = PACELINE_FLOAT32), "action ndim: 0, must be 1");
  WRONG((a.kind = PACELINE_BOX, a.dtype = PACELINE_FLOAT32, a.ndim = 2), "action ndim: 2, must be 1");
  WRONG((a.kind = PACELINE_BOX, a.dtype = PACELINE_FLOAT32, a.ndim = 1), "action shape[0]: 0");
  WRONG((a.kind = PACELINE_BOX, a.dtype = PACELINE_FLOAT32, a.ndim = 1, a.shape[0] = INT64_MAX), "action shape[0]: 9");
  WRONG((a.kind = PACELINE_MULTI_DISCRETE, a.branches = branches), "action num_branches: 0");
  WRONG((a.kind = PACELINE_MULTI_DISCRETE, a.branches = branches, a.num_branches = INT64_MIN),
        "action num_branches: -9");
  WRONG((a.kind = PACELINE_MULTI_DISCRETE, a.num_branches = 2), "action branches: NULL");
  WRONG((a.kind = PACELINE_MULTI_DISCRETE, a.branches = branches, a.num_branches = 3), "action branches[2]: 0");
  WRONG((a.kind = PACELINE_HYBRID, a.branches = branches, a.num_branches = 2), "action dtype: 3");
#define BOX(l, h)                                                                                           \
  (a.kind = PACELINE_HYBRID, a.dtype = PACELINE_FLOAT32, a.ndim = 1, a.shape[0] = 2, a.branches = branches, \
   a.num_branches = 2, a.low = (l), a.high = (h))
  WRONG(BOX(bounds[0], bounds[1]), "action low[1]: NaN, must be a number or infinite");
  WRONG(BOX(bounds[1], bounds[0]), "action high[1]: NaN, must be a number or infinite");
  WRONG(BOX(bounds[1], bounds[2]), "action low[1]: 1, must be at most high[1], -2");
  WRONG(BOX(bounds[3], NULL), "action low[0]: +Inf, must be such that a finite number lies between");
  WRONG(BOX(NULL, bounds[4]), "action low[0]: -Inf, must be such that a finite number lies between");
  WRONG((BOX(bounds[1], NULL), a.num_branches = 0), "action num_branches: 0, must be 1 to");
  WRONG((BOX(bounds[1], NULL), a.num_branches = 3), "action branches[2]: 0, must be at least 1");
  WRONG(a.dtype = PACELINE_FLOAT32, "action dtype: 2");
  WRONG(a.n = 0, "action n: 0");
  WRONG(a.n = -1, "action n: -1");
  WRONG(a.n = INT64_MAX, "action n");
}

/* Actions of each kind, with the methods that take them: a step that fails ends the run with the environment's number,
 * and the next run goes on. */
static void kinds_of_actions(const char *method) {
  static const int32_t branches[] = {3, 2};
  static const float low[] = {-1, -INFINITY}, high[] = {1, 5};
  static const struct {
    enum fault fault;
    int status;
    const char *says;
  } faults[] = {{NAN_OBS, PACELINE_ENAN, "environment 0: observation: component 0 is NaN, must be finite"},
                {INF_REWARD, PACELINE_ENAN, "environment 0: reward: +Inf, must be finite"},
                {FAIL_STEP, PACELINE_ECALLBACK, "environment 0: the motor is hot: 90 degrees"},
                {BAD_END, PACELINE_ECALLBACK, "environment 0: ended: 9"}};
  for (uint32_t kind = PACELINE_BOX; kind <= PACELINE_HYBRID; kind++) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
      family f = counters(faults[i].fault, 20);
      f.action.kind = kind;
      if (kind >= PACELINE_MULTI_DISCRETE) f.action.branches = branches, f.action.num_branches = 2;
      if (kind == PACELINE_BOX || kind == PACELINE_HYBRID) {
        f.action.dtype = PACELINE_FLOAT32, f.action.ndim = 1, f.action.shape[0] = 2;
        f.action.low = low, f.action.high = high;
      }
      paceline_config *cfg;
      OK(paceline_config_new(&cfg, method));
      OK(paceline_config_set(cfg, "num_envs", "4"));
      OK(paceline_config_set(cfg, "n_steps", "8"));
      const paceline_env_table table = counter_table(1);
      paceline_trainer *t;
      OK(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release));
      paceline_config_free(cfg);
      OK(paceline_trainer_begin(t, 400, 0));
      FAILS(paceline_trainer_run(NULL, t, 0, 0), faults[i].status, faults[i].says);
      CHECK(paceline_last_error_index() == 0 && stats_of(t).num_timesteps < 100);
      OK(paceline_trainer_run(NULL, t, 0, 0)); /* the fault occurs only once */
      CHECK(stats_of(t).num_timesteps >= 400 && isfinite(metric_of(t, "train/loss")));
      paceline_trainer_free(t);
      CHECK(f.made == 4 && f.destroyed == 4 && f.released == 1);
    }
  }
}

int main(void) {
  static const char *const methods[] = {"a2c", "a3c", "appo", "ga3c", "ppo"};
  at_creation(FAIL_SPEC, "no spec today", 0);
  at_creation(FAIL_CREATE, "environment 2: no third one", 2);
  specs();
  for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) kinds_of_actions(methods[m]);

  for (int at = 3; at < 200; at += 90) { /* in the warm-up, then after it */
    at_a_step(FAIL_STEP, at, PACELINE_ECALLBACK, "the motor is hot: 90 degrees");
    at_a_step(FAIL_SILENTLY, at, PACELINE_ECALLBACK, "step returned 42");
    at_a_step(NAN_OBS, at, PACELINE_ENAN, "observation");
    at_a_step(INF_REWARD, at, PACELINE_ENAN, "reward: +Inf");
    at_a_step(BAD_END, at, PACELINE_ECALLBACK, "ended: 9");
  }
  at_a_step(LONG_TEXT, 5, PACELINE_ECALLBACK, "\xc3\xa9?xxx");
  CHECK(strlen(paceline_last_error()) < 1024);

  family f = counters(FAIL_RESET, 0);
  paceline_trainer *t;
  OK(counter_trainer(&t, &f, 0));
  FAILS(paceline_trainer_run(NULL, t, 100, 0), PACELINE_ECALLBACK, "environment 1: cannot begin");
  CHECK(paceline_last_error_index() == 1);
  f.fault = SOUND;
  OK(paceline_trainer_run(NULL, t, 100, 0));
  paceline_trainer_free(t);
  CHECK(f.released == 1);

  /* Every run after a loss that is not finite returns the loss and its step. The state before the
   * loss can be saved. */
  const char *const squared[] = {QUICK, "loss", "squared", NULL};
  paceline_config *cfg = config(squared);
  paceline_env_table table = counter_table(1);
  f = counters(HUGE_REWARD, 150);
  OK(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release));
  OK(paceline_trainer_begin(t, 2000, 0));
  FAILS(paceline_trainer_run(NULL, t, 0, 0), PACELINE_ENAN, "loss: +Inf at step");
  FAILS(paceline_trainer_run(NULL, t, 0, 0), PACELINE_ENAN, "loss: +Inf at step");
  OK(paceline_trainer_save(t, tmp("before.paceline"), 0));
  paceline_policy *p;
  float obs = 0, q[2];
  int32_t action;
  OK(paceline_policy_load(&p, tmp("before.paceline")));
  OK(paceline_policy_act(p, 1, &obs, NULL, &action, (float *[]){q}));
  CHECK(isfinite(q[0]) && isfinite(q[1]));
  paceline_policy_free(p);
  paceline_trainer_free(t);
  paceline_config_free(cfg);

  /* A text of an earlier callback is not used again. */
  paceline_set_callback_error("an old story");
  f = counters(FAIL_SILENTLY, 1);
  OK(counter_trainer(&t, &f, 0));
  FAILS(paceline_trainer_run(NULL, t, 100, 0), PACELINE_ECALLBACK, "step returned 42");
  CHECK(strstr(paceline_last_error(), "story") == NULL);
  paceline_trainer_free(t);

  /* Settings that are refused, before or after the environments are made. */
  const char *const settings[] = {"actor", "online", NULL};
  cfg = config(settings);
  f = counters(SOUND, 0);
  FAILS(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release), PACELINE_EINVAL, "actor: online");
  CHECK(f.released == 1);
  paceline_config_free(cfg);
  f = counters(SOUND, 0);
  FAILS(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release), PACELINE_EHANDLE, "was freed");
  CHECK(f.released == 1);
  return 0;
}
