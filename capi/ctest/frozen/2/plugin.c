/* An environment in a file of its own, as programs were written when the header beside this
 * file was frozen: examples/c/env_plugin.c of then, without mathematics. */
#include <paceline.h>
#include <stdlib.h>
#include <string.h>

static const paceline_host *host;

/* One environment, with all that its future depends on. */
typedef struct pendulum {
  uint64_t random;
  double angle, speed;
  int64_t steps;
} pendulum;

/* A number of -1 to 1. */
static double drawn(pendulum *p) {
  p->random = p->random * 6364136223846793005u + 1442695040888963407u;
  return (double)(p->random >> 33) / (double)(1u << 30) - 1;
}

static void observe(const pendulum *p, float *obs) {
  obs[0] = (float)(1 - p->angle * p->angle / 2);
  obs[1] = (float)p->angle;
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
  drawn(p); /* neighbouring seeds begin close together */
  *env = p;
  return 0;
}

static int reset(void *env, void *obs) {
  pendulum *p = env;
  p->angle = drawn(p);
  p->speed = drawn(p);
  p->steps = 0;
  observe(p, obs);
  return 0;
}

static int step(void *env, const void *action, void *obs, float *reward, uint8_t *ended) {
  pendulum *p = env;
  double torque = 2 * (*(const int32_t *)action - 1), angle = p->angle;
  *reward = (float)-(angle * angle + 0.1 * p->speed * p->speed + 0.001 * torque * torque);
  p->speed = 0.9 * p->speed + 0.05 * torque;
  p->angle += 0.05 * p->speed;
  *ended = ++p->steps == 200 ? PACELINE_TRUNCATED : 0;
  observe(p, obs);
  return 0;
}

/* Optional: with these two, checkpoints go on in the middle of an episode. */
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

paceline_env_open_function paceline_env_open; /* the one name that the library looks for */

int paceline_env_open(paceline_env_plugin *out, const paceline_host *h) {
  host = h;
  out->name = "Frozen-v0";
  out->table.spec = spec;
  out->table.create = create;
  out->table.reset = reset;
  out->table.step = step;
  out->table.save = save;
  out->table.restore = restore;
  out->table.destroy = free;
  return 0;
}
