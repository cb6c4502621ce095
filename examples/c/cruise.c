/*
 * Your own simulator with continuous and with hybrid actions, as tables of C functions: a cruise
 * control drives a car through hills and must keep a target speed. PPO, or A2C, trains two forms of
 * it.
 *
 *     continuous   an action is two floats, throttle and brake; the gearbox shifts by itself
 *     hybrid       an action is a gear and the two floats; a mask allows the gear in use and its
 *                  neighbours
 *
 * Each policy is saved, loaded as in production, and drives a fleet of cars, with one call for all
 * cars. The returns are compared with those of random actions.
 *
 *     cruise [ppo|a2c] [seed]     writes continuous.policy and hybrid.policy
 *
 * Link with -lm.
 */
#include <math.h>
#include <paceline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GEARS = 4, OBS = 5, STEPS = 100, FLEET = 64 };

/* The actions as they are in memory: the int32_t of the branches, then the floats of the box. */
typedef struct pedals {
  float throttle, brake; /* 0 to 1 */
} pedals;
typedef struct controls {
  int32_t gear; /* 0 to GEARS - 1 */
  pedals pedals;
} controls;

/* One car. The struct is the whole state. Speeds are in metres per second, slope is the sine of the
 * road's angle. */
typedef struct car {
  uint64_t random;
  float speed, target, slope;
  int32_t gear, steps;
} car;

static const float best[GEARS] = {5, 11, 18, 28};    /* speed at which a gear accelerates best */
static const float most[GEARS] = {4, 2.4f, 1.6f, 1}; /* the acceleration there, in metres per second squared */

static float uniform(car *c, float from, float to) {
  c->random = c->random * 6364136223846793005u + 1442695040888963407u;
  return from + (to - from) * (float)(c->random >> 40) / (float)(1 << 24);
}

static int32_t automatic(float speed) { return speed < 8 ? 0 : speed < 14 ? 1 : speed < 23 ? 2 : 3; }

/* Each component is about -1 to 1. */
static void observe(const car *c, float *obs) {
  obs[0] = c->speed / 15 - 1;
  obs[1] = (c->target - c->speed) / 10;
  obs[2] = c->slope * 20;
  obs[3] = (float)c->gear / 2 - 0.75f;
  obs[4] = c->speed / best[c->gear] - 1;
}

static int reset(void *env, void *obs) {
  car *c = env;
  c->speed = uniform(c, 0, 30);
  c->target = uniform(c, 8, 28);
  c->slope = uniform(c, -0.05f, 0.05f);
  c->gear = automatic(c->speed);
  c->steps = 0;
  observe(c, obs);
  return 0;
}

/* A step of half a second. The reward is less than 0 by the distance from the target speed, in units
 * of 10 m/s, and by the fuel. */
static int drive(car *c, int32_t gear, pedals by, float *obs, float *reward, uint8_t *end) {
  c->gear = gear;
  const float engine = c->speed / best[gear]; /* speed of the engine; 1 is the best one */
  const float torque = fmaxf(0, 1 - 0.7f * (engine - 1) * (engine - 1));
  const float forwards = by.throttle * torque * most[gear];
  const float drag = 0.1f + 0.0006f * c->speed * c->speed;
  c->speed = fmaxf(0, c->speed + 0.5f * (forwards - 6 * by.brake - drag - 9.8f * c->slope));
  c->slope = fminf(fmaxf(c->slope + uniform(c, -0.01f, 0.01f), -0.05f), 0.05f);
  *reward = -fabsf(c->target - c->speed) / 10 - 0.03f * by.throttle * engine;
  *end = ++c->steps == STEPS ? PACELINE_TRUNCATED : 0;
  if (c->steps % 25 == 0) c->target = uniform(c, 8, 28);
  observe(c, obs);
  return 0;
}

static int create(void *user, uint32_t index, uint64_t seed, void **env) {
  (void)user, (void)index;
  car *c = calloc(1, sizeof *c);
  if (c == NULL) return paceline_set_callback_error("cruise: out of memory"), 1;
  c->random = seed;
  *env = c;
  return 0;
}

static const float low[] = {0, 0}, high[] = {1, 1}; /* static, as paceline_spec says */

/* The observation, and the box that the actions of both forms have. */
static void specs(paceline_spec *obs, paceline_spec *action) {
  obs->kind = PACELINE_BOX;
  obs->dtype = PACELINE_FLOAT32;
  obs->ndim = 1;
  obs->shape[0] = OBS;
  action->dtype = PACELINE_FLOAT32;
  action->ndim = 1;
  action->shape[0] = 2;
  action->low = low;
  action->high = high;
}

/* ----------------------------------------------------- continuous */

static int continuous_spec(void *user, paceline_spec *obs, paceline_spec *action) {
  (void)user;
  specs(obs, action);
  action->kind = PACELINE_BOX;
  return 0;
}

static int continuous_step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  const pedals *p = action;
  return drive(env, automatic(((car *)env)->speed), *p, obs, reward, end);
}

static const paceline_env_table continuous = {
    .struct_size = sizeof continuous,
    .spec = continuous_spec,
    .create = create,
    .reset = reset,
    .step = continuous_step,
    .destroy = free,
};

/* --------------------------------------------------------- hybrid */

static const int32_t branches[] = {GEARS};

static int hybrid_spec(void *user, paceline_spec *obs, paceline_spec *action) {
  (void)user;
  specs(obs, action);
  action->kind = PACELINE_HYBRID;
  action->branches = branches;
  action->num_branches = 1;
  return 0;
}

static int hybrid_step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  const controls *a = action;
  return drive(env, a->gear, a->pedals, obs, reward, end);
}

/* Optional: a byte for each value of each branch. The box has no mask. */
static int hybrid_mask(void *env, uint8_t *mask) {
  for (int32_t g = 0; g < GEARS; g++) mask[g] = abs(g - ((car *)env)->gear) <= 1;
  return 0;
}

static const paceline_env_table hybrid = {
    .struct_size = sizeof hybrid,
    .spec = hybrid_spec,
    .create = create,
    .reset = reset,
    .step = hybrid_step,
    .destroy = free,
    .mask = hybrid_mask,
};

/* ------------------------------------------------------- training */

#define TRY(call)                                                                      \
  do {                                                                                 \
    int status = (call);                                                               \
    if (status != PACELINE_OK) {                                                       \
      fprintf(stderr, "%s: %s\n", paceline_status_str(status), paceline_last_error()); \
      exit(1);                                                                         \
    }                                                                                  \
  } while (0)

static void set(paceline_config *cfg, const char *const settings[][2]) {
  for (; settings[0][0] != NULL; settings++) TRY(paceline_config_set(cfg, settings[0][0], settings[0][1]));
}

static void train(const paceline_env_table *form, const char *method, const char *seed, const char *file) {
  static const char *const both[][2] = {{"num_envs", "16"},       {"learning_rate_final", "0.0001"},
                                        {"gamma", "0.95"},        {"ent_coef", "0.01"},
                                        {"scaled", "true"}, /* the network's -1 to 1 is the pedals' 0 to 1 */
                                        {"log_std_init", "-0.5"}, {NULL}};
  static const char *const ppo[][2] = {{"n_steps", "64"}, {"batch_size", "128"}, {"learning_rate", "0.002"}, {NULL}};
  static const char *const a2c[][2] = {
      {"n_steps", "8"}, {"learning_rate", "0.001"}, {"use_rms_prop", "false"}, {"normalize_advantage", "true"}, {NULL}};
  paceline_config *cfg;
  paceline_trainer *t;
  paceline_stats s = {.struct_size = sizeof s};
  TRY(paceline_config_new(&cfg, method));
  set(cfg, both);
  set(cfg, strcmp(method, "ppo") == 0 ? ppo : a2c);
  TRY(paceline_config_set(cfg, "seed", seed));
  TRY(paceline_trainer_new_table(&t, cfg, form, NULL, NULL));
  TRY(paceline_trainer_begin(t, 102400, 0));
  do {
    TRY(paceline_trainer_run(&s, t, 20480, 0));
    printf("%6lld steps, return %6.1f\n", (long long)s.num_timesteps, s.mean_return);
    fflush(stdout);
  } while (s.num_timesteps < s.total_timesteps);
  TRY(paceline_trainer_save(t, file, 0));
  paceline_trainer_free(t);
  paceline_config_free(cfg);
}

/* Drives the fleet for an episode and returns the mean return. epsilon 1: random actions. */
static double serve(const paceline_env_table *form, size_t action_bytes, const paceline_policy *p, double epsilon) {
  car fleet[FLEET];
  float obs[FLEET][OBS], reward;
  uint8_t masks[FLEET][GEARS], ended;
  controls actions[FLEET]; /* of the larger form; action i is at byte i * action_bytes */
  double sum = 0;
  for (int i = 0; i < FLEET; i++) {
    fleet[i].random = 1000 + (uint64_t)i;
    form->reset(&fleet[i], obs[i]);
  }
  paceline_act_options o = {.struct_size = sizeof o, .epsilon = epsilon};
  if (form->mask != NULL) o.action_masks = masks[0];
  for (; o.counter < STEPS; o.counter++) {
    for (int i = 0; i < FLEET && form->mask != NULL; i++) form->mask(&fleet[i], masks[i]);
    TRY(paceline_policy_act(p, FLEET, obs, &o, actions, NULL));
    for (size_t i = 0; i < FLEET; i++) {
      form->step(&fleet[i], (const char *)actions + i * action_bytes, obs[i], &reward, &ended);
      sum += reward;
    }
  }
  return sum / FLEET;
}

/* Trains one form and returns whether it learned. */
static int learns(const char *name, const paceline_env_table *form, size_t action_bytes, const char *method,
                  const char *seed) {
  char file[32];
  snprintf(file, sizeof file, "%s.policy", name);
  train(form, method, seed, file);
  paceline_policy *p;
  TRY(paceline_policy_load(&p, file));
  const double random = serve(form, action_bytes, p, 1), trained = serve(form, action_bytes, p, 0);
  printf("%s: mean return of %d cars: %.1f by random actions, %.1f by the policy\n", name, FLEET, random, trained);
  paceline_policy_free(p);
  return trained > random / 2;
}

int main(int argc, char **argv) {
  const char *method = argc > 1 ? argv[1] : "ppo", *seed = argc > 2 ? argv[2] : "1";
  const int learned = learns("continuous", &continuous, sizeof(pedals), method, seed) +
                      learns("hybrid", &hybrid, sizeof(controls), method, seed);
  return learned == 2 ? 0 : 1;
}
