/*
 * A team: a caller and its helpers, threads that sleep until there is a job.
 *
 * Helpers are not goroutines. If a goroutine computes in C for longer than some 20 microseconds, Go's
 * scheduler wakes threads to search for other work. These threads would run on the cores of the
 * threads that compute.
 *
 * `state` is one word: the number of helpers in the job (ACTIVE), the number of free slots in the
 * job (SLOTS), and whether the team is closed (CLOSED). A helper joins a job by taking a slot. A
 * helper that wakes late finds no slot, so it never touches a job that has returned; the caller
 * waits only for helpers that joined. The caller writes the fields of a job while no helper is
 * active and no slot is free; only active helpers read them.
 *
 * A waiting helper spins for some 100 microseconds, because the next layer follows soon, and then
 * sleeps. The caller spins longer, because its helpers are in their last parts.
 */
#define _POSIX_C_SOURCE 200809L /* signals */

#include "team.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../cpu/float_mode.h"

enum { SLOT = 1 << 12, ACTIVE = SLOT - 1, SLOTS = ACTIVE * SLOT, CLOSED = 1 << 30 };
enum { HELPER_SPINS = 4000, CALLER_SPINS = 10000 };

struct paceline_team {
  /* Spinning threads read state: it has a cache line of its own. */
  _Alignas(64) atomic_int state;
  _Alignas(64) atomic_ptrdiff_t next; /* first part that no thread has begun */
  ptrdiff_t parts;
  paceline_part f;
  const void *job;

  pthread_mutex_t lock;
  pthread_cond_t job_ready, job_done;
  atomic_int sleeping;       /* helpers that wait for job_ready, or are about to */
  atomic_int caller_waiting; /* whether the caller waits for job_done, or is about to */
  int helpers;
  struct helper {
    struct paceline_team *team;
    int thread;
    pthread_t id;
  } helper[];
};

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

static int has_work(struct paceline_team *t) { return atomic_load(&t->state) & (SLOTS | CLOSED); }

/* Takes a slot; returns 0 if none is free. */
static int join_job(struct paceline_team *t) {
  int state = atomic_load(&t->state);
  while (state & SLOTS)
    if (atomic_compare_exchange_weak(&t->state, &state, state - SLOT + 1)) return 1;
  return 0;
}

static void leave_job(struct paceline_team *t) {
  if (((atomic_fetch_sub(&t->state, 1) - 1) & ACTIVE) == 0 && atomic_load(&t->caller_waiting)) {
    pthread_mutex_lock(&t->lock);
    pthread_cond_signal(&t->job_done);
    pthread_mutex_unlock(&t->lock);
  }
}

static void take_parts(struct paceline_team *t, int thread) {
  for (ptrdiff_t i; (i = atomic_fetch_add(&t->next, 1)) < t->parts;) t->f(t->job, i, thread);
}

/*
 * Returns when there is a job or the team is closed. Either this thread sees the new state, or the
 * thread that changed the state sees this one in `sleeping`.
 */
static void await_work(struct paceline_team *t) {
  for (int i = 0; i < HELPER_SPINS; i++, relax())
    if (has_work(t)) return;
  pthread_mutex_lock(&t->lock);
  atomic_fetch_add(&t->sleeping, 1);
  while (!has_work(t)) pthread_cond_wait(&t->job_ready, &t->lock);
  atomic_fetch_sub(&t->sleeping, 1);
  pthread_mutex_unlock(&t->lock);
}

static void *help(void *argument) {
  struct helper *h = argument;
  struct paceline_team *t = h->team;
  paceline_float_set(PACELINE_FLOAT_FLUSH);
  for (;;) {
    if (join_job(t)) {
      take_parts(t, h->thread);
      leave_job(t);
    } else if (atomic_load(&t->state) & CLOSED) {
      return NULL;
    }
    await_work(t);
  }
}

/* Returns when no helper is active. No slot is free. */
static void await_helpers(struct paceline_team *t) {
  for (int i = 0; i < CALLER_SPINS; i++, relax())
    if ((atomic_load(&t->state) & ACTIVE) == 0) return;
  pthread_mutex_lock(&t->lock);
  atomic_store(&t->caller_waiting, 1);
  while (atomic_load(&t->state) & ACTIVE) pthread_cond_wait(&t->job_done, &t->lock);
  atomic_store(&t->caller_waiting, 0);
  pthread_mutex_unlock(&t->lock);
}

void paceline_team_run(struct paceline_team *t, int helpers, ptrdiff_t parts, paceline_part f, const void *job) {
  if (helpers == 0 || parts < 2) {
    for (ptrdiff_t i = 0; i < parts; i++) f(job, i, 0);
    return;
  }
  t->f = f;
  t->job = job;
  t->parts = parts;
  atomic_store(&t->next, 0);
  atomic_store(&t->state, helpers * SLOT);
  if (atomic_load(&t->sleeping) > 0) {
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < helpers; i++) pthread_cond_signal(&t->job_ready);
    pthread_mutex_unlock(&t->lock);
  }
  take_parts(t, 0);
  atomic_fetch_and(&t->state, ~SLOTS);
  await_helpers(t);
}

void paceline_team_free(struct paceline_team *t) {
  pthread_mutex_lock(&t->lock);
  atomic_fetch_or(&t->state, CLOSED);
  pthread_cond_broadcast(&t->job_ready);
  pthread_mutex_unlock(&t->lock);
  for (int i = 0; i < t->helpers; i++) pthread_join(t->helper[i].id, NULL);
  pthread_cond_destroy(&t->job_ready);
  pthread_cond_destroy(&t->job_done);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

struct paceline_team *paceline_team_new(int helpers) {
  struct paceline_team *t;
  size_t size = sizeof *t + (size_t)helpers * sizeof t->helper[0];
  if ((t = aligned_alloc(64, (size + 63) / 64 * 64)) == NULL) return NULL;
  atomic_init(&t->state, 0);
  atomic_init(&t->next, 0);
  atomic_init(&t->sleeping, 0);
  atomic_init(&t->caller_waiting, 0);
  t->helpers = 0;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->job_ready, NULL);
  pthread_cond_init(&t->job_done, NULL);

  /* Helpers block all signals: the host's threads handle the host's signals. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < helpers; i++) {
    t->helper[i].team = t;
    t->helper[i].thread = i + 1;
    if (pthread_create(&t->helper[i].id, NULL, help, &t->helper[i]) != 0) break;
    t->helpers++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (t->helpers < helpers) {
    paceline_team_free(t);
    return NULL;
  }
  return t;
}
