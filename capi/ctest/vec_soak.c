/* For some seconds threads send, receive, step, reset, save, render and drain at random, on vectors
 * that are made and freed meanwhile. Calls may be refused, but none may hang, crash or panic.
 * Arguments: the compiled faulty.c, seconds (2). */
#include <pthread.h>
#include <stdatomic.h>

#include "rows.h"

enum { THREADS = 6, ENVS = 6 };

static _Atomic(paceline_vec *) vectors[2];
static _Atomic uint32_t batches[2];
static _Atomic int quit;
static _Atomic long done, succeeded;

/* Checks that a concurrent call may end with this status. */
static void note(int status) {
  switch (status) {
    case PACELINE_OK: succeeded++; break;
    case PACELINE_EINVAL:
    case PACELINE_EHANDLE:
    case PACELINE_EBUSY:
    case PACELINE_ECALLBACK:
    case PACELINE_ENAN:
    case PACELINE_ETIMEDOUT:
    case PACELINE_EFAIL: break;
    default: printf("%s: %s\n", paceline_status_str(status), paceline_last_error()); exit(1);
  }
  done++;
}

static paceline_vec *another(int which, uint64_t *random) {
  uint32_t batch = 1 + next_random(random) % ENVS;
  batches[which] = batch;
  return vec_of(next_random(random) % 4 ? "Faulty-v0" : "CartPole-v1", ENVS, batch, 1 + next_random(random) % 3,
                next_random(random) % 3, NULL);
}

/* Offered rows belong to the library for a time that the threads do not know: their contents are
 * not checked. */
static arrays all_arrays[THREADS][ENVS];

static void *user(void *arg) {
  int me = (int)(intptr_t)arg;
  uint64_t random = (uint64_t)me + 1;
  char state[256];
  while (!quit) {
    int32_t ids[ENVS], actions[ENVS];
    uint64_t seeds[ENVS];
    uint8_t mask[ENVS];
    int which = (int)(next_random(&random) % 2);
    paceline_vec *v = vectors[which];
    size_t n = next_random(&random) % (ENVS + 1), size = sizeof state;
    uint32_t height, width, i = next_random(&random) % ENVS, first = next_random(&random) % ENVS;
    for (uint32_t k = 0; k < ENVS; k++) {
      uint32_t x = next_random(&random);
      ids[k] = (int32_t)((first + k) % ENVS);
      actions[k] = x % 40 == 39 ? 3 : x % 40 == 38 ? 4 : x % 40 == 37 ? 5 : (int32_t)(x % 2);
      seeds[k] = x;
      mask[k] = x % 3 == 0;
    }
    switch (next_random(&random) % 24) {
      case 0: note(paceline_vec_step(v, actions, all_of(&all_arrays[me][ENVS - 1]))); break;
      case 1: note(paceline_vec_reset(v, seeds, i % 2 ? mask : NULL, all_of(&all_arrays[me][ENVS - 1]))); break;
      case 2: note(paceline_vec_drain(v)); break;
      case 3: note(paceline_vec_save(state, &size, v, i)); break;
      case 4:
        if (paceline_vec_save(state, &size, v, i) == 0) note(paceline_vec_restore(v, i, state, size));
        break;
      case 5: note(paceline_vec_render(NULL, &size, &height, &width, v, i)); break;
      case 6: note(paceline_vec_send_reset(v, ids, n, i % 2 ? seeds : NULL)); break;
      case 7: note(paceline_vec_send(v, ids, 1, actions)); break;
      case 8: note(paceline_vec_send_reset(v, ids, 1, NULL)); break;
      case 9:
      case 10:
      case 11: note(paceline_vec_send(v, ids, n, actions)); break;
      case 12: note(paceline_vec_offer(v, all_of(&all_arrays[me][batches[which] - 1]))); break;
      case 13:
        if (next_random(&random) % 16 == 0) {
          paceline_vec_free(atomic_exchange(&vectors[which], another(which, &random)));
        }
        break;
      default: note(paceline_vec_recv(v, 1 + next_random(&random) % 3));
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  CHECK(argc >= 2);
  int seconds = argc > 2 ? atoi(argv[2]) : 2;
  char *name;
  OK(paceline_env_load(&name, argv[1]));
  paceline_string_free(name);
  uint64_t random = 99;
  pthread_t threads[THREADS];
  alarm((unsigned)seconds + 20); /* a hang is a failure */
  for (int k = 0; k < 2; k++) vectors[k] = another(k, &random);
  paceline_vec *widest = vec_of("CartPole-v1", 1, 0, 1, 0, NULL);
  for (int i = 0; i < THREADS; i++)
    for (uint32_t k = 0; k < ENVS; k++) all_arrays[i][k] = arrays_for(widest, k + 1);
  paceline_vec_free(widest);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, user, (void *)(intptr_t)i);
  sleep((unsigned)seconds);
  quit = 1;
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int k = 0; k < 2; k++) paceline_vec_free(vectors[k]);
  for (int i = 0; i < THREADS; i++)
    for (int k = 0; k < ENVS; k++) arrays_free(&all_arrays[i][k]);
  printf("%ld calls, %ld of them succeeded\n", done, succeeded);
  CHECK(succeeded > 100);
  return 0;
}
