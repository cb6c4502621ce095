/* An environment in a file of its own, whose actions cause delays and faults. With one of the
 * macros below the file itself has a fault. */
#include <errno.h>
#include <paceline.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef MASKED /* MOVE is allowed, and MOVE_ON at every other step */
#define NAME "Masked-v0"
#endif
#ifdef PRIES
#define NAME "Pries-v0"
#endif
#ifndef NAME
#define NAME "Faulty-v0"
#endif

enum { MOVE, MOVE_ON, SLEEP, FAIL, FAIL_NEXT_RESET, NOT_A_NUMBER, ACTIONS };

static const paceline_host *host;

typedef struct faulty {
  uint64_t random;
  uint32_t index;
  int32_t steps, length, sum, reset_fails;
} faulty;

#if defined(PRIES) || defined(OPEN_LOADS)
#include <dlfcn.h>
#endif

#ifdef PRIES
extern void *to_free;
extern int freed;
__attribute__((visibility("default"))) void *to_free;
__attribute__((visibility("default"))) int freed;

extern int in_destroy;
__attribute__((visibility("default"))) int in_destroy;
extern const char *pry_by;
__attribute__((visibility("default"))) const char *pry_by = "paceline_vec_free";

/* The program that loads this file is linked with the library. */
static void pry(void) {
  int (*call)(paceline_vec *);
  *(void **)&call = dlsym(RTLD_DEFAULT, pry_by);
  if (to_free != NULL) freed = call(to_free);
  to_free = NULL;
}
#endif

static int fail(const char *text) {
  host->set_callback_error(text);
  return 1;
}

static int spec(void *user, paceline_spec *obs, paceline_spec *action) {
#ifdef SPEC_FAILS
  return (void)user, (void)obs, (void)action, fail("no spec today");
#endif
  obs->kind = PACELINE_BOX;
  obs->dtype = PACELINE_FLOAT32;
  obs->ndim = 1;
  obs->shape[0] = 3;
  action->kind = PACELINE_DISCRETE;
  action->dtype = PACELINE_INT32;
  action->n = ACTIONS;
  return user == NULL ? 0 : fail("user is not what the file said");
}

static int create(void *user, uint32_t index, uint64_t seed, void **env) {
  (void)user;
  if (seed == 666 && index == 2) return fail("no third one");
  faulty *f = calloc(1, sizeof *f);
  f->random = seed;
  f->index = index;
  *env = f;
  return 0;
}

static void show(const faulty *f, float *obs) {
  obs[0] = (float)f->steps;
  obs[1] = (float)f->sum;
  obs[2] = (float)(f->random >> 40);
}

static int reset(void *env, void *obs) {
  faulty *f = env;
  if (f->reset_fails) return f->reset_fails = 0, fail("cannot begin");
  f->random = f->random * 6364136223846793005u + 1442695040888963407u;
  f->steps = f->sum = 0;
  f->length = 5 + (int32_t)(f->random >> 40) % 20;
  show(f, obs);
  return 0;
}

static int step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  faulty *f = env;
  int32_t a = *(const int32_t *)action;
#ifdef PRIES
  if (((faulty *)env)->index == 0 && !in_destroy) pry();
#endif
#ifdef MASKED
  if (a > (f->steps % 2 ? MOVE_ON : MOVE)) return fail("not allowed");
#endif
  f->steps++;
  f->sum += a;
  *reward = (float)a / 4;
  *end = f->steps < f->length ? 0 : f->length % 2 ? PACELINE_TERMINATED : PACELINE_TRUNCATED;
  show(f, obs);
  switch (a) {
    case SLEEP: {
      struct timespec t = {0, 100000000};
      while (nanosleep(&t, &t) != 0 && errno == EINTR) continue;
      break;
    }
    case FAIL: return fail("asked to fail");
    case FAIL_NEXT_RESET:
      f->reset_fails = 1;
      *end = PACELINE_TERMINATED;
      break;
    case NOT_A_NUMBER: ((float *)obs)[1] = 0 / *(volatile float *)&(float){0}; break;
    default: break;
  }
  return 0;
}

#ifdef MASKED
static int mask(void *env, uint8_t *mask) {
  memset(mask, 0, ACTIONS);
  mask[MOVE] = 1, mask[MOVE_ON] = ((faulty *)env)->steps % 2;
  return 0;
}
#endif

static int save(void *env, void *buf, size_t *len) {
  if (buf != NULL && *len >= sizeof(faulty)) memcpy(buf, env, sizeof(faulty));
  *len = sizeof(faulty);
  return 0;
}

static int restore(void *env, const void *buf, size_t len) {
  if (len != sizeof(faulty)) return fail("no state of mine");
  memcpy(env, buf, len);
  return 0;
}

static void destroy(void *env) {
#ifdef PRIES
  if (in_destroy) pry();
#endif
  free(env);
}

#ifndef NO_OPEN
__attribute__((visibility("default"))) int paceline_env_open(paceline_env_plugin *out, const paceline_host *h);

int paceline_env_open(paceline_env_plugin *out, const paceline_host *h) {
  host = h;
#ifdef OPEN_FAILS
  return fail("the licence has run out");
#endif
#ifdef OPEN_LOADS /* loads a file inside paceline_env_open */
  int (*env_load)(char **, const char *);
  const char *(*last_error)(void);
  char *name;
  *(void **)&env_load = dlsym(RTLD_DEFAULT, "paceline_env_load");
  *(void **)&last_error = dlsym(RTLD_DEFAULT, "paceline_last_error");
  return env_load(&name, "/tmp/another.so") == 0 ? fail("it was loaded") : fail(last_error());
#endif
#ifdef OPEN_FAILS_SILENTLY
  return 7;
#endif
  if (h->struct_size < sizeof *h || h->abi_version != PACELINE_ABI_VERSION) return fail("an odd host");
  if (out->struct_size != sizeof *out || out->table.struct_size != sizeof out->table || out->table.save != NULL)
    return fail("out: not as promised");
  out->name = NAME;
  out->table.spec = spec;
  out->table.create = create;
  out->table.reset = reset;
#ifndef NO_STEP
  out->table.step = step;
#endif
#ifdef MASKED
  out->table.mask = mask;
#endif
  out->table.save = save;
#ifndef NO_RESTORE
  out->table.restore = restore;
#endif
  out->table.destroy = destroy;
  return 0;
}
#endif
