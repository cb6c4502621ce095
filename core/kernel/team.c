/*
 * A team: a caller and its helpers, threads that sleep until there is a job.
 *
 * Why they are not goroutines: one that computes in C for longer than some 20
 * microseconds is descheduled by Go's scheduler, which then wakes threads to search
 * for other work, on the cores of those that compute.
 *
 * The gate lets helpers into a job and notifies the caller when all are out again.
 * It is one word: how many helpers are inside, how many more may go in (SLOT),
 * and whether the team is closed. A helper that wakes late finds no free slot, and so
 * never touches a job that has returned: the caller waits for those that went in,
 * not for others to wake. The fields of a job are written while nobody is inside
 * and there is no free slot, and read only by those who went in.
 *
 * A helper that waits spins for some 100 microseconds, for one layer follows
 * another, and then sleeps. The caller, whose helpers are in their last parts, spins
 * longer.
 */
#define _POSIX_C_SOURCE 200809L /* signals */

#include "team.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../cpu/float_mode.h"

enum { SLOT = 1 << 12, INSIDE = SLOT - 1, SLOTS = INSIDE * SLOT, CLOSED = 1 << 30 };
enum { HELPER_SPINS = 4000, CALLER_SPINS = 10000 };

struct paceline_team {
  /* All threads read the gate all the time: it has a cache line of its own. */
  _Alignas(64) atomic_int gate;
  _Alignas(64) atomic_ptrdiff_t next; /* part that nobody has begun */
  ptrdiff_t parts;
  paceline_part f;
  const void *job;

  pthread_mutex_t lock;
  pthread_cond_t opened, emptied;
  atomic_int asleep;  /* helpers in opened, or about to be */
  atomic_int waiting; /* whether the caller is in emptied, or about to be */
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

static int news(struct paceline_team *t) { return atomic_load(&t->gate) & (SLOTS | CLOSED); }

/* Goes in if there is a free slot. */
static int enter(struct paceline_team *t) {
  int gate = atomic_load(&t->gate);
  while (gate & SLOTS)
    if (atomic_compare_exchange_weak(&t->gate, &gate, gate - SLOT + 1)) return 1;
  return 0;
}

static void leave(struct paceline_team *t) {
  if (((atomic_fetch_sub(&t->gate, 1) - 1) & INSIDE) == 0 && atomic_load(&t->waiting)) {
    pthread_mutex_lock(&t->lock);
    pthread_cond_signal(&t->emptied);
    pthread_mutex_unlock(&t->lock);
  }
}

static void take_parts(struct paceline_team *t, int thread) {
  for (ptrdiff_t i; (i = atomic_fetch_add(&t->next, 1)) < t->parts;) t->f(t->job, i, thread);
}

/* Returns when there is news. Either this sees the gate open, or who opens it sees this asleep. */
static void await_news(struct paceline_team *t) {
  for (int i = 0; i < HELPER_SPINS; i++, relax())
    if (news(t)) return;
  pthread_mutex_lock(&t->lock);
  atomic_fetch_add(&t->asleep, 1);
  while (!news(t)) pthread_cond_wait(&t->opened, &t->lock);
  atomic_fetch_sub(&t->asleep, 1);
  pthread_mutex_unlock(&t->lock);
}

static void *help(void *argument) {
  struct helper *h = argument;
  struct paceline_team *t = h->team;
  paceline_float_set(PACELINE_FLOAT_FLUSH);
  for (;;) {
    if (enter(t)) {
      take_parts(t, h->thread);
      leave(t);
    } else if (atomic_load(&t->gate) & CLOSED) {
      return NULL;
    }
    await_news(t);
  }
}

/* Returns when nobody is inside. There is no free slot. */
static void await_empty(struct paceline_team *t) {
  for (int i = 0; i < CALLER_SPINS; i++, relax())
    if ((atomic_load(&t->gate) & INSIDE) == 0) return;
  pthread_mutex_lock(&t->lock);
  atomic_store(&t->waiting, 1);
  while (atomic_load(&t->gate) & INSIDE) pthread_cond_wait(&t->emptied, &t->lock);
  atomic_store(&t->waiting, 0);
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
  atomic_store(&t->gate, helpers * SLOT);
  if (atomic_load(&t->asleep) > 0) {
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < helpers; i++) pthread_cond_signal(&t->opened);
    pthread_mutex_unlock(&t->lock);
  }
  take_parts(t, 0);
  atomic_fetch_and(&t->gate, ~SLOTS);
  await_empty(t);
}

void paceline_team_free(struct paceline_team *t) {
  pthread_mutex_lock(&t->lock);
  atomic_fetch_or(&t->gate, CLOSED);
  pthread_cond_broadcast(&t->opened);
  pthread_mutex_unlock(&t->lock);
  for (int i = 0; i < t->helpers; i++) pthread_join(t->helper[i].id, NULL);
  pthread_cond_destroy(&t->opened);
  pthread_cond_destroy(&t->emptied);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

struct paceline_team *paceline_team_new(int helpers) {
  struct paceline_team *t;
  size_t size = sizeof *t + (size_t)helpers * sizeof t->helper[0];
  if ((t = aligned_alloc(64, (size + 63) / 64 * 64)) == NULL) return NULL;
  atomic_init(&t->gate, 0);
  atomic_init(&t->next, 0);
  atomic_init(&t->asleep, 0);
  atomic_init(&t->waiting, 0);
  t->helpers = 0;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->opened, NULL);
  pthread_cond_init(&t->emptied, NULL);

  /* The host's signals are for the host's threads. */
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
