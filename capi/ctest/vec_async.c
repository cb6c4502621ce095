/* Asynchronous stepping of a vector. Argument: the compiled faulty.c, whose actions cause delays
 * and faults. */
#include <pthread.h>
#include <stdatomic.h>

#include "rows.h"

enum { MOVE, MOVE_ON, SLEEP, FAIL, FAIL_NEXT_RESET, NOT_A_NUMBER }; /* as in faulty.c */

static const uint32_t modes[] = {PACELINE_NEXT_STEP, PACELINE_SAME_STEP, PACELINE_DISABLED};

/* In any order of the rows, every row equals the row of the environment alone. */
static void equal_to_singles(void) {
  const uint32_t batches[] = {1, 3, 8};
  for (int b = 0; b < 3; b++)
    for (int m = 0; m < 3; m++) {
      int rounds = 2400 / (int)batches[b];
      CHECK(against_singles("CartPole-v1", NULL, batches[b], modes[m], 2, rounds) > 40);
      CHECK(against_singles("Faulty-v0", NULL, batches[b], modes[m], 2, rounds) > 40);
      CHECK(against_singles("Catch-v0", "{\"decorrelation_steps\": 9}", batches[b], modes[m], 3, rounds / 4) > 10);
    }
}

/* A vector of eight environments, with arrays for rows of `batch` environments. */
typedef struct fixture {
  paceline_vec *v;
  arrays r[4];
  int32_t all[8], moves[8];
} fixture;

static fixture begin(const char *env, uint32_t batch, uint32_t threads, uint32_t mode, int offers) {
  fixture f = {.v = vec_of(env, 8, batch, threads, mode, NULL)};
  for (int i = 0; i < 8; i++) f.all[i] = i;
  for (int k = 0; k < 4; k++) f.r[k] = arrays_for(f.v, batch);
  for (int k = 0; k < offers; k++) OK(paceline_vec_offer(f.v, all_of(&f.r[k])));
  return f;
}

static void end(fixture *f) {
  paceline_vec_free(f->v);
  for (int k = 0; k < 4; k++) arrays_free(&f->r[k]);
}

static void pause_ms(int ms) {
  struct timespec t = {0, ms * 1000000L};
  nanosleep(&t, NULL);
}

static size_t under_way(const paceline_vec *v) {
  size_t n = 99;
  OK(paceline_vec_under_way(&n, v));
  return n;
}

/* Calls that would wait for ever, or conflict with environments under way, are refused and change
 * nothing. */
static void refused(void) {
  fixture f = begin("CartPole-v1", 3, 2, PACELINE_SAME_STEP, 0);
  FAILS(paceline_vec_recv(f.v, 0), PACELINE_EINVAL, "0 environments are under way, batch_size is 3");
  FAILS(paceline_vec_recv(f.v, -1), PACELINE_EINVAL, "max_ms: -1");
  FAILS(paceline_vec_recv(f.v, INT64_MAX), PACELINE_EINVAL, "0 environments are under way");
  FAILS(paceline_vec_send_reset(f.v, f.all, 1, NULL), PACELINE_EINVAL, "1 are sent");
  OK(paceline_vec_send_reset(f.v, NULL, 0, NULL));
  arrays whole = arrays_for(f.v, 8);
  FAILS(paceline_vec_offer(f.v, all_of(&whole)), PACELINE_EINVAL, "rows.num_rows: 8, must be 3");
  for (int k = 0; k < 2; k++) OK(paceline_vec_offer(f.v, all_of(&f.r[k])));
  FAILS(paceline_vec_send(f.v, f.all, 2, f.moves), PACELINE_EINVAL, "environment 0: step before reset");
  FAILS(paceline_vec_send_reset(f.v, f.all, 7, NULL), PACELINE_EINVAL, "7 are sent");
  FAILS(paceline_vec_send_reset(f.v, f.all, 9, NULL), PACELINE_EINVAL, "n: 9, must be at most 8");
  FAILS(paceline_vec_send_new_game(f.v, f.all, 7), PACELINE_EINVAL, "7 are sent");
  FAILS(paceline_vec_send_new_game(f.v, f.all, 9), PACELINE_EINVAL, "n: 9, must be at most 8");
  FAILS(paceline_vec_send_reset(f.v, f.all, (size_t)-1, NULL), PACELINE_EINVAL, "n: 18446744073709551615");
  int32_t unknown[] = {1, 8}, negative[] = {2, -1}, twice[] = {3, 4, 3};
  FAILS(paceline_vec_send_reset(f.v, unknown, 2, NULL), PACELINE_EINVAL, "env_id: 8, must be 0 to 7");
  FAILS(paceline_vec_send_reset(f.v, negative, 2, NULL), PACELINE_EINVAL, "env_id: -1, must be 0 to 7");
  FAILS(paceline_vec_send_reset(f.v, twice, 3, NULL), PACELINE_EINVAL, "env_id: 3, is under way already");
  FAILS(paceline_vec_recv(f.v, 0), PACELINE_EINVAL, "0 environments are under way");

  /* Five of eight are under way: one batch of three can be received, and no second one. */
  uint64_t seeds[] = {1, 2, 3, 4, 5, 6, 7, 8};
  OK(paceline_vec_send_reset(f.v, f.all, 5, seeds));
  CHECK(under_way(f.v) == 5);
  FAILS(paceline_vec_send_reset(f.v, f.all + 4, 1, NULL), PACELINE_EINVAL, "env_id: 4, is under way already");
  FAILS(paceline_vec_send_reset(f.v, f.all + 5, 2, NULL), PACELINE_EINVAL, "2 are sent");
  size_t size;
  uint32_t height = 7, width;
  whole.rows.rewards[1] = 17;
  pause_ms(30); /* until they are reset */
  FAILS(paceline_vec_reset(f.v, seeds, NULL, all_of(&whole)), PACELINE_EINVAL, "must be received first");
  FAILS(paceline_vec_step(f.v, f.moves, all_of(&whole)), PACELINE_EINVAL, "must be received first");
  FAILS(paceline_vec_save(NULL, &size, f.v, 7), PACELINE_EINVAL, "must be received first");
  FAILS(paceline_vec_restore(f.v, 7, seeds, 8), PACELINE_EINVAL, "must be received first");
  FAILS(paceline_vec_render(NULL, &size, &height, &width, f.v, 7), PACELINE_EINVAL, "must be received first");
  CHECK(whole.rows.rewards[1] == 17 && height == 7);
  OK(paceline_vec_recv(f.v, 0));
  FAILS(paceline_vec_recv(f.v, 0), PACELINE_EINVAL, "2 environments are under way, batch_size is 3");
  OK(paceline_vec_offer(f.v, all_of(&f.r[2])));
  int32_t *ids = f.r[0].rows.env_ids, out_of_range[] = {0, 1, 2};
  FAILS(paceline_vec_send(f.v, ids, 3, out_of_range), PACELINE_EINVAL, "action: 2, must be 0 to 1");
  int32_t with_a_fresh_one[] = {ids[0], 6};
  FAILS(paceline_vec_send(f.v, with_a_fresh_one, 2, f.moves), PACELINE_EINVAL, "environment 6: step before reset");
  OK(paceline_vec_send(f.v, ids, 1, f.moves));
  OK(paceline_vec_recv(f.v, 0)); /* rows are filled in the order of the offers */
  int seen[8] = {0};
  for (int k = 0; k < 3; k++) seen[f.r[0].rows.env_ids[k]]++, seen[f.r[1].rows.env_ids[k]]++;
  for (int i = 0; i < 5; i++) CHECK(seen[i] == 1 + (i == ids[0]));

  /* The refused reset has seeded nothing: random streams go on. */
  paceline_vec *same = vec_of("CartPole-v1", 8, 0, 1, PACELINE_SAME_STEP, NULL);
  arrays first = arrays_for(same, 8), second = arrays_for(same, 8);
  OK(paceline_vec_reset(same, seeds, NULL, all_of(&first)));
  OK(paceline_vec_reset(same, NULL, NULL, all_of(&second)));
  OK(paceline_vec_reset(f.v, NULL, NULL, all_of(&whole)));
  for (uint32_t k = 0; k < 3; k++)
    CHECK(memcmp(obs_of(&f.r[0], k), obs_of(&first, (uint32_t)f.r[0].rows.env_ids[k]), 16) == 0);
  CHECK(memcmp(obs_of(&second, 0), obs_of(&whole, 0), (size_t)5 * 16) == 0);
  paceline_vec_free(same);
  arrays_free(&whole), arrays_free(&first), arrays_free(&second);
  end(&f);
}

static atomic_int waits;
static void *wait_for_rows(void *v) {
  waits = 1;
  return (void *)(intptr_t)paceline_vec_recv(v, 0);
}

/* Time limits, drain and free, with steps of 100 ms. */
static void slow(void) {
  fixture f = begin("Faulty-v0", 3, 2, PACELINE_NEXT_STEP, 3);
  const int32_t slow[8] = {SLEEP, SLEEP, SLEEP, SLEEP, SLEEP, SLEEP, SLEEP, SLEEP};
  OK(paceline_vec_send_reset(f.v, f.all, 3, NULL));
  OK(paceline_vec_recv(f.v, 0));
  OK(paceline_vec_offer(f.v, all_of(&f.r[0])));
  double began = now();
  OK(paceline_vec_send(f.v, f.all, 3, slow));
  FAILS(paceline_vec_recv(f.v, 20), PACELINE_ETIMEDOUT, "time limit");
  CHECK(now() - began > 0.019);
  OK(paceline_vec_recv(f.v, 0)); /* the timeout lost nothing */
  CHECK(now() - began > 0.19);   /* three steps on two threads */
  for (uint32_t k = 0; k < 3; k++) CHECK(*(float *)obs_of(&f.r[1], k) == 1);

  /* After drain all steps are done and offers stay. */
  began = now();
  OK(paceline_vec_send(f.v, f.all, 3, slow));
  OK(paceline_vec_drain(f.v));
  CHECK(now() - began > 0.19 && under_way(f.v) == 0);
  FAILS(paceline_vec_recv(f.v, 0), PACELINE_EINVAL, "0 environments are under way");
  OK(paceline_vec_send(f.v, f.all, 3, f.moves));
  OK(paceline_vec_recv(f.v, 0));
  for (uint32_t k = 0; k < 3; k++) CHECK(*(float *)obs_of(&f.r[2], k) == 3);

  /* During a recv of another thread all calls except offer and send are refused. */
  pthread_t other;
  void *status;
  OK(paceline_vec_offer(f.v, all_of(&f.r[1])));
  OK(paceline_vec_offer(f.v, all_of(&f.r[2])));
  OK(paceline_vec_send(f.v, f.all, 3, slow));
  pthread_create(&other, NULL, wait_for_rows, f.v);
  while (!waits) pause_ms(1);
  pause_ms(30);
  FAILS(paceline_vec_recv(f.v, 0), PACELINE_EBUSY, "in progress");
  FAILS(paceline_vec_drain(f.v), PACELINE_EBUSY, "in progress");
  FAILS(paceline_vec_step(f.v, slow, all_of(&f.r[3])), PACELINE_EBUSY, "in progress");
  OK(paceline_vec_offer(f.v, all_of(&f.r[3])));
  OK(paceline_vec_send_reset(f.v, f.all + 3, 5, NULL));
  pthread_join(other, &status);
  CHECK(status == NULL);

  /* After free a recv that waits returns, and steps in progress end. */
  OK(paceline_vec_recv(f.v, 0));
  OK(paceline_vec_offer(f.v, all_of(&f.r[0])));
  OK(paceline_vec_offer(f.v, all_of(&f.r[1])));
  OK(paceline_vec_drain(f.v));
  OK(paceline_vec_send(f.v, f.all, 8, slow));
  OK(paceline_vec_recv(f.v, 0));
  waits = 0;
  pthread_create(&other, NULL, wait_for_rows, f.v);
  while (!waits) pause_ms(1);
  pause_ms(30);
  paceline_vec_free(f.v);
  pthread_join(other, &status);
  CHECK((intptr_t)status == PACELINE_EHANDLE);
  FAILS(paceline_vec_recv(f.v, 0), PACELINE_EHANDLE, "was freed");
  end(&f);
}

/* A failed environment is named, has no row, and works again after a reset. The others go on. */
static void failures(uint32_t batch, uint32_t threads, uint32_t mode) {
  fixture f = begin("Faulty-v0", batch, threads, mode, 4);
  uint64_t seeds[8] = {0};
  int32_t three = 3, what[8] = {0};
  OK(paceline_vec_drain(f.v)); /* with no environment under way */
  OK(paceline_vec_send_reset(f.v, f.all, batch, seeds));
  OK(paceline_vec_recv(f.v, 0));
  OK(paceline_vec_offer(f.v, all_of(&f.r[0])));
  const struct {
    int32_t action;
    int status;
    const char *says;
  } faults[] = {{FAIL, PACELINE_ECALLBACK, "environment 3: asked to fail"},
                {NOT_A_NUMBER, PACELINE_ENAN, "environment 3: observation: component 1 is NaN"}};
  for (int k = 0; k < 2; k++) {
    what[3] = faults[k].action;
    OK(paceline_vec_send(f.v, f.all, batch, what));
    FAILS(paceline_vec_recv(f.v, 0), faults[k].status, faults[k].says);
    FAILS(paceline_vec_recv(f.v, 0), PACELINE_EINVAL,
          "environments are under way, batch_size is"); /* it is one short */
    FAILS(paceline_vec_send(f.v, &three, 1, what), PACELINE_EINVAL, "environment 3: step before reset");
    OK(paceline_vec_send_reset(f.v, &three, 1, NULL));
    OK(paceline_vec_recv(f.v, 0));
    arrays *r = &f.r[1 + k];
    for (uint32_t i = 0; i < batch; i++) {
      CHECK(((float *)obs_of(r, i))[0] == (float)(r->rows.env_ids[i] == 3 ? 0 : 1 + k) && over(r, i) == 0);
      CHECK(batch < 8 || r->rows.env_ids[i] == (int32_t)i);
    }
    OK(paceline_vec_offer(f.v, all_of(r)));
  }

  /* Two failures are returned one after the other. Drain discards failures that were not
   * returned. */
  what[2] = what[3] = FAIL;
  OK(paceline_vec_send(f.v, f.all, batch, what));
  int reported = 0, status;
  for (int k = 0; k < 2; k++) {
    while ((status = paceline_vec_recv(f.v, 0)) == PACELINE_EINVAL) sched_yield(); /* refused until it has failed */
    STATUS(status, PACELINE_ECALLBACK);
    reported |= strstr(paceline_last_error(), "environment 2: asked to fail") != NULL ? 1 : 0;
    reported |= strstr(paceline_last_error(), "environment 3: asked to fail") != NULL ? 2 : 0;
  }
  CHECK(reported == 3);
  OK(paceline_vec_drain(f.v));
  OK(paceline_vec_send_reset(f.v, f.all, batch, NULL));
  OK(paceline_vec_drain(f.v));
  OK(paceline_vec_send(f.v, f.all, batch, what));
  OK(paceline_vec_drain(f.v));
  FAILS(paceline_vec_recv(f.v, 0), PACELINE_EINVAL, "0 environments are under way");
  end(&f);
}

/* An episode ends and the next one cannot start. In PACELINE_SAME_STEP the row of the end comes
 * after the error. In PACELINE_NEXT_STEP the next step, which resets, fails. */
static void failing_resets(void) {
  for (int m = 0; m < 2; m++)
    for (int twice = 0; twice < 20; twice++) {
      fixture f = begin("Faulty-v0", 8, 2, modes[m], 4);
      const int32_t what[8] = {MOVE, MOVE, MOVE, MOVE, MOVE, FAIL_NEXT_RESET, MOVE, MOVE};
      int32_t five = 5;
      OK(paceline_vec_send_reset(f.v, f.all, 8, NULL));
      OK(paceline_vec_recv(f.v, 0));
      OK(paceline_vec_send(f.v, f.all, 8, what));
      if (modes[m] == PACELINE_NEXT_STEP) {
        OK(paceline_vec_recv(f.v, 0));
        CHECK(f.r[1].rows.terminated[5] == 1);
        OK(paceline_vec_send(f.v, f.all, 8, f.moves));
      }
      FAILS(paceline_vec_recv(f.v, 0), PACELINE_ECALLBACK, "environment 5: cannot begin");
      if (modes[m] == PACELINE_SAME_STEP) {
        OK(paceline_vec_recv(f.v, 0));
        CHECK(f.r[1].rows.terminated[5] == 1 && f.r[1].rows.rewards[5] == 1 && *(float *)final_of(&f.r[1], 5) == 1);
        CHECK(f.r[1].rows.terminated[4] == 0 && *(float *)obs_of(&f.r[1], 4) == 1);
        FAILS(paceline_vec_send(f.v, &five, 1, what), PACELINE_EINVAL, "environment 5: step before reset");
        OK(paceline_vec_send(f.v, f.all, 5, f.moves));
        OK(paceline_vec_send(f.v, f.all + 6, 2, f.moves));
      }
      OK(paceline_vec_send_reset(f.v, &five, 1, NULL));
      OK(paceline_vec_recv(f.v, 0));
      CHECK(*(float *)obs_of(&f.r[2], 5) == 0 && *(float *)obs_of(&f.r[2], 6) == 2);
      end(&f);
    }

  /* The same in lockstep: the rows of the others are written. */
  fixture f = begin("Faulty-v0", 8, 2, PACELINE_SAME_STEP, 0);
  const int32_t what[8] = {MOVE, MOVE_ON, FAIL, MOVE_ON, MOVE_ON, FAIL_NEXT_RESET, MOVE, MOVE};
  uint8_t mask[8] = {0, 0, 1, 0, 0, 1, 0, 0};
  OK(paceline_vec_reset(f.v, NULL, NULL, all_of(&f.r[0])));
  FAILS(paceline_vec_step(f.v, what, all_of(&f.r[0])), PACELINE_ECALLBACK, "environment 2: asked to fail");
  CHECK(f.r[0].rows.rewards[4] == 0.25 && f.r[0].rows.rewards[6] == 0);
  FAILS(paceline_vec_step(f.v, f.moves, all_of(&f.r[0])), PACELINE_EINVAL, "environment 2: step before reset");
  OK(paceline_vec_reset(f.v, NULL, mask, all_of(&f.r[0])));
  OK(paceline_vec_step(f.v, f.moves, all_of(&f.r[0])));
  end(&f);
}

/* One thread sends and another one receives: no call is busy. */
typedef struct stream {
  paceline_vec *v;
  pthread_mutex_t lock;
  pthread_cond_t some;
  int32_t ready[8];
  int n, offered;
} stream;

enum { ROUNDS = 20000 };

static void *receive(void *arg) {
  stream *s = arg;
  arrays r[4];
  for (int k = 0; k < 4; k++) r[k] = arrays_for(s->v, 2);
  for (int k = 0; k < 4; k++) OK(paceline_vec_offer(s->v, all_of(&r[k])));
  pthread_mutex_lock(&s->lock);
  s->offered = 1;
  pthread_cond_signal(&s->some);
  pthread_mutex_unlock(&s->lock);
  for (int i = 0; i < ROUNDS; i++) {
    int status;
    while ((status = paceline_vec_recv(s->v, 0)) == PACELINE_EINVAL) { /* too few are under way */
      CHECK(strstr(paceline_last_error(), "must send more first") != NULL);
      sched_yield();
    }
    STATUS(status, PACELINE_OK);
    OK(paceline_vec_offer(s->v, all_of(&r[i % 4])));
    pthread_mutex_lock(&s->lock);
    for (int k = 0; k < 2; k++) s->ready[s->n++] = r[i % 4].rows.env_ids[k];
    pthread_cond_signal(&s->some);
    pthread_mutex_unlock(&s->lock);
  }
  OK(paceline_vec_drain(s->v));
  for (int k = 0; k < 4; k++) arrays_free(&r[k]);
  return NULL;
}

static void two_threads(void) {
  stream s = {.v = vec_of("CartPole-v1", 8, 2, 2, PACELINE_SAME_STEP, NULL),
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .some = PTHREAD_COND_INITIALIZER};
  const int32_t moves[8] = {0, 1, 0, 1, 0, 1, 0, 1}, all[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  pthread_t other;
  pthread_create(&other, NULL, receive, &s);
  pthread_mutex_lock(&s.lock);
  while (!s.offered) pthread_cond_wait(&s.some, &s.lock);
  pthread_mutex_unlock(&s.lock);
  OK(paceline_vec_send_reset(s.v, all, 8, NULL));
  for (int n, sent = 8; sent < 2 * ROUNDS; sent += n) {
    int32_t ids[8];
    pthread_mutex_lock(&s.lock);
    while (s.n == 0) pthread_cond_wait(&s.some, &s.lock);
    n = s.n < 2 * ROUNDS - sent ? s.n : 2 * ROUNDS - sent;
    memcpy(ids, s.ready, sizeof ids);
    s.n = 0;
    pthread_mutex_unlock(&s.lock);
    OK(paceline_vec_send(s.v, ids, (size_t)n, moves));
  }
  pthread_join(other, NULL);
  paceline_vec_free(s.v);
}

typedef struct watched {
  const paceline_vec *v;
  _Atomic int quit;
} watched;

static void *watch(void *arg) {
  watched *w = arg;
  while (!w->quit) CHECK(under_way(w->v) == 0);
  return NULL;
}

/* A thread that watches a vector neither makes calls fail nor waits for them. */
static void watched_vector(void) {
  fixture f = begin("CartPole-v1", 8, 2, PACELINE_SAME_STEP, 0);
  watched w = {.v = f.v};
  pthread_t other;
  pthread_create(&other, NULL, watch, &w);
  OK(paceline_vec_reset(f.v, NULL, NULL, all_of(&f.r[0])));
  for (int i = 0; i < 10000; i++) OK(paceline_vec_step(f.v, f.moves, all_of(&f.r[0])));
  w.quit = 1;
  pthread_join(other, NULL);
  end(&f);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  char *name;
  OK(paceline_env_load(&name, argv[1]));
  CHECK(strcmp(name, "Faulty-v0") == 0);
  paceline_string_free(name);
  equal_to_singles();
  refused();
  slow();
  for (int m = 0; m < 3; m++) {
    failures(4, 1, modes[m]);
    failures(8, 3, modes[m]);
  }
  failing_resets();
  two_threads();
  watched_vector();
  return 0;
}
