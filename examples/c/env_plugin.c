/*
 * An environment in a file of its own, which C, C++ and Python use by its name: a pendulum that
 * must swing up and stay upright. The actions push it left, not at all or right. The observation
 * is the cosine and the sine of the angle (0: upright) and the speed. The rewards are those of
 * Gymnasium's Pendulum-v1. An episode is truncated after 200 steps.
 *
 *     cc -O2 -shared -fPIC -I"$(paceline --include-dir)" env_plugin.c -lm -o pendulum.so
 *     python -c 'import paceline; print(paceline.load_env("./pendulum.so"))'
 *     # afterwards, in the same process: paceline.make_vec("Pendulum3-v0", 8), and so on
 *
 * C programs call paceline_env_load(&name, "./pendulum.so"). The file is not linked with
 * libpaceline.
 */
#include <math.h>
#include <paceline.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;
static const paceline_host *host;

/* One environment. The struct is the whole state. */
typedef struct pendulum {
  uint64_t random;
  double angle, speed;
  int64_t steps;
} pendulum;

/* A random number of -1 to 1. */
static double uniform(pendulum *p) {
  p->random = p->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(p->random >> 33) / (double)(1u << 30) - 1;
}

static void observe(const pendulum *p, float *obs) {
  obs[0] = (float)cos(p->angle);
  obs[1] = (float)sin(p->angle);
  obs[2] = (float)p->speed;
}

static int spec(void *user, paceline_spec *obs, paceline_spec *action) {
  (void)user;
  obs->kind = PACELINE_BOX;
  obs->dtype = PACELINE_FLOAT32;
  obs->ndim = 1;
  obs->shape[0] = 3;
  action->kind = PACELINE_DISCRETE;
  action->dtype = PACELINE_INT32;
  action->n = 3;
  return 0;
}

static int create(void *user, uint32_t index, uint64_t seed, void **env) {
  pendulum *p = calloc(1, sizeof *p);
  (void)user;
  (void)index;
  if (p == NULL) return host->set_callback_error("out of memory"), 1;
  p->random = seed;
  uniform(p); /* the first numbers of neighbouring seeds are similar */
  *env = p;
  return 0;
}

static int reset(void *env, void *obs) {
  pendulum *p = env;
  p->angle = pi * uniform(p);
  p->speed = uniform(p);
  p->steps = 0;
  observe(p, obs);
  return 0;
}

static int step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  pendulum *p = env;
  double torque = 2 * (*(const int32_t *)action - 1), angle = remainder(p->angle, 2 * pi);
  *reward = (float)-(angle * angle + 0.1 * p->speed * p->speed + 0.001 * torque * torque);
  p->speed = fmin(fmax(p->speed + 0.05 * (15 * sin(p->angle) + 3 * torque), -8), 8);
  p->angle += 0.05 * p->speed;
  *end = ++p->steps == 200 ? PACELINE_TRUNCATED : 0;
  observe(p, obs);
  return 0;
}

/* Optional: with save and restore a checkpoint continues inside an episode. */
static int save(void *env, void *buf, size_t *len) {
  if (buf != NULL && *len >= sizeof(pendulum)) memcpy(buf, env, sizeof(pendulum));
  *len = sizeof(pendulum);
  return 0;
}

static int restore(void *env, const void *buf, size_t len) {
  if (len != sizeof(pendulum)) return host->set_callback_error("not a pendulum's state"), 1;
  memcpy(env, buf, len);
  return 0;
}

paceline_env_open_function paceline_env_open; /* the library looks for this name */

int paceline_env_open(paceline_env_plugin *out, const paceline_host *h) {
  host = h;
  out->name = "Pendulum3-v0";
  out->table.spec = spec;
  out->table.create = create;
  out->table.reset = reset;
  out->table.step = step;
  out->table.save = save;
  out->table.restore = restore;
  out->table.destroy = free;
  return 0;
}
