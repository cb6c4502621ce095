/*
 * What calls of the library cost from C. `paceline bench ffi` compiles and runs this:
 *
 *     ffi mlp.policy cnn.policy
 *
 * prints lines of "work,rows,microseconds", medians over stretches of calls. The first policy
 * acts on 4 floats, the second on 4x84x84 bytes.
 */
#define _POSIX_C_SOURCE 200809L
#include <paceline.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STRETCHES = 21, MOST = 64 };

static void check(int status) {
  if (status == PACELINE_OK) return;
  fprintf(stderr, "%s\n", paceline_last_error());
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* A call that is measured, and what it takes. */
typedef struct work {
  void (*call)(struct work *);
  size_t rows;
  const paceline_policy *policy;
  const void *obs;
  paceline_vec *vec;
  paceline_rows out;
  int32_t actions[MOST];
} work;

static void act(work *w) { check(paceline_policy_act(w->policy, w->rows, w->obs, NULL, w->actions, NULL)); }
static void step(work *w) { check(paceline_vec_step(w->vec, w->actions, &w->out)); }

static double stretch(work *w, int calls) {
  const double began = now();
  for (int i = 0; i < calls; i++) w->call(w);
  return now() - began;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(const char *name, size_t rows, work *w) {
  double times[STRETCHES];
  int calls = 1;
  while (stretch(w, calls) < 1000) calls *= 2; /* a millisecond */
  for (int i = 0; i < STRETCHES; i++) times[i] = stretch(w, calls) / calls;
  qsort(times, STRETCHES, sizeof *times, ascending);
  printf("%s,%zu,%.4f\n", name, rows, times[STRETCHES / 2]);
}

static void step_environments(uint32_t n) {
  float obs[MOST * 4];
  double rewards[MOST];
  uint8_t terminated[MOST], truncated[MOST];
  const paceline_vec_options options = {.struct_size = sizeof options, .num_envs = n, .num_threads = 1, .pin = -1};
  work w = {.call = step,
            .out = {.struct_size = sizeof w.out,
                    .num_rows = n,
                    .obs = obs,
                    .rewards = rewards,
                    .terminated = terminated,
                    .truncated = truncated}};
  check(paceline_vec_new(&w.vec, "CartPole-v1", &options));
  check(paceline_vec_reset(w.vec, NULL, NULL, &w.out));
  measure("vec_step", n, &w);
  paceline_vec_free(w.vec);
}

int main(int argc, char **argv) {
  static const size_t rows[] = {1, 8, 64};
  static float states[MOST * 4];
  static uint8_t images[4 * 84 * 84];
  paceline_policy *mlp, *cnn;
  if (argc != 3) return fprintf(stderr, "ffi mlp.policy cnn.policy\n"), 2;
  check(paceline_policy_load(&mlp, argv[1]));
  check(paceline_policy_load(&cnn, argv[2]));
  for (size_t i = 0; i < sizeof states / sizeof *states; i++) states[i] = (float)(i % 7) / 7;
  for (size_t i = 0; i < sizeof images; i++) images[i] = (uint8_t)(i * 31);

  measure("empty", 0, &(work){.call = act, .policy = mlp, .obs = states}); /* no rows: all but the work */
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) step_environments((uint32_t)rows[k]);
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    measure("act mlp", rows[k], &(work){.call = act, .policy = mlp, .obs = states, .rows = rows[k]});
  measure("act cnn", 1, &(work){.call = act, .policy = cnn, .obs = images, .rows = 1});
  paceline_policy_free(cnn);
  paceline_policy_free(mlp);
  return 0;
}
