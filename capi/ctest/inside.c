/* Calls on a trainer or vector inside a function of its own environments return at once, above all
 * *_free, which would wait for that function.
 * argv[1]: faulty.c, built with PRIES. It calls the function named by its symbol "pry_by" (default
 * paceline_vec_free) on the vector in its symbol "to_free": in a step, or in destroy if
 * "in_destroy" is set. */
#include <dlfcn.h>

#include "counter.h"

static paceline_trainer *own, *other;
static int begun, answered;

static int prying_step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  if (((counter *)env)->index == 0 && begun++ == 0) {
    STATUS(paceline_trainer_free(own), PACELINE_EBUSY);
    CHECK(strstr(paceline_last_error(), "inside a function of its own environments") != NULL);
    STATUS(paceline_trainer_run(NULL, own, 1, 0), PACELINE_EBUSY);
    STATUS(paceline_trainer_settle(own, 0), PACELINE_EBUSY);
    STATUS(paceline_trainer_save(own, tmp("inside"), 0), PACELINE_EBUSY);
    OK(paceline_trainer_stop(own));
    /* Another trainer can be made, run and freed here. */
    paceline_trainer *t = quick("CartPole-v1");
    OK(paceline_trainer_run(NULL, t, 300, 0));
    OK(paceline_trainer_free(t));
    answered = 1;
  }
  return counter_step(env, action, obs, reward, end);
}

static int outer_step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  if (((counter *)env)->index == 0 && other != NULL) { /* a run inside a callback of another run */
    paceline_trainer *inner = other;
    other = NULL;
    OK(paceline_trainer_run(NULL, inner, 40, 0));
    STATUS(paceline_trainer_free(own), PACELINE_EBUSY);
    OK(paceline_trainer_free(inner));
    answered = 2;
  }
  return counter_step(env, action, obs, reward, end);
}

static paceline_trainer *with_step(family *f, int (*step)(void *, const void *, void *, float *, uint8_t *)) {
  paceline_env_table table = counter_table(0);
  paceline_trainer *t;
  const char *const settings[] = {QUICK, NULL};
  paceline_config *cfg = config(settings);
  table.step = step;
  OK(paceline_trainer_new_table(&t, cfg, &table, f, counter_release));
  paceline_config_free(cfg);
  return t;
}

/* Idle vectors and trainers of the same plugin may be freed in a step of v. Nothing waits there. A
 * trainer whose environments are the host's never waits, whatever the setting env names. */
static void idle(const paceline_vec_options *o, const char *name, void *library, paceline_vec *v,
                 const paceline_rows *rows) {
  const char *const settings[] = {QUICK, "env", name, NULL};
  paceline_spec obs = {
      .struct_size = sizeof obs, .kind = PACELINE_BOX, .dtype = PACELINE_FLOAT32, .ndim = 1, .shape = {3}};
  paceline_spec action = {.struct_size = sizeof action, .kind = PACELINE_DISCRETE, .dtype = PACELINE_INT32, .n = 6};
  paceline_config *cfg = config(settings);
  paceline_vec *vector;
  paceline_trainer *pushed;
  OK(paceline_vec_new(&vector, name, o));
  OK(paceline_trainer_new_push(&pushed, cfg, &obs, &action));
  paceline_config_free(cfg);
  const struct {
    const char *by;
    void *on;
  } calls[] = {{"paceline_vec_drain", vector},
               {"paceline_vec_free", vector},
               {"paceline_trainer_free", pushed},
               {"paceline_trainer_free", quick(name)}};
  const int32_t actions[4] = {0};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    *(const char **)dlsym(library, "pry_by") = calls[i].by;
    *(int *)dlsym(library, "freed") = 1;
    *(void **)dlsym(library, "to_free") = calls[i].on;
    OK(paceline_vec_step(v, actions, rows));
    CHECK(*(int *)dlsym(library, "freed") == PACELINE_OK);
  }
  STATUS(paceline_vec_drain(vector), PACELINE_EHANDLE);
  STATUS(paceline_trainer_stop(pushed), PACELINE_EHANDLE);
  *(const char **)dlsym(library, "pry_by") = "paceline_vec_free";
}

static void vector(const char *file) {
  char *name;
  paceline_vec *v;
  uint8_t ends[4] = {0};
  float obs[12], final_obs[12];
  double rewards[4];
  int32_t actions[4] = {0};
  paceline_vec_options o = {
      .struct_size = sizeof o, .num_envs = 4, .num_threads = 2, .autoreset = PACELINE_SAME_STEP, .pin = -1};
  paceline_rows rows = {.struct_size = sizeof rows,
                        .num_rows = 4,
                        .obs = obs,
                        .final_obs = final_obs,
                        .rewards = rewards,
                        .terminated = ends};
  OK(paceline_env_load(&name, file));
  OK(paceline_vec_new(&v, name, &o));
  OK(paceline_vec_reset(v, NULL, NULL, &rows));
  void *library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  CHECK(library != NULL);
  void **to_free = dlsym(library, "to_free");
  int *freed = dlsym(library, "freed");
  *to_free = v;
  OK(paceline_vec_step(v, actions, &rows));
  CHECK(*to_free == NULL && *freed == PACELINE_EBUSY);
  OK(paceline_vec_step(v, actions, &rows));
  /* A drain would wait for the step in which it is called. */
  const int32_t all[4] = {0, 1, 2, 3};
  OK(paceline_vec_offer(v, &rows));
  OK(paceline_vec_send_reset(v, all, 4, NULL));
  OK(paceline_vec_recv(v, 0));
  OK(paceline_vec_offer(v, &rows));
  *(const char **)dlsym(library, "pry_by") = "paceline_vec_drain";
  *freed = 0;
  *to_free = v;
  OK(paceline_vec_send(v, all, 4, actions));
  OK(paceline_vec_recv(v, 0));
  CHECK(*to_free == NULL && *freed == PACELINE_EBUSY);
  *(const char **)dlsym(library, "pry_by") = "paceline_vec_free";
  idle(&o, name, library, v, &rows);
  /* A new seed destroys the environments. */
  uint64_t seeds[4] = {1, 2, 3, 4};
  *(int *)dlsym(library, "in_destroy") = 1;
  *to_free = v, *freed = 0;
  OK(paceline_vec_reset(v, seeds, NULL, &rows));
  CHECK(*to_free == NULL && *freed == PACELINE_EBUSY);
  OK(paceline_vec_free(v));
  paceline_string_free(name);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  vector(argv[1]);
  family f = counters(SOUND, 0), g = counters(SOUND, 0);
  own = with_step(&f, prying_step);
  OK(paceline_trainer_run(NULL, own, 100, 0)); /* the stop in the callback ends it */
  CHECK(answered == 1);
  OK(paceline_trainer_run(NULL, own, 100, 0));
  OK(paceline_trainer_free(own));
  CHECK(f.released == 1);
  OK(paceline_trainer_free(own)); /* a second free does nothing */

  f = counters(SOUND, 0);
  own = with_step(&f, outer_step);
  other = with_step(&g, counter_step);
  OK(paceline_trainer_run(NULL, own, 100, 0));
  CHECK(answered == 2 && g.released == 1);
  OK(paceline_trainer_free(own));
  CHECK(f.released == 1);
  return 0;
}
