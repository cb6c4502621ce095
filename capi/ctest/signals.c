/* Loading replaces the handlers of five signals; the host's other signals work as before. A crash in
 * a function of an environment ends the process by the signals that the header names. */
#include "dl.h"
#include "counter.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

static unsigned long long mask(const char *name) {
  char line[256];
  unsigned long long bits = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, f) != NULL)
    if (strncmp(line, name, strlen(name)) == 0) bits = strtoull(line + strlen(name) + 1, NULL, 16);
  fclose(f);
  return bits;
}

#define BIT(signal) (1ull << ((signal) - 1))

static volatile sig_atomic_t ticks, interrupts, alarms;
static void on_prof(int s) { (void)s, ticks++; }
static void on_int(int s) { (void)s, interrupts++; }
/* Uses 16 KB of stack, as the header allows, also inside the library. */
static void on_alarm(int s) {
  volatile char deep[16000];
  for (size_t i = 0; i < sizeof deep; i += 64) deep[i] = (char)s;
  alarms += deep[640] == (char)s;
}

static void handle(int signal, void (*handler)(int)) {
  struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
  CHECK(sigaction(signal, &a, NULL) == 0);
}

static void *interrupt(void *main_thread) {
  struct timespec pause = {0, 100000000};
  nanosleep(&pause, NULL);
  pthread_kill(*(pthread_t *)main_thread, SIGINT);
  return NULL;
}

static int same_mask(const sigset_t *a, const sigset_t *b) {
  for (int s = 1; s <= SIGRTMAX; s++)
    if (sigismember(a, s) != sigismember(b, s)) return 0;
  return 1;
}

/* A thread's first call into the library, with a mask of its own. */
static void *first_call(void *set) {
  sigset_t before, after;
  CHECK(pthread_sigmask(SIG_BLOCK, set, NULL) == 0 && pthread_sigmask(SIG_BLOCK, NULL, &before) == 0);
  paceline_config *cfg;
  STATUS(paceline_config_set(NULL, "seed", "1"), PACELINE_EINVAL); /* refused before Go is called */
  OK(paceline_config_new(&cfg, "dqn"));
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &after) == 0 && same_mask(&before, &after));
  FAILS(paceline_config_set(cfg, "seed", "x"), PACELINE_EINVAL, "seed");
  paceline_config_free(cfg);
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &after) == 0 && same_mask(&before, &after));
  return NULL;
}

/* The host's masks stay as they are. Signals that the host blocks and reads itself are not
 * delivered to a thread of the library. */
static void blocking(void) {
  sigset_t none, all, ours, was;
  pthread_t other;
  sigemptyset(&none);
  sigfillset(&all);
  pthread_create(&other, NULL, first_call, &none);
  pthread_join(other, NULL);
  pthread_create(&other, NULL, first_call, &all);
  pthread_join(other, NULL);

  sigemptyset(&ours);
  sigaddset(&ours, SIGTERM);
  sigaddset(&ours, SIGUSR1);
  CHECK(pthread_sigmask(SIG_BLOCK, &ours, &was) == 0);
  paceline_trainer *t = quick("CartPole-v1");
  OK(paceline_trainer_run(NULL, t, 500, 0));
  for (int i = 0; i < 20; i++) {
    CHECK(kill(getpid(), i % 2 ? SIGTERM : SIGUSR1) == 0); /* no other thread accepts the signal */
    OK(paceline_trainer_run(NULL, t, 50, 0));
    struct timespec soon = {2, 0};
    CHECK(sigtimedwait(&ours, NULL, &soon) == (i % 2 ? SIGTERM : SIGUSR1));
  }
  paceline_trainer_free(t);
  CHECK(pthread_sigmask(SIG_SETMASK, &was, NULL) == 0);
}

static void on_any(int s) { (void)s; }

/* With a handler for every signal, none on an alternate stack, loading replaces the handlers of the
 * header's five signals and changes nothing of the others. In a process of its own. */
static void actions(void) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    struct sigaction before[NSIG] = {{.sa_flags = 0}}, after;
    for (int s = 1; s < NSIG; s++) {
      struct sigaction a = {.sa_handler = on_any, .sa_flags = s % 2 ? SA_RESTART : 0};
      sigaddset(&a.sa_mask, SIGUSR2);
      if (sigaction(s, &a, NULL) == 0) CHECK(sigaction(s, NULL, &before[s]) == 0);
    }
    dl_load();
    int replaced = 0;
    for (int s = 1; s < NSIG; s++) {
      if (before[s].sa_handler != on_any) continue; /* SIGKILL, SIGSTOP and signals of the C library */
      CHECK(sigaction(s, NULL, &after) == 0);
      if (s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGPIPE || s == SIGURG) {
        replaced += after.sa_handler != on_any;
        continue;
      }
      if (after.sa_handler != on_any || after.sa_flags != before[s].sa_flags ||
          !same_mask(&after.sa_mask, &before[s].sa_mask)) {
        printf("signal %d: flags %#x before loading, %#x after\n", s, (unsigned)before[s].sa_flags,
               (unsigned)after.sa_flags);
        _exit(1);
      }
    }
    _exit(replaced == 5 ? 0 : 2);
  }
  int status;
  waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int crash(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  (void)env, (void)action, (void)obs, (void)reward, (void)end;
  int *volatile nowhere = NULL;
  return *nowhere;
}

static void *idle(void *unused) {
  for (;;) pause();
  return unused;
}

/* Starts a process that crashes in a function of its environment, without or with another thread. */
static pid_t crashes(int with_another) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid != 0) return pid;
  signal(SIGQUIT, SIG_DFL); /* a shell ignores it for background jobs */
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  CHECK(freopen("/dev/null", "w", stderr) != NULL); /* Go's report */
  pthread_t other;
  if (with_another) pthread_create(&other, NULL, idle, NULL);
  dl_load();
  const char *const settings[] = {"num_envs", "1", "num_threads", "1", NULL};
  family f = counters(SOUND, 0);
  paceline_env_table table = counter_table(0);
  table.step = crash;
  paceline_trainer *t;
  OK(paceline_trainer_new_table(&t, config(settings), &table, &f, counter_release));
  (void)paceline_trainer_run(NULL, t, 100, 0);
  _exit(0);
}

static void dies_by(pid_t pid, int signal) {
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == signal);
}

int main(void) {
  const pid_t lone = crashes(0); /* takes 10 s */
  dies_by(crashes(1), SIGQUIT);
  actions();
  /* Handlers of the host, set before loading. */
  handle(SIGALRM, on_alarm);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, SIG_DFL); /* a shell ignores it for background jobs (`make test &`) */
  unsigned long long caught = mask("SigCgt:"), ignored = mask("SigIgn:"), blocked = mask("SigBlk:");
  dl_load();
  /* The C library and Go use 32 and 33 for calls on every thread. */
  unsigned long long more = (mask("SigCgt:") & ~caught) & ~(BIT(32) | BIT(33));
  unsigned long long allowed = BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGPIPE) | BIT(SIGURG);
  if (more != allowed) {
    printf("loading took signals %llx, must be %llx (SEGV, BUS, FPE, PIPE, URG)\n", more, allowed);
    return 1;
  }
  CHECK((caught & ~mask("SigCgt:")) == 0 && (mask("SigIgn:") & ~ignored) == 0 && mask("SigBlk:") == blocked);
  CHECK(mask("SigBlk:") == blocked);
  blocking();
  struct sigaction now_int;
  CHECK(sigaction(SIGINT, NULL, &now_int) == 0 && now_int.sa_handler == SIG_DFL);
  CHECK(sigaction(SIGALRM, NULL, &now_int) == 0 && now_int.sa_handler == on_alarm);

  /* An ignored SIGPIPE stays ignored. */
  int ends[2];
  CHECK(pipe(ends) == 0);
  close(ends[0]);
  CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE);

  /* Timers of a profiler and of an alarm during training, and Ctrl-C. */
  handle(SIGPROF, on_prof); /* set after loading */
  handle(SIGINT, on_int);
  struct itimerval often = {{0, 1000}, {0, 1000}};
  CHECK(setitimer(ITIMER_PROF, &often, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
  paceline_trainer *t = quick("CartPole-v1");
  OK(paceline_trainer_begin(t, 1000000000, 0));
  pthread_t me = pthread_self(), other;
  pthread_create(&other, NULL, interrupt, &me);
  for (double began = now(); now() - began < 200;) { /* a busy machine gives this thread little time */
    OK(paceline_trainer_run(NULL, t, 0, 400));
    if (alarms > 500 && ticks > 10) break;
  }
  pthread_join(other, NULL);
  CHECK(interrupts == 1 && alarms > 100 && ticks > 10);
  paceline_stats s = stats_of(t);
  CHECK(s.num_timesteps > 200 && isfinite(metric_of(t, "train/loss")));
  struct itimerval off = {{0, 0}, {0, 0}};
  setitimer(ITIMER_PROF, &off, NULL);
  setitimer(ITIMER_REAL, &off, NULL);
  paceline_trainer_free(t);

  /* An untouched SIGINT still ends the program. */
  signal(SIGINT, SIG_DFL);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    raise(SIGINT);
    _exit(0);
  }
  dies_by(pid, SIGINT);
  dies_by(lone, SIGABRT);
  return 0;
}
