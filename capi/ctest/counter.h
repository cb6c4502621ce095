/* An environment as a table, with a chosen fault. The observation is the step's number in the
 * episode, one float; an episode has 7 to 12 steps. Most faults happen at a given step of the
 * first environment. */
#ifndef COUNTER_H
#define COUNTER_H

#include <pthread.h>
#include <stdatomic.h>

#include "t.h"

enum fault {
  SOUND,
  FAIL_SPEC,
  FAIL_CREATE, /* environment 2 */
  FAIL_RESET,
  FAIL_STEP,
  FAIL_SILENTLY, /* without a text */
  FAIL_SAVE,
  HUGE_SAVE, /* of 4 GiB */
  NAN_OBS,
  INF_REWARD,
  HUGE_REWARD, /* finite, with an infinite square; from the step on */
  BAD_END,
  LONG_TEXT,
  SLEEP, /* every step takes 5 ms, signals or not */
};

/* The number of environments that sleep now, and its maximum. */
static atomic_int asleep, most_asleep;

typedef struct family {
  enum fault fault;
  int at; /* step of environment 0, counted over all episodes */
  paceline_spec obs, action;
  int made, destroyed, released;
  pthread_mutex_t lock;
} family;

typedef struct counter {
  family *family;
  uint32_t index;
  uint64_t random;
  int32_t n, length, life;
} counter;

static int counter_spec(void *user, paceline_spec *obs, paceline_spec *action) {
  family *f = user;
  if (f->fault == FAIL_SPEC) return paceline_set_callback_error("no spec today"), 3;
  CHECK(obs->struct_size == sizeof *obs && action->struct_size == sizeof *action);
  *obs = f->obs;
  *action = f->action;
  return 0;
}

static int counter_create(void *user, uint32_t index, uint64_t seed, void **env) {
  family *f = user;
  if (f->fault == FAIL_CREATE && index == 2) return paceline_set_callback_error("no third one"), -4;
  counter *c = calloc(1, sizeof *c);
  c->family = f;
  c->index = index;
  c->random = seed;
  f->made++;
  *env = c;
  return 0;
}

static int counter_reset(void *env, void *obs) {
  counter *c = env;
  if (c->family->fault == FAIL_RESET && c->index == 1) return paceline_set_callback_error("cannot begin"), 1;
  c->random = c->random * 6364136223846793005u + 1442695040888963407u;
  c->length = 7 + (int)(c->random >> 33) % 6;
  c->n = 0;
  *(float *)obs = 0;
  return 0;
}

static int counter_step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  counter *c = env;
  family *f = c->family;
  int now = c->index == 0 && ++c->life == f->at;
  c->n++;
  *(float *)obs = (float)c->n / 12;
  *reward = *(const int32_t *)action == c->n % 2;
  *end = c->n == c->length ? (c->n % 2 ? PACELINE_TERMINATED : PACELINE_TRUNCATED) : 0;
  if (f->fault == SLEEP) {
    int together = ++asleep;
    for (int most = most_asleep; together > most && !atomic_compare_exchange_weak(&most_asleep, &most, together);)
      continue;
    struct timespec t = {0, 5000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) continue;
    asleep--;
  }
  if (f->fault == HUGE_REWARD && c->life >= f->at) *reward = 3e38f;
  if (!now) return 0;
  switch (f->fault) {
    case FAIL_STEP: return paceline_set_callback_error("the motor is hot: 90 degrees"), 1;
    case FAIL_SILENTLY: return 42;
    case LONG_TEXT: {
      static char text[5000];
      memset(text, 'x', sizeof text - 1);
      memcpy(text, "\xc3\xa9\xff", 3); /* an e acute, and a byte that is not UTF-8 */
      return paceline_set_callback_error(text), 1;
    }
    case NAN_OBS: *(float *)obs = NAN; break;
    case INF_REWARD: *reward = INFINITY; break;
    case BAD_END: *end = 9; break;
    default: break;
  }
  return 0;
}

static int counter_save(void *env, void *buf, size_t *len) {
  counter *c = env;
  if (c->family->fault == FAIL_SAVE) return paceline_set_callback_error("cannot be written down"), 1;
  size_t size = sizeof *c - offsetof(counter, random);
  if (c->family->fault == HUGE_SAVE) return *len = 1ull << 32, 0;
  if (buf != NULL && *len >= size) memcpy(buf, &c->random, size);
  *len = size;
  return 0;
}

static int counter_restore(void *env, const void *buf, size_t len) {
  counter *c = env;
  if (len != sizeof *c - offsetof(counter, random)) return paceline_set_callback_error("no state of mine"), 1;
  memcpy(&c->random, buf, len);
  return 0;
}

static void counter_destroy(void *env) {
  counter *c = env;
  pthread_mutex_lock(&c->family->lock);
  c->family->destroyed++;
  pthread_mutex_unlock(&c->family->lock);
  free(c);
}

static void counter_release(void *user) {
  family *f = user;
  f->released++;
  CHECK(f->made == f->destroyed);
}

static inline paceline_env_table counter_table(int saves) {
  paceline_env_table t = {.struct_size = sizeof t,
                          .spec = counter_spec,
                          .create = counter_create,
                          .reset = counter_reset,
                          .step = counter_step,
                          .destroy = counter_destroy};
  if (saves) {
    t.save = counter_save;
    t.restore = counter_restore;
  }
  return t;
}

static inline family counters(enum fault fault, int at) {
  return (family){
      .fault = fault,
      .at = at,
      .lock = PTHREAD_MUTEX_INITIALIZER,
      .obs = {.struct_size = sizeof(paceline_spec),
              .kind = PACELINE_BOX,
              .dtype = PACELINE_FLOAT32,
              .ndim = 1,
              .shape = {1}},
      .action = {.struct_size = sizeof(paceline_spec), .kind = PACELINE_DISCRETE, .dtype = PACELINE_INT32, .n = 2}};
}

/* Makes a trainer on four counters; returns the status. */
static inline int counter_trainer(paceline_trainer **out, family *f, int saves) {
  const char *const settings[] = {QUICK, NULL};
  paceline_config *cfg = config(settings);
  paceline_env_table t = counter_table(saves);
  int status = paceline_trainer_new_table(out, cfg, &t, f, counter_release);
  memset(&t, 0xff, sizeof t); /* the table is copied */
  paceline_config_free(cfg);
  return status;
}

#endif
