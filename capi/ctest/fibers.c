/* Calls on the stacks of coroutines. Outside of callbacks every stack is allowed. Inside a callback
 * a call on another stack than the thread's own is refused before it reaches Go. */
#include "counter.h"

#include <ucontext.h>

enum { STACK = 256 << 10 };

static paceline_config *probe;

typedef struct fiber {
  ucontext_t self, back;
  void (*body)(struct fiber *);
  int code, calls;
  char *stack;
} fiber;

static void enter(unsigned low, unsigned high) {
  fiber *f = (fiber *)((uintptr_t)high << 32 | low);
  f->body(f);
  swapcontext(&f->self, &f->back);
}

static void fiber_new(fiber *f, void (*body)(fiber *), char *stack) {
  *f = (fiber){.body = body, .stack = stack};
  getcontext(&f->self);
  f->self.uc_stack.ss_sp = stack;
  f->self.uc_stack.ss_size = STACK;
  f->self.uc_link = NULL;
  makecontext(&f->self, (void (*)(void))(void (*)(unsigned, unsigned))enter, 2, (unsigned)(uintptr_t)f,
              (unsigned)((uintptr_t)f >> 32));
}

/* Runs f until its body returns or yields. */
static void fiber_run(fiber *f) { swapcontext(&f->back, &f->self); }
static void fiber_yield(fiber *f) { swapcontext(&f->self, &f->back); }

static void ask(fiber *f) {
  char *text = NULL;
  f->code = paceline_config_get(&text, probe, "gamma");
  if (f->code == PACELINE_OK) paceline_string_free(text);
  f->calls++;
}

static _Thread_local fiber inner;
static _Thread_local char *inner_stack;
static _Atomic int refused, answered, wrong;

/* A step that calls the library on its own stack, which is allowed, and on a coroutine's, which is
 * refused. */
static int stepped(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  char *text = NULL;
  if (paceline_config_get(&text, probe, "gamma") == PACELINE_OK) answered++;
  paceline_string_free(text);
  if (inner_stack == NULL) inner_stack = malloc(STACK);
  fiber_new(&inner, ask, inner_stack);
  fiber_run(&inner);
  if (inner.code == PACELINE_EFAIL && strstr(paceline_last_error(), "another stack") != NULL)
    refused++;
  else
    wrong++;
  return counter_step(env, action, obs, reward, end);
}

static void native(const char *threads, uint32_t flags) {
  family f = counters(SOUND, 0);
  paceline_env_table table = counter_table(1);
  table.step = stepped;
  table.flags = flags;
  const char *const settings[] = {QUICK, "num_threads", threads, NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t;
  refused = answered = wrong = 0;
  OK(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release));
  OK(paceline_trainer_run(NULL, t, 600, 0));
  paceline_trainer_free(t);
  paceline_config_free(cfg);
  CHECK(refused >= 600 && answered == refused && wrong == 0);
}

/* A run on a coroutine's stack, whose environment yields inside a step. Calls of the thread
 * meanwhile, on its own stack or a third one, are refused, and the run goes on. */
static fiber outer;
static int yields;
static int yielding(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  if (yields++ % 50 == 0) fiber_yield(&outer);
  return counter_step(env, action, obs, reward, end);
}

static paceline_trainer *suspended;
static void run(fiber *f) {
  f->code = paceline_trainer_run(NULL, suspended, 300, 0);
  f->calls = 1;
}

static void suspend(char *stack, char *third) {
  family f = counters(SOUND, 0);
  paceline_env_table table = counter_table(1);
  table.step = yielding;
  const char *const settings[] = {QUICK, "num_envs", "1", "num_threads", "1", NULL};
  paceline_config *cfg = config(settings);
  OK(paceline_trainer_new_table(&suspended, cfg, &table, &f, counter_release));
  fiber_new(&outer, run, stack);
  fiber_run(&outer);
  int meanwhile = 0;
  for (; !outer.calls; meanwhile++) {
    char *text = NULL;
    fiber other;
    FAILS(paceline_config_get(&text, probe, "gamma"), PACELINE_EFAIL, "another stack");
    fiber_new(&other, ask, third);
    fiber_run(&other);
    STATUS(other.code, PACELINE_EFAIL);
    fiber_run(&outer);
  }
  STATUS(outer.code, PACELINE_OK);
  CHECK(meanwhile > 3);
  OK(paceline_trainer_free(suspended));
  paceline_config_free(cfg);
}

static void *thread(void *stacks) {
  char *low = stacks, *high = low + STACK;
  fiber a, b;
  /* Outside of callbacks, in any order. */
  for (int i = 0; i < 20; i++) {
    fiber_new(&a, ask, i % 2 ? low : high);
    fiber_new(&b, ask, i % 2 ? high : low);
    fiber_run(&a);
    fiber_run(&b);
    STATUS(a.code, PACELINE_OK);
    STATUS(b.code, PACELINE_OK);
  }
  suspend(low, high);
  suspend(high, low);
  return NULL;
}

int main(void) {
  OK(paceline_config_new(&probe, "dqn"));
  for (int i = 0; i < 2; i++) {
    native(i ? "1" : "3", 0);
    native("2", PACELINE_ENV_WAITS);
  }
  char *stacks = malloc(2 * STACK);
  static char fixed[2 * STACK]; /* below every thread's stack; heap memory is above some */
  thread(stacks);
  thread(fixed);
  pthread_t other;
  pthread_create(&other, NULL, thread, stacks);
  pthread_join(other, NULL);
  free(stacks);
  paceline_config_free(probe);
  return 0;
}
