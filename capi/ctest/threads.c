/* Many threads at the same time: they share policies, a trainer is busy, each has its own error,
 * and stop ends runs of slow environments. */
#include "counter.h"

enum { THREADS = 8, ROWS = 50 };

static paceline_policy *policy;
static float obs[ROWS * 4];
static int32_t actions[ROWS];
static float values[ROWS * 2];

static void *act(void *arg) {
  int me = (int)(intptr_t)arg;
  for (int i = 0; i < 300; i++) {
    int32_t a[ROWS];
    float q[ROWS * 2];
    int n = 1 + (i * 7 + me) % ROWS; /* the values of a row do not depend on other rows */
    OK(paceline_policy_act(policy, (size_t)n, obs, NULL, a, (float *[]){q}));
    CHECK(memcmp(a, actions, (size_t)n * sizeof *a) == 0);
    CHECK(memcmp(q, values, (size_t)n * 2 * sizeof *q) == 0);
    if (i % 50 == 0) {
      paceline_evaluation e = {.struct_size = sizeof e};
      OK(paceline_policy_evaluate(&e, policy, "CartPole-v1", NULL, EPISODES(2, 0.5, (uint64_t)me)));
    }
    /* Errors of other threads do not appear here. */
    char key[32];
    snprintf(key, sizeof key, "nothing%d", me);
    paceline_config *cfg;
    OK(paceline_config_new(&cfg, "dqn"));
    FAILS(paceline_config_set(cfg, key, "1"), PACELINE_EINVAL, key);
    paceline_config_free(cfg);
    CHECK(strstr(paceline_last_error(), key) != NULL);
  }
  return NULL;
}

static _Atomic int began;

static void *run(void *t) {
  began = 1;
  int status = paceline_trainer_run(NULL, t, 0, 0);
  return (void *)(intptr_t)status;
}

static void pause_ms(int ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&t, NULL);
}

static void busy(void) {
  paceline_trainer *t = quick("CartPole-v1");
  pthread_t runner;
  void *status;
  OK(paceline_trainer_begin(t, 1000000000, 0));
  pthread_create(&runner, NULL, run, t);
  while (stats_of(t).num_timesteps < 1000) pause_ms(1); /* stats is thread-safe */
  FAILS(paceline_trainer_run(NULL, t, 1, 0), PACELINE_EBUSY, "in progress");
  FAILS(paceline_trainer_settle(t, 0), PACELINE_EBUSY, "in progress");
  FAILS(paceline_trainer_save(t, tmp("busy"), 0), PACELINE_EBUSY, "in progress");
  paceline_policy *p;
  FAILS(paceline_policy_from_trainer(&p, t), PACELINE_EBUSY, "in progress");
  paceline_parameter par = {.struct_size = sizeof par};
  OK(paceline_trainer_parameter(&par, t, "q_net", 0));
  OK(paceline_trainer_stop(t)); /* without it the join would never return */
  pthread_join(runner, &status);
  CHECK(status == NULL);

  /* Freed by one thread while another one is in a run. */
  began = 0;
  pthread_create(&runner, NULL, run, t);
  while (!began) pause_ms(1);
  pause_ms(50);
  paceline_trainer_free(t);
  pthread_join(runner, &status);
  CHECK(status == NULL || (intptr_t)status == PACELINE_EHANDLE);
  FAILS(paceline_trainer_settle(t, 0), PACELINE_EHANDLE, "was freed");
}

static void *evaluate(void *unused) {
  (void)unused;
  paceline_evaluation e = {.struct_size = sizeof e, .episodes = 7};
  began = 1;
  FAILS(paceline_policy_evaluate(&e, policy, "CartPole-v1", NULL, EPISODES(1000000, 0, 1)), PACELINE_ESTOPPED,
        "evaluation: stopped");
  CHECK(e.episodes == 7);
  return NULL;
}

/* Another thread stops an evaluation of a million episodes; the next evaluation is complete. */
static void stopped_evaluations(void) {
  pthread_t two[2];
  for (int i = 0; i < 2; i++) {
    began = 0;
    pthread_create(&two[i], NULL, evaluate, NULL);
    while (!began) pause_ms(1);
  }
  pause_ms(100);
  OK(paceline_policy_stop(policy));
  for (int i = 0; i < 2; i++) pthread_join(two[i], NULL);
  paceline_evaluation e = {.struct_size = sizeof e};
  OK(paceline_policy_evaluate(&e, policy, "CartPole-v1", NULL, EPISODES(2, 0, 1)));
  CHECK(e.episodes == 2);
}

static void *garbage(void *stop) {
  while (!*(_Atomic int *)stop) {
    char *value;
    paceline_config *cfg;
    OK(paceline_config_new(&cfg, "dqn"));
    OK(paceline_config_get(&value, cfg, "net_arch"));
    paceline_string_free(value);
    paceline_config_free(cfg);
  }
  return NULL;
}

/* Callbacks that sleep during many garbage collections, whose signals interrupt them. */
static void slow_environments(void) {
  family f = counters(SLEEP, 0);
  paceline_trainer *t;
  _Atomic int stop = 0;
  pthread_t other, runner;
  void *status;
  OK(counter_trainer(&t, &f, 0));
  pthread_create(&other, NULL, garbage, &stop);
  OK(paceline_trainer_run(NULL, t, 100, 0));
  OK(paceline_trainer_begin(t, 1000000, 0));
  pthread_create(&runner, NULL, run, t);
  pause_ms(50);
  OK(paceline_trainer_stop(t));
  pthread_join(runner, &status);
  CHECK(status == NULL);
  stop = 1;
  pthread_join(other, NULL);
  paceline_trainer_free(t);
  CHECK(f.released == 1);
}

static void *one_call(void *t) {
  paceline_stats s = {.struct_size = sizeof s};
  OK(paceline_trainer_stats(&s, t));
  STATUS(paceline_trainer_begin(t, -1, 0), PACELINE_EINVAL); /* so that this thread has an error text */
  return NULL;
}

static long kilobytes(const char *name) {
  char line[256];
  long kb = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, f) != NULL)
    if (strncmp(line, name, strlen(name)) == 0) kb = atol(line + strlen(name) + 1);
  fclose(f);
  return kb;
}

/* Threads that end and trainers that are freed leave no memory behind. */
static void leaks(void) {
  paceline_trainer *t = quick("CartPole-v1");
  long before = 0;
  for (int i = 0; i < 600; i++) {
    pthread_t x;
    pthread_create(&x, NULL, one_call, t);
    pthread_join(x, NULL);
    if (i % 6 == 0) {
      paceline_trainer *u = quick("CartPole-v1");
      OK(paceline_trainer_run(NULL, u, 300, 0));
      paceline_trainer_free(u);
    }
    if (i == 200) before = kilobytes("VmRSS:");
  }
  long grown = kilobytes("VmRSS:") - before;
  if (grown > 20000) {
    printf("400 threads and 67 trainers left %ld kB behind\n", grown);
    exit(1);
  }
  paceline_trainer_free(t);
}

int main(void) {
  paceline_trainer *t = quick("CartPole-v1");
  OK(paceline_policy_from_trainer(&policy, t));
  paceline_trainer_free(t);
  for (int i = 0; i < ROWS * 4; i++) obs[i] = sinf((float)i);
  OK(paceline_policy_act(policy, ROWS, obs, NULL, actions, (float *[]){values}));
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, act, (void *)(intptr_t)i);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  stopped_evaluations();
  paceline_policy_free(policy);
  busy();
  slow_environments();
  leaks();
  return 0;
}
