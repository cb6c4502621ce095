/* A2C, A3C, APPO and PPO with actions of every kind. Argument: the folder in which run.sh built the variants of acting.c, whose
 * observations are the number of steps and the latest action. Runs of a number of rollouts. */
#include "rows.h"

enum { ENVS = 4 };

static const struct kind {
  const char *file, *env, *outputs;
  int branches, box, mask; /* numbers of an action, bytes of a mask */
} kinds[] = {
    {"multi", "Multi-v0", "\"outputs\":[{\"len\":9,\"name\":\"logits\"},{\"len\":1,\"name\":\"value\"}]", 3, 0, 9},
    {"continuous", "Continuous-v0", "\"outputs\":[{\"len\":2,\"name\":\"mean\"},{\"len\":1,\"name\":\"value\"}]", 0, 2,
     0},
    {"hybrid", "Hybrid-v0",
     "\"outputs\":[{\"len\":9,\"name\":\"logits\"},{\"len\":1,\"name\":\"value\"},{\"len\":2,\"name\":\"mean\"}]", 3, 2,
     9},
};

static const char *const methods[] = {"a2c", "a3c", "appo", "ga3c", "ppo"};

static paceline_config *settings_of(const char *method, const char *env) {
  paceline_config *cfg;
  OK(paceline_config_new(&cfg, method));
  OK(paceline_config_set(cfg, "env", env));
  OK(paceline_config_set(cfg, "num_envs", "4"));
  OK(paceline_config_set(cfg, "n_steps", "8"));
  if (strstr(method, "ppo") != NULL) OK(paceline_config_set(cfg, "batch_size", "16"));
  OK(paceline_config_set(cfg, "seed", "5"));
  return cfg;
}

static paceline_trainer *trainer_of(const char *method, const char *env) {
  paceline_config *cfg = settings_of(method, env);
  paceline_trainer *t;
  OK(paceline_trainer_new(&t, cfg));
  paceline_config_free(cfg);
  return t;
}

static uint32_t word(const void *of, int i) {
  uint32_t bits;
  memcpy(&bits, (const char *)of + 4 * (size_t)i, 4);
  return bits;
}

static float number_at(const void *of, int i) {
  float x;
  memcpy(&x, (const char *)of + 4 * (size_t)i, 4);
  return x;
}

/* An action in the ranges of acting.c, and allowed by the mask, if there is one. */
static void in_range(const struct kind *k, const void *action, const uint8_t *mask) {
  static const uint32_t branches[] = {3, 1, 5};
  for (int b = 0, at = 0; b < k->branches; at += (int)branches[b++]) {
    CHECK(word(action, b) < branches[b]);
    CHECK(mask == NULL || mask[at + (int)word(action, b)] != 0);
  }
  if (k->box == 0) return;
  CHECK(number_at(action, k->branches) >= -1 && number_at(action, k->branches) <= 2);
  CHECK(isfinite(number_at(action, k->branches + 1)));
}

/* The actions of a round are those that the environments observe. */
static void rounds(const struct kind *k, const char *method) {
  const int size = k->branches + k->box, obs_size = 1 + size;
  paceline_trainer *t = trainer_of(method, k->env);
  float obs[ENVS * 6], last[ENVS * 6];
  uint32_t actions[ENVS * 5];
  uint8_t truncated[ENVS];
  paceline_rows rows = {
      .struct_size = sizeof rows, .num_rows = ENVS, .obs = obs, .final_obs = last, .truncated = truncated};
  OK(paceline_trainer_begin(t, 400, 0));
  for (int round = 0; round < 40; round++) {
    OK(paceline_trainer_run(NULL, t, 1, 0));
    OK(paceline_trainer_rows(&rows, actions, t));
    for (int i = 0; i < ENVS; i++) {
      const float *seen = (truncated[i] ? last : obs) + i * obs_size + 1;
      const uint32_t *action = actions + i * size;
      in_range(k, action, NULL);
      for (int b = 0; b < k->branches; b++) CHECK(seen[b] == (float)action[b]);
      CHECK(memcmp(seen + k->branches, action + k->branches, 4 * (size_t)k->box) == 0);
    }
  }
  OK(paceline_trainer_rows(&rows, NULL, t));
  CHECK(stats_of(t).updates > 0);
  paceline_trainer_free(t);
}

/* Environments that the caller steps give the weights of environments that the library steps. */
static void pushed(const struct kind *k) {
  paceline_trainer *own = trainer_of("ppo", k->env);
  OK(paceline_trainer_run(NULL, own, 320, 0));
  paceline_vec *v = vec_of(k->env, ENVS, 0, 1, PACELINE_SAME_STEP, NULL);
  arrays r = arrays_for(v, ENVS);
  paceline_rows rows = *all_of(&r);
  uint8_t masks[2][ENVS * 9];
  if (k->mask > 0) rows.action_masks = masks[0], rows.final_action_masks = masks[1];
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
  OK(paceline_vec_spec(&obs, &action, v));
  paceline_config *cfg = settings_of("ppo", "");
  if (k->mask > 0) OK(paceline_config_set(cfg, "action_masks", "true"));
  OK(paceline_config_set(cfg, "autoreset", "same_step"));
  paceline_trainer *t;
  OK(paceline_trainer_new_push(&t, cfg, &obs, &action));
  paceline_config_free(cfg);
  OK(paceline_vec_reset(v, NULL, NULL, &rows));
  OK(paceline_trainer_begin(t, 320, 0));
  for (int round = 0; round < 80; round++) {
    if (round == 3 && k->mask > 0) { /* a branch without an allowed action */
      uint8_t was[5];
      memcpy(was, masks[0] + 9 + 4, 5);
      memset(masks[0] + 9 + 4, 0, 5);
      FAILS(paceline_trainer_act(t, &rows, r.actions, 0), PACELINE_EINVAL,
            "action mask: branch 2 allows none of 5 actions");
      CHECK(paceline_last_error_index() == 1);
      memcpy(masks[0] + 9 + 4, was, 5);
    }
    OK(paceline_trainer_act(t, &rows, r.actions, 0));
    for (uint32_t i = 0; i < ENVS; i++)
      in_range(k, (char *)r.actions + i * r.action_bytes, k->mask > 0 ? masks[0] + 9 * i : NULL);
    OK(paceline_vec_step(v, r.actions, &rows));
    if (round == 5) {
      float *broken = (float *)rows.obs, was = broken[0];
      broken[0] = NAN;
      FAILS(paceline_trainer_observe(t, &rows, 0), PACELINE_ENAN, "observation: component 0 is NaN, must be finite");
      CHECK(paceline_last_error_index() == 0);
      broken[0] = was;
      const double reward = rows.rewards[2];
      rows.rewards[2] = -INFINITY;
      FAILS(paceline_trainer_observe(t, &rows, 0), PACELINE_ENAN, "reward");
      CHECK(paceline_last_error_index() == 2);
      rows.rewards[2] = reward;
    }
    OK(paceline_trainer_observe(t, &rows, 0));
  }
  char of_own[72], of_pushed[72];
  hash_of(of_own, own, "policy");
  hash_of(of_pushed, t, "policy");
  CHECK(strcmp(of_own, of_pushed) == 0);
  paceline_trainer_free(own);
  paceline_trainer_free(t);
  arrays_free(&r);
  paceline_vec_free(v);
}

/* A policy acts with one row as with many, from bytes and from a file, and keeps to masks. */
static void policies(const struct kind *k) {
  enum { N = 70 };
  const int size = k->branches + k->box;
  paceline_trainer *t = trainer_of("a2c", k->env);
  OK(paceline_trainer_run(NULL, t, 160, 0));
  paceline_policy *p, *again;
  OK(paceline_policy_from_trainer(&p, t));
  paceline_spec obs = {.struct_size = sizeof obs}, action = obs, same = obs;
  OK(paceline_policy_spec(&obs, &action, p));
  OK(paceline_trainer_spec(&obs, &same, t));
  CHECK(memcmp(&action, &same, sizeof action) == 0);
  OK(paceline_policy_save(p, tmp("policy")));
  OK(paceline_policy_load(&again, tmp("policy")));
  OK(paceline_policy_spec(&obs, &same, again));
  CHECK(memcmp(&action, &same, sizeof action) == 0);
  char *text;
  OK(paceline_policy_describe(&text, p));
  CHECK(strstr(text, k->outputs) != NULL);
  paceline_string_free(text);

  float rows[N * 6], mean[N * 2], logits[N * 9], *outputs[3] = {logits, NULL, mean};
  if (k->branches == 0) outputs[0] = mean;
  uint32_t actions[N * 5], others[N * 5], sampled[2][N * 5];
  for (int i = 0; i < N * (1 + size); i++) rows[i] = 3 * sinf((float)i);
  OK(paceline_policy_act(p, N, rows, NULL, actions, outputs));
  OK(paceline_policy_act(again, N, rows, NULL, others, NULL));
  CHECK(memcmp(actions, others, 4 * (size_t)(N * size)) == 0);
  for (int i = 0; i < N; i++) {
    const uint32_t *a = actions + i * size;
    in_range(k, a, NULL);
    OK(paceline_policy_act(p, 1, rows + i * (1 + size), NULL, others, NULL));
    CHECK(memcmp(a, others, 4 * (size_t)size) == 0);
    /* The mode: the largest logit of each branch, the means clipped to the bounds. */
    static const int count[] = {3, 1, 5}, first[] = {0, 3, 4};
    for (int b = 0; b < k->branches; b++)
      for (int j = 0; j < count[b]; j++) CHECK(logits[9 * i + first[b] + j] <= logits[9 * i + first[b] + (int)a[b]]);
    if (k->box > 0) {
      CHECK(number_at(a, k->branches) == fminf(fmaxf(mean[2 * i], -1), 2));
      CHECK(number_at(a, k->branches + 1) == mean[2 * i + 1]);
    }
  }
  paceline_act_options o = {.struct_size = sizeof o, .sample = 1, .seed = 3};
  uint8_t masks[N * 9];
  if (k->mask > 0) {
    for (int i = 0; i < N * 9; i++) masks[i] = (i % 9 == 3) || (i % 9 + i / 9) % 2; /* allows one of each branch */
    o.action_masks = masks;
  }
  for (int c = 0; c < 2; c++) {
    o.counter = (uint64_t)c;
    OK(paceline_policy_act(p, N, rows, &o, sampled[c], NULL));
    for (int i = 0; i < N; i++) in_range(k, sampled[c] + i * size, k->mask > 0 ? masks + 9 * i : NULL);
    o.epsilon = 1; /* random actions keep to ranges and masks, too */
    OK(paceline_policy_act(p, N, rows, &o, others, NULL));
    for (int i = 0; i < N; i++) in_range(k, others + i * size, k->mask > 0 ? masks + 9 * i : NULL);
    o.epsilon = 0;
  }
  CHECK(memcmp(sampled[0], sampled[1], 4 * (size_t)(N * size)) != 0);
  o.counter = 0;
  OK(paceline_policy_act(again, N, rows, &o, sampled[1], NULL));
  CHECK(memcmp(sampled[0], sampled[1], 4 * (size_t)(N * size)) == 0);
  if (k->mask > 0) {
    memset(masks + 9 * 40, 0, 3);
    memcpy(others, sampled[0], sizeof others);
    FAILS(paceline_policy_act(p, N, rows, &o, others, NULL), PACELINE_EINVAL,
          "action mask: branch 0 allows none of 3 actions");
    CHECK(paceline_last_error_index() == 40 && memcmp(others, sampled[0], sizeof others) == 0);
  }
  for (int i = 0; i < 3; i++) { /* an observation that is not finite: no action is chosen */
    float *broken = rows + 50 * (1 + size) + 1, was = *broken;
    *broken = i == 0 ? NAN : i == 1 ? INFINITY : -INFINITY;
    memcpy(others, sampled[0], sizeof others);
    FAILS(paceline_policy_act(p, N, rows, i ? &(paceline_act_options){.struct_size = sizeof o, .sample = 1} : NULL,
                              others, NULL),
          PACELINE_ENAN, i == 0 ? "observation: component 1 is NaN, must be finite" : "Inf, must be finite");
    CHECK(paceline_last_error_index() == 50 && memcmp(others, sampled[0], sizeof others) == 0);
    *broken = was;
  }
  paceline_evaluation e = {.struct_size = sizeof e};
  OK(paceline_policy_evaluate(&e, p, k->env, NULL, EPISODES(3, 0.25, 1)));
  CHECK(e.mean_length == 7 && e.mean_return == 28);
  FAILS(paceline_policy_evaluate(&e, p, "CartPole-v1", NULL, NULL), PACELINE_EINVAL, "as the policy's");
  paceline_policy_free(again);
  paceline_policy_free(p);
  paceline_trainer_free(t);
}

/* A checkpoint is of the bounds of the environments' actions, whose first upper bound is 2. */
static void other_bounds(const struct kind *k) {
  paceline_trainer *t = trainer_of("ppo", k->env);
  OK(paceline_trainer_run(NULL, t, 32, 0));
  OK(paceline_trainer_save(t, tmp("bounds.paceline"), PACELINE_SAVE_EXPERIENCE));
  paceline_vec *v = vec_of(k->env, ENVS, 0, 1, PACELINE_SAME_STEP, NULL);
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
  OK(paceline_vec_spec(&obs, &action, v));
  const float low[] = {action.low[0], action.low[1]}, high[] = {2.5f, action.high[1]};
  for (int other = 0; other < 2; other++) {
    if (other) action.low = low, action.high = high;
    paceline_config *cfg = settings_of("ppo", "");
    if (k->mask > 0) OK(paceline_config_set(cfg, "action_masks", "true"));
    paceline_trainer *push;
    OK(paceline_trainer_new_push(&push, cfg, &obs, &action));
    paceline_config_free(cfg);
    if (other)
      FAILS(paceline_trainer_load(push, tmp("bounds.paceline")), PACELINE_EINVAL,
            "environment: the checkpoint has actions whose high[0] is 2, this trainer 2.5");
    else
      OK(paceline_trainer_load(push, tmp("bounds.paceline")));
    paceline_trainer_free(push);
  }
  paceline_vec_free(v);
  paceline_trainer_free(t);
}

/* Settings that do not fit the actions. */
static void refused(const char *method) {
  static const struct {
    const char *env, *key, *says;
  } all[] = {
      {"Continuous-v0", "scaled", "scaled: true, must be false where a bound of the box is infinite"},
      {"Hybrid-v0", "scaled", "scaled: true, must be false where a bound of the box is infinite"},
      {"Multi-v0", "squashed", "squashed: true, scaled: false, must be false where actions are branches of [3 1 5]"},
      {"CartPole-v1", "scaled", "squashed: false, scaled: true, must be false where actions are"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    paceline_config *cfg = settings_of(method, all[i].env);
    OK(paceline_config_set(cfg, all[i].key, "true"));
    paceline_trainer *t;
    FAILS(paceline_trainer_new(&t, cfg), PACELINE_EINVAL, all[i].says);
    paceline_config_free(cfg);
  }
}

/* The same of environments that the caller steps, whose bounds may be too far apart. */
static void refused_pushed(const char *method) {
  static const float bounds[][2] = {{-1, -3e38f}, {1, 3e38f}};
  const paceline_spec obs = {
      .struct_size = sizeof obs, .kind = PACELINE_BOX, .dtype = PACELINE_FLOAT32, .ndim = 1, .shape = {3}};
  paceline_spec action = {.struct_size = sizeof action,
                          .kind = PACELINE_BOX,
                          .dtype = PACELINE_FLOAT32,
                          .ndim = 1,
                          .shape = {2},
                          .low = bounds[0]};
  paceline_config *cfg = settings_of(method, "");
  paceline_trainer *t;
  OK(paceline_config_set(cfg, "scaled", "true"));
  FAILS(paceline_trainer_new_push(&t, cfg, &obs, &action), PACELINE_EINVAL,
        "scaled: true, must be false where a bound of the box is infinite");
  action.high = bounds[1];
  FAILS(paceline_trainer_new_push(&t, cfg, &obs, &action), PACELINE_EINVAL,
        "scaled: true, must be false where high[1] - low[1] of the box (3e+38 - -3e+38) is above");
  OK(paceline_config_set(cfg, "scaled", "false"));
  OK(paceline_trainer_new_push(&t, cfg, &obs, &action));
  paceline_trainer_free(t);
  paceline_config_free(cfg);
}

/* Squashed and scaled numbers are within the bounds without being clipped. */
static void squashed(void) {
  paceline_config *cfg = settings_of("ppo", "Pendulum-v1");
  for (int k = 0; k < 2; k++) OK(paceline_config_set(cfg, k ? "scaled" : "squashed", "true"));
  OK(paceline_config_set(cfg, "log_std_init", "2"));
  paceline_trainer *t;
  OK(paceline_trainer_new(&t, cfg));
  paceline_config_free(cfg);
  OK(paceline_trainer_run(NULL, t, 64, 0));
  paceline_policy *p;
  OK(paceline_policy_from_trainer(&p, t));
  enum { N = 500 };
  float obs[3 * N] = {0}, actions[N];
  paceline_act_options o = {.struct_size = sizeof o, .sample = 1};
  OK(paceline_policy_act(p, N, obs, &o, actions, NULL));
  int wide = 0;
  for (int i = 0; i < N; i++) {
    CHECK(fabsf(actions[i]) <= 2);
    wide += fabsf(actions[i]) > 1.5f;
  }
  CHECK(wide > N / 2);
  paceline_policy_free(p);
  paceline_trainer_free(t);
}

/* paceline_trainer_run_rollouts returns at the end of a rollout, of 32 steps here, before its updates. */
static void rollouts(const char *method) {
  paceline_trainer *t = trainer_of(method, "CartPole-v1");
  paceline_stats s = {.struct_size = sizeof s};
  OK(paceline_trainer_begin(t, 96, 0));
  OK(paceline_trainer_run(NULL, t, 8, 0));
  OK(paceline_trainer_run_rollouts(&s, t, 1, 0, 0));
  CHECK(s.num_timesteps == 32 && s.updates == 0 && s.updates_due > 0);
  FAILS(paceline_trainer_run_rollouts(NULL, t, -1, 0, 0), PACELINE_EINVAL, "max_rollouts: -1, must be at least 0");
  OK(paceline_trainer_run_rollouts(&s, t, 2, 0, 0));
  CHECK(s.num_timesteps == 96 && s.updates * 3 == s.updates_due * 2);
  OK(paceline_trainer_begin(t, 64, PACELINE_RESET_TIMESTEPS));
  OK(paceline_trainer_run_rollouts(&s, t, 0, 0, 0));
  CHECK(s.num_timesteps == 64 && s.updates == s.updates_due);
  paceline_trainer_free(t);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char path[4096], *name;
    snprintf(path, sizeof path, "%s/%s.so", argv[1], kinds[i].file);
    OK(paceline_env_load(&name, path));
    paceline_string_free(name);
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) rounds(&kinds[i], methods[m]);
    pushed(&kinds[i]);
    policies(&kinds[i]);
    if (kinds[i].box > 0) other_bounds(&kinds[i]);
  }
  for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) refused(methods[m]), refused_pushed(methods[m]);
  squashed();
  rollouts("a2c");
  rollouts("ppo");
  return 0;
}
