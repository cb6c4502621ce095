/* An environment in a file of its own whose observation is its number of steps and the latest action. Macros: its kind
 * of actions, and faults of its spec. Episodes have 7 steps. */
#include <math.h>
#include <paceline.h>
#include <stdlib.h>
#include <string.h>

#if defined(MULTI)
#define NAME "Multi-v0"
#define KIND PACELINE_MULTI_DISCRETE
enum { BRANCHES = 3, BOX = 0 };
#elif defined(CONTINUOUS)
#define NAME "Continuous-v0"
#define KIND PACELINE_BOX
enum { BRANCHES = 0, BOX = 2 };
#else
#ifdef TOGETHER
#define NAME "Together-v0"
#else
#define NAME "Hybrid-v0"
#endif
#define KIND PACELINE_HYBRID
enum { BRANCHES = 3, BOX = 2 };
#endif

static const paceline_host *host;
static const int32_t branches[] = {3, 1, 5};
static const float low[] = {-1, -INFINITY}, high[] = {2, INFINITY};

/* An action, as it is in memory. */
typedef struct act {
#if !defined(CONTINUOUS)
  int32_t branch[BRANCHES];
#endif
#if !defined(MULTI)
  float box[BOX];
#endif
} act;

typedef struct acting {
  int32_t steps, none_at;
  act latest;
} acting;

static int spec(void *user, paceline_spec *obs, paceline_spec *action) {
  (void)user;
  obs->kind = PACELINE_BOX;
  obs->dtype = PACELINE_FLOAT32;
  obs->ndim = 1;
  obs->shape[0] = 1 + BRANCHES + BOX;
  action->kind = KIND;
  action->dtype = BOX > 0 ? PACELINE_FLOAT32 : PACELINE_INT32;
  action->ndim = BOX > 0;
  action->shape[0] = BOX;
  if (BRANCHES > 0) action->branches = branches, action->num_branches = BRANCHES;
  if (BOX > 0) action->low = low, action->high = high;
#ifdef EMPTY_BRANCH
  static const int32_t empty[] = {3, 0, 5};
  action->branches = empty;
#endif
#ifdef NO_BRANCHES
  action->branches = NULL;
#endif
#ifdef NAN_BOUND
  static const float not_a_number[] = {-1, NAN};
  action->high = not_a_number;
#endif
#ifdef CROSSED
  action->low = high, action->high = low;
#endif
  return 0;
}

static int create(void *user, uint32_t index, uint64_t seed, void **env) {
  (void)user;
  acting *a = calloc(1, sizeof *a);
  if (a == NULL) return host->set_callback_error("out of memory"), 1;
  a->none_at = seed == 666 && index == 1 ? 2 : -1;
  *env = a;
  return 0;
}

static void observe(const acting *a, float *obs) {
  *obs++ = (float)a->steps;
#if !defined(CONTINUOUS)
  for (int b = 0; b < BRANCHES; b++) *obs++ = (float)a->latest.branch[b];
#endif
#if !defined(MULTI)
  memcpy(obs, a->latest.box, sizeof a->latest.box);
#endif
}

static int reset(void *env, void *obs) {
  acting *a = env;
  a->steps = 0;
  memset(&a->latest, 0, sizeof a->latest);
  observe(a, obs);
  return 0;
}

static int step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  acting *a = env;
  a->latest = *(const act *)action;
  *end = ++a->steps == 7 ? PACELINE_TRUNCATED : 0;
  *reward = (float)a->steps;
  observe(a, obs);
  return 0;
}

#ifdef TOGETHER
static int step_many(void *user, uint32_t n, void *const *envs, const void *actions, void *const *obs, float *rewards,
                     uint8_t *end) {
  (void)user;
  for (uint32_t k = 0; k < n; k++) step(envs[k], (const act *)actions + k, obs[k], &rewards[k], &end[k]);
  return 0;
}
#endif

#ifndef CONTINUOUS
/* Forbids one action of each branch that has others: the number of steps, modulo the branch. */
static int mask(void *env, uint8_t *mask) {
  const acting *a = env;
  for (int b = 0; b < BRANCHES; mask += branches[b++]) {
    memset(mask, a->steps != a->none_at || b != 2, (size_t)branches[b]);
    if (branches[b] > 1) mask[a->steps % branches[b]] = 0;
  }
  return 0;
}
#endif

paceline_env_open_function paceline_env_open;

int paceline_env_open(paceline_env_plugin *out, const paceline_host *h) {
  host = h;
  out->name = NAME;
  out->table.spec = spec;
  out->table.create = create;
  out->table.reset = reset;
  out->table.step = step;
  out->table.destroy = free;
#ifndef CONTINUOUS
  out->table.mask = mask;
#endif
#ifdef TOGETHER
  out->table.step_many = step_many;
#endif
  return 0;
}
