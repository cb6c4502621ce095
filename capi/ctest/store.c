/* A store of a range of parameters: steps of its optimiser, keys, ages, files; and a trainer whose gradients
 * are pushed to it. */
#include <pthread.h>

#include "t.h"

enum { N = 70, STEPS = 40, THREADS = 4 };

static float number(int seed, int i) { return sinf((float)(seed * 131 + i)); }

static void fill(float *to, int seed) {
  for (int i = 0; i < N; i++) to[i] = number(seed, i);
}

static paceline_store *make(int64_t max_staleness) {
  float start[N];
  fill(start, 0);
  paceline_store_options o = {
      .struct_size = sizeof o, .optimizer = "adagrad", .eps = 0.01, .first = 3, .max_staleness = max_staleness};
  paceline_store *s = NULL;
  OK(paceline_store_new(&s, start, N, &o));
  return s;
}

static int push(paceline_answer *a, paceline_store *s, int seed, int64_t seen, int64_t learner, int64_t life,
                int64_t step) {
  float grad[N];
  fill(grad, seed);
  paceline_push p = {
      .struct_size = sizeof p, .learning_rate = 0.1, .seen = seen, .learner = learner, .life = life, .step = step};
  *a = (paceline_answer){.struct_size = sizeof *a};
  return paceline_store_push(a, s, grad, N, &p);
}

static int64_t pull(float *to, paceline_store *s) {
  int64_t version = -1;
  OK(paceline_store_pull(to, N, &version, s));
  return version;
}

static void steps(void) {
  paceline_store *s = make(2);
  paceline_answer a;
  float theta[N], sum[N] = {0}, grad[N], now[N];
  fill(theta, 0);
  for (int step = 1; step <= STEPS; step++) {
    OK(push(&a, s, step, step - 1, 5, 0, step));
    CHECK(a.version == step && a.lag == 0 && a.duplicate == 0);
    fill(grad, step);
    for (int i = 0; i < N; i++) {
      sum[i] += grad[i] * grad[i];
      theta[i] -= 0.1f * grad[i] / (sqrtf(sum[i]) + 0.01f);
    }
    CHECK(pull(now, s) == step);
    for (int i = 0; i < N; i++) CHECK(fabsf(now[i] - theta[i]) < 1e-5f);
  }
  /* Late, and twice. */
  FAILS(push(&a, s, 1, STEPS - 3, 6, 0, 1), PACELINE_ESTALE,
        "lag: 3, must be at most max_staleness (2): the gradient is too old");
  CHECK(a.version == STEPS && a.lag == 3 && a.duplicate == 0);
  STATUS(push(&a, s, 1, STEPS, 6, 0, 1), PACELINE_ESTALE);
  CHECK(a.version == STEPS && a.lag == 3 && a.duplicate == 1);
  OK(push(&a, s, 9, STEPS, 5, 0, 7));
  CHECK(a.version == 7 && a.lag == 0 && a.duplicate == 1);
  float again[N];
  CHECK(pull(again, s) == STEPS && memcmp(now, again, sizeof now) == 0);
  char *text;
  OK(paceline_store_describe(&text, s));
  CHECK(strncmp(text,
                "{\"first\":3,\"size\":70,\"optimizer\":\"adagrad\",\"max_staleness\":2,\"version\":40,\"refused\":1,"
                "\"duplicates\":2,\"pulls\":41,\"learners\":[{\"learner\":5,\"life\":0,\"step\":40,\"applied\":40,"
                "\"refused\":0,\"duplicates\":1,\"answers\":[[1,1,0,0],",
                210) == 0);
  paceline_string_free(text);
  paceline_store_free(s);
  STATUS(paceline_store_pull(now, N, NULL, s), PACELINE_EHANDLE);
  paceline_store_free(s);
  paceline_store_free(NULL);
}

static void refused(void) {
  paceline_store *s = make(0), *t = NULL;
  paceline_answer a = {.struct_size = sizeof a};
  float x[N + 1] = {0};
  OK(push(&a, s, 1, 0, 1, 2, 100));
  FAILS(push(&a, s, 1, -1, 1, 2, 101), PACELINE_EINVAL, "push.seen: -1, must be at least 0");
  FAILS(push(&a, s, 1, 2, 1, 2, 101), PACELINE_EINVAL, "seen: 2, must be at most the version, which is 1");
  FAILS(push(&a, s, 1, 1, 4096, 2, 1), PACELINE_EINVAL, "key.learner: 4096, must be 0 to 4095");
  FAILS(push(&a, s, 1, 1, 1, 1, 1), PACELINE_EINVAL, "key.life: 1, must be at least 2");
  FAILS(push(&a, s, 1, 1, 1, 2, 36), PACELINE_EINVAL, "key.step: 36, must be above 36");
  paceline_push p = {.struct_size = sizeof p, .learning_rate = 0.1, .step = 101, .life = 2, .learner = 1};
  a.version = 77;
  FAILS(paceline_store_push(&a, s, x, N + 1, &p), PACELINE_EINVAL, "n: 71, must be 70");
  FAILS(paceline_store_pull(x, 0, NULL, s), PACELINE_EINVAL, "n: 0, must be 70");
  x[4] = NAN;
  FAILS(paceline_store_push(&a, s, x, N, &p), PACELINE_ENAN, "grad: number 4 is NaN, must be finite");
  CHECK(a.version == 77);
  paceline_store_options o = {.struct_size = sizeof o, .optimizer = "adagrad"};
  FAILS(paceline_store_new(&t, x, N, &o), PACELINE_ENAN, "parameters: number 4 is NaN");
  FAILS(paceline_store_new(&t, x, 0, &o), PACELINE_EINVAL, "n: 0, must be 1 to 2147483648");
  FAILS(paceline_store_new(&t, x, (size_t)-1, &o), PACELINE_EINVAL, "n: 18446744073709551615, must be 1 to");
  x[4] = 0;
  o.centered = 2;
  FAILS(paceline_store_new(&t, x, N, &o), PACELINE_EINVAL, "options.centered: 2, must be 0 or 1");
  o.centered = 1;
  FAILS(paceline_store_new(&t, x, N, &o), PACELINE_EINVAL, "optimizer.centered: true, adagrad has no such setting");
  o.centered = 0, o.optimizer = NULL;
  FAILS(paceline_store_new(&t, x, N, &o), PACELINE_EINVAL, "options.optimizer: NULL");
  FAILS(paceline_store_load(&t, tmp("no such file")), PACELINE_EIO, "no such file or directory");
  FAILS(paceline_store_save(s, "/nowhere/store"), PACELINE_EIO, "no such file or directory");
  FAILS(paceline_store_from_bytes(&t, x, sizeof x), PACELINE_EIO, "not a whole checkpoint");
  CHECK(t == NULL);
  paceline_store_free(s);
}

static void files(void) {
  paceline_store *s = make(0), *loaded[2];
  paceline_answer a;
  const char *path = tmp("a.store");
  for (int step = 1; step <= 3; step++) OK(push(&a, s, step, 0, 1, 0, step));
  OK(paceline_store_save(s, path));
  OK(paceline_store_load(&loaded[0], path));
  size_t size = 0;
  OK(paceline_store_to_bytes(NULL, &size, s));
  char *bytes = malloc(size);
  size--;
  FAILS(paceline_store_to_bytes(bytes, &size, s), PACELINE_EINVAL, "size: ");
  size++;
  OK(paceline_store_to_bytes(bytes, &size, s));
  OK(paceline_store_from_bytes(&loaded[1], bytes, size));
  for (size_t n = 0; n < size; n += 11) {
    paceline_store *none = NULL;
    FAILS(paceline_store_from_bytes(&none, bytes, n), PACELINE_EIO, "not a whole checkpoint");
  }
  free(bytes);
  float want[N], got[N];
  OK(push(&a, s, 4, 3, 1, 0, 4));
  pull(want, s);
  for (int i = 0; i < 2; i++) {
    OK(push(&a, loaded[i], 9, 3, 1, 0, 3));
    CHECK(a.duplicate == 1 && a.version == 3);
    OK(push(&a, loaded[i], 4, 3, 1, 0, 4));
    CHECK(a.duplicate == 0 && a.version == 4);
    CHECK(pull(got, loaded[i]) == 4 && memcmp(want, got, sizeof want) == 0);
    paceline_store_free(loaded[i]);
  }
  paceline_store_free(s);
}

static paceline_store *shared;

static void *learner(void *number) {
  float grad[N], now[N];
  for (int i = 0; i < N; i++) grad[i] = 0.5f;
  for (int step = 1; step <= STEPS; step++) {
    paceline_push p = {.struct_size = sizeof p, .learning_rate = 0.01, .learner = (intptr_t)number, .step = step};
    paceline_answer a = {.struct_size = sizeof a};
    p.seen = pull(now, shared);
    OK(paceline_store_push(&a, shared, grad, N, &p));
    CHECK(a.version > p.seen);
  }
  return NULL;
}

/* Any threads use one store. */
static void threads(void) {
  shared = make(0);
  pthread_t t[THREADS];
  for (intptr_t k = 0; k < THREADS; k++) CHECK(pthread_create(&t[k], NULL, learner, (void *)k) == 0);
  for (int k = 0; k < THREADS; k++) CHECK(pthread_join(t[k], NULL) == 0);
  float now[N];
  CHECK(pull(now, shared) == THREADS * STEPS);
  paceline_store_free(shared);
}

static paceline_trainer *trainer(const char *updates) {
  const char *const settings[] = {QUICK,  "env",  "CartPole-v1", "optimizer", "adagrad", "optimizer_eps",
                                  "0.01", "seed", "4",           "updates",   updates,   NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t;
  OK(paceline_trainer_new(&t, cfg));
  paceline_config_free(cfg);
  OK(paceline_trainer_begin(t, 600, 0));
  return t;
}

static size_t size_of(paceline_trainer *t) {
  paceline_parameter p = {.struct_size = sizeof p};
  for (size_t i = 0; paceline_trainer_parameter(&p, t, "q_net", i) == PACELINE_OK; i++);
  return p.offset + p.size;
}

/* The loop of the header is bit-identical to a trainer that takes its own steps. */
static void updates_from_outside(void) {
  paceline_trainer *own = trainer("own"), *t = trainer("outside");
  OK(paceline_trainer_run(NULL, own, 0, 0));
  FAILS(paceline_trainer_run(NULL, t, 0, 0), PACELINE_EINVAL, "run: the updates of this trainer come from outside");
  const size_t n = size_of(t);
  float *theta = malloc(n * sizeof *theta), *grad = malloc(n * sizeof *grad);
  OK(paceline_trainer_get_parameters(theta, n, NULL, t, "q_net"));
  paceline_store_options o = {.struct_size = sizeof o, .optimizer = "adagrad", .eps = 0.01};
  paceline_store *store;
  OK(paceline_store_new(&store, theta, n, &o));
  paceline_gradient g = {.struct_size = sizeof g};
  FAILS(paceline_trainer_gradient(grad, n, &g, own, 0), PACELINE_EINVAL, "gradient: updates is own, must be outside");
  FAILS(paceline_trainer_adopt(own, theta, n, 0, -1), PACELINE_EINVAL, "adopt: updates is own, must be outside");
  FAILS(paceline_trainer_gradient(grad, n - 1, &g, t, 0), PACELINE_EINVAL, "must be ");
  FAILS(paceline_trainer_gradient(grad, n, &g, t, -1), PACELINE_EINVAL, "max_ms: -1");
  FAILS(paceline_trainer_adopt(t, theta, n + 1, 0, -1), PACELINE_EINVAL, "must be ");
  FAILS(paceline_trainer_adopt(t, theta, n, -1, -1), PACELINE_EINVAL, "updates: -1");
  int64_t version = 0, number = 0;
  for (;;) {
    OK(paceline_trainer_gradient(grad, n, &g, t, 0));
    if (g.state == PACELINE_GRADIENT_NONE) break;
    CHECK(g.state == PACELINE_GRADIENT_READY && g.number == ++number && g.updates == version && g.rows == 16);
    paceline_push p = {.struct_size = sizeof p, .learning_rate = g.learning_rate, .seen = version, .step = g.number};
    paceline_answer a = {.struct_size = sizeof a};
    OK(paceline_store_push(&a, store, grad, n, &p));
    OK(paceline_store_pull(theta, n, &version, store));
    OK(paceline_trainer_adopt(t, theta, n, version, -1));
  }
  CHECK(number > 50 && stats_of(t).updates == number && stats_of(own).updates == number);
  const char *const parts[] = {"q_net", "q_net_target", "replay"};
  for (int i = 0; i < 3; i++) {
    char want[72], got[72];
    hash_of(want, own, parts[i]);
    hash_of(got, t, parts[i]);
    CHECK(strcmp(got, want) == 0);
  }
  paceline_store_free(store);
  paceline_trainer_free(own);
  paceline_trainer_free(t);
  free(theta);
  free(grad);
}

int main(void) {
  steps();
  refused();
  files();
  threads();
  updates_from_outside();
  return 0;
}
