/* Actions of every kind, through paceline_vec. Argument: the folder in which run.sh built the variants of acting.c. */
#include "rows.h"

static const char *folder;

static int load(const char *file) {
  char path[4096], *name;
  snprintf(path, sizeof path, "%s/%s.so", folder, file);
  int status = paceline_env_load(&name, path);
  if (status == PACELINE_OK) paceline_string_free(name);
  return status;
}

static arrays masked_arrays(const paceline_vec *v, uint32_t n, size_t mask_bytes) {
  arrays r = arrays_for(v, n);
  if (mask_bytes > 0) {
    r.rows.action_masks = zeroed(n * mask_bytes);
    r.rows.final_action_masks = zeroed(n * mask_bytes);
  }
  return r;
}

static void masked_arrays_free(arrays *r) {
  free(r->rows.action_masks), free(r->rows.final_action_masks);
  arrays_free(r);
}

static void specs(const char *env, uint32_t kind) {
  paceline_vec *v = vec_of(env, 2, 0, 1, PACELINE_NEXT_STEP, NULL);
  paceline_spec obs = {.struct_size = sizeof obs}, a = obs, b = obs;
  OK(paceline_vec_spec(&obs, &a, v));
  OK(paceline_vec_spec(&obs, &b, v));
  paceline_vec_free(v);
  CHECK(memcmp(&a, &b, sizeof a) == 0 && a.kind == kind && a.n == 0);
  if (kind == PACELINE_BOX) {
    CHECK(a.num_branches == 0 && a.branches == NULL);
  } else {
    CHECK(a.num_branches == 3 && a.branches[0] == 3 && a.branches[1] == 1 && a.branches[2] == 5);
  }
  if (kind == PACELINE_MULTI_DISCRETE) {
    CHECK(a.dtype == PACELINE_INT32 && a.ndim == 0 && a.low == NULL && a.high == NULL);
    return;
  }
  CHECK(a.dtype == PACELINE_FLOAT32 && a.ndim == 1 && a.shape[0] == 2);
  CHECK(a.low[0] == -1 && a.high[0] == 2 && isinf(a.low[1]) && a.low[1] < 0 && isinf(a.high[1]) && a.high[1] > 0);
  /* A program with an older header gets the fields that it knows. */
  memset(&b, 7, sizeof b);
  b.struct_size = 64;
  v = vec_of(env, 1, 0, 1, PACELINE_NEXT_STEP, NULL);
  OK(paceline_vec_spec(&obs, &b, v));
  CHECK(b.kind == kind && b.struct_size == 64 && ((const uint8_t *)&b)[64] == 7);
  paceline_vec_free(v);
}

/* Every environment gets its own action, in every mode, with one thread and with more. The masks are those of the
 * states. */
static void steps(const char *env, size_t mask_bytes) {
  for (uint32_t mode = PACELINE_NEXT_STEP; mode <= PACELINE_SAME_STEP; mode++) {
    enum { ENVS = 5 };
    paceline_vec *v = vec_of(env, ENVS, 0, mode + 1, mode, NULL);
    arrays r = masked_arrays(v, ENVS, mask_bytes);
    uint64_t random = mode;
    OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
    for (int k = 1; k < 40; k++) {
      for (uint32_t i = 0; i < ENVS; i++) act_at_random(&r, i, 0, &random);
      OK(paceline_vec_step(v, r.actions, all_of(&r)));
      for (uint32_t i = 0; i < ENVS; i++) {
        const float *obs = (const float *)(mode == PACELINE_SAME_STEP && over(&r, i) ? final_of(&r, i) : obs_of(&r, i));
        const int32_t *action = (const int32_t *)r.actions + i * (r.action_bytes / 4);
        if (mask_bytes > 0) {
          const int now = (int)*(const float *)obs_of(&r, i);
          const uint8_t *mask = r.rows.action_masks + i * mask_bytes;
          for (int a = 0; a < 3; a++) CHECK(mask[a] == (a != now % 3));
          CHECK(mask[3] == 1);
          for (int a = 0; a < 5; a++) CHECK(mask[4 + a] == (a != now % 5));
        }
        if (mode == PACELINE_NEXT_STEP && r.rows.started[i]) continue; /* the step reset, and ignored the action */
        CHECK((r.rows.rewards[i] == obs[0]) && (over(&r, i) != 0) == (obs[0] == 7));
        for (int64_t b = 0; b < r.action.num_branches; b++) CHECK(obs[1 + b] == (float)action[b]);
        CHECK(memcmp(obs + 1 + r.action.num_branches, action + r.action.num_branches, 4 * (size_t)r.action.shape[0]) ==
              0);
      }
    }
    masked_arrays_free(&r);
    paceline_vec_free(v);
  }
}

/* An action out of range is refused, and no environment steps. Numbers that are not refused reach the environment bit
 * for bit. */
static void ranges(const char *env) {
  paceline_vec *v = vec_of(env, 3, 0, 1, PACELINE_NEXT_STEP, NULL);
  arrays r = arrays_for(v, 3);
  const int64_t branches = r.action.num_branches, box = r.action.shape[0];
  int32_t *ints = (int32_t *)r.actions + r.action_bytes / 4; /* of environment 1 */
  float *numbers = (float *)r.actions + r.action_bytes / 4 + branches;
  const int32_t one = 1;
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
#define REFUSED(says)                                                                                  \
  do {                                                                                                 \
    FAILS(paceline_vec_step(v, r.actions, all_of(&r)), PACELINE_EINVAL, "environment 1: action" says); \
    OK(paceline_vec_offer(v, all_of(&r)));                                                             \
    FAILS(paceline_vec_send(v, &one, 1, ints), PACELINE_EINVAL, "environment 1: action" says);         \
    OK(paceline_vec_drain(v));                                                                         \
    memset(r.actions, 0, 3 * r.action_bytes);                                                          \
  } while (0)
  if (branches > 0) {
    ints[0] = 3;
    REFUSED(" branch 0: 3, must be 0 to 2");
    ints[1] = -1;
    REFUSED(" branch 1: -1, must be 0 to 0");
    ints[2] = INT32_MIN;
    REFUSED(" branch 2: -2147483648, must be 0 to 4");
  }
  if (box > 0) {
    numbers[0] = 2.5f;
    REFUSED("[0]: 2.5, must be -1 to 2");
    numbers[0] = NAN;
    REFUSED("[0]: NaN, must be -1 to 2");
    numbers[0] = -INFINITY;
    REFUSED("[0]: -Inf, must be -1 to 2");
    numbers[1] = INFINITY;
    REFUSED("[1]: +Inf, must be finite");
    numbers[1] = -NAN;
    REFUSED("[1]: NaN, must be finite");
    numbers[0] = -1, numbers[1] = -3e38f;
  }
  OK(paceline_vec_step(v, r.actions, all_of(&r)));
  for (uint32_t i = 0; i < 3; i++) CHECK(*(const float *)obs_of(&r, i) == 1);
  if (box > 0) CHECK(memcmp(obs_of(&r, 1) + 4 * (1 + branches), numbers, 8) == 0);
  arrays_free(&r);
  paceline_vec_free(v);
}

/* A mask that allows nothing in one branch is the failure of its environment. The others step. */
static void no_action_allowed(const char *env) {
  paceline_vec *v = vec_of(env, 3, 0, 2, PACELINE_NEXT_STEP, NULL);
  arrays r = masked_arrays(v, 3, 9);
  const uint64_t seeds[] = {1, 666, 2};
  OK(paceline_vec_reset(v, seeds, NULL, all_of(&r)));
  OK(paceline_vec_step(v, r.actions, all_of(&r)));
  FAILS(paceline_vec_step(v, r.actions, all_of(&r)), PACELINE_EINVAL,
        "environment 1: action mask: branch 2 allows none of 5 actions");
  CHECK(paceline_last_error_index() == 1);
  CHECK(*(const float *)obs_of(&r, 0) == 2 && *(const float *)obs_of(&r, 2) == 2);
  masked_arrays_free(&r);
  paceline_vec_free(v);
}

/* Methods with one number as an action refuse the others. */
static void dqn_refuses(const char *env, const char *says) {
  const char *const settings[] = {QUICK, "env", env, NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t;
  FAILS(paceline_trainer_new(&t, cfg), PACELINE_EINVAL, says);
  paceline_config_free(cfg);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  folder = argv[1];
  FAILS(load("empty_branch"), PACELINE_EINVAL, "action branches[1]: 0, must be at least 1");
  FAILS(load("no_branches"), PACELINE_EINVAL, "action branches: NULL, must point to 3 numbers");
  FAILS(load("nan_bound"), PACELINE_EINVAL, "action high[1]: NaN, must be a number or infinite");
  FAILS(load("crossed"), PACELINE_EINVAL, "action low[0]: 2, must be at most high[0], -1");
  const struct {
    const char *file, *env, *says;
    uint32_t kind;
    size_t mask;
  } all[] = {
      {"multi", "Multi-v0", "actions: branches of [3 1 5], must be discrete for dqn", PACELINE_MULTI_DISCRETE, 9},
      {"continuous", "Continuous-v0", "actions: a box of 2, must be discrete for dqn", PACELINE_BOX, 0},
      {"hybrid", "Hybrid-v0", "actions: branches of [3 1 5] and a box of 2, must be discrete for dqn", PACELINE_HYBRID,
       9},
      {"together", "Together-v0", "actions: branches of [3 1 5] and a box of 2", PACELINE_HYBRID, 9},
  };
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    OK(load(all[k].file));
    specs(all[k].env, all[k].kind);
    steps(all[k].env, all[k].mask);
    ranges(all[k].env);
    if (all[k].mask > 0) no_action_allowed(all[k].env);
    dqn_refuses(all[k].env, all[k].says);
    for (uint32_t mode = PACELINE_NEXT_STEP; mode <= PACELINE_DISABLED; mode++)
      CHECK(against_singles(all[k].env, NULL, 3, mode, 0, 60) > 0);
    char options[] = "{\"decorrelation_steps\": 5}";
    CHECK(against_singles(all[k].env, options, 8, PACELINE_SAME_STEP, 0, 20) > 0);
  }
  return 0;
}
