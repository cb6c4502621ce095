/* A host that flushes to zero and rounds towards zero gets the same bits and keeps its mode. Its
 * callbacks run in the default mode. */
#include "dl.h"
#include "counter.h"

#if defined(__x86_64__) || defined(__aarch64__)

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { DEFAULT = 0x1F80, ODD = DEFAULT | 0x8040 | 0x6000, FLAGS = 0x3F };
static unsigned get_mode(void) { return _mm_getcsr() & ~(unsigned)FLAGS; }
static void set_mode(unsigned mode) { _mm_setcsr(mode); }
#else
enum { DEFAULT = 0, ODD = 1 << 24 | 3 << 22 };

static unsigned get_mode(void) {
  uint64_t mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return (unsigned)mode;
}

static void set_mode(unsigned mode) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode) : "memory"); }
#endif

static _Atomic int wrong_mode;

static int stepped(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  if (get_mode() != DEFAULT) wrong_mode = 1;
  int status = counter_step(env, action, obs, reward, end);
  set_mode(ODD); /* the callback does not restore the mode */
  return status;
}

/* Training, evaluation, failures and callbacks; prints the digests. */
static void whole_run(FILE *to) {
  unsigned mode = get_mode();
#define KEPT CHECK(get_mode() == mode)
  static hashes h[3];
  const char *names[] = {"CartPole-v1", "Acrobot-v1"};
  for (int i = 0; i < 2; i++) {
    /* Enough threads that some start late. */
    const char *const settings[] = {QUICK, "env", names[i], "num_threads", "4", "num_envs", "8", NULL};
    paceline_config *cfg = config(settings);
    paceline_trainer *t;
    OK(paceline_trainer_new(&t, cfg));
    KEPT;
    OK(paceline_trainer_run(NULL, t, 3000, 0));
    KEPT;
    h[i] = hashes_of(t);
    KEPT;
    paceline_policy *p;
    paceline_evaluation e = {.struct_size = sizeof e};
    OK(paceline_policy_from_trainer(&p, t));
    OK(paceline_policy_evaluate(&e, p, names[i], NULL, EPISODES(3, 0.2, 1)));
    fprintf(to, "%a ", e.mean_return); /* hexadecimal: the mode would round a decimal */
    STATUS(paceline_config_set(cfg, "nothing", "1"), PACELINE_EINVAL);
    KEPT;
    paceline_policy_free(p);
    paceline_trainer_free(t);
    KEPT;
    paceline_config_free(cfg);
  }
  family f = counters(SOUND, 0);
  paceline_env_table table = counter_table(1);
  table.step = stepped;
  const char *const settings[] = {QUICK, NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t;
  OK(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release));
  OK(paceline_trainer_run(NULL, t, 1000, 0));
  KEPT;
  h[2] = hashes_of(t);
  paceline_trainer_free(t);
  paceline_config_free(cfg);
  CHECK(!wrong_mode);
  for (int i = 0; i < 3; i++) fprintf(to, "%s %s %s ", h[i].replay, h[i].weights, h[i].target);
}

/* whole_run in a process of its own, which sets the mode before loading, or if late only after
 * it. */
static void host(unsigned mode, int late, char *digests, size_t size) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    FILE *to = fdopen(ends[1], "w");
    if (!late) set_mode(mode);
    dl_load();
    set_mode(mode);
    whole_run(to);
    fclose(to);
    exit(0);
  }
  close(ends[1]);
  FILE *from = fdopen(ends[0], "r");
  size_t n = fread(digests, 1, size - 1, from);
  digests[n] = 0;
  fclose(from);
  int status;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || n < 9 * 65) exit(1);
}

int main(void) {
  /* The mode changes results: otherwise this test could not fail. */
  volatile float tiny = 1e-30f, third = 1, three = 3;
  set_mode(DEFAULT);
  volatile float a = tiny * 1e-10f, b = third / three;
  set_mode(ODD);
  volatile float c = tiny * 1e-10f, d = third / three;
  set_mode(DEFAULT);
  if (a == c || b == d) return puts("the modes make no difference here"), 1;

  static char normal[4096], odd[4096], late[4096];
  host(DEFAULT, 0, normal, sizeof normal);
  host(ODD, 0, odd, sizeof odd);
  host(ODD, 1, late, sizeof late);
  if (strcmp(normal, odd) != 0) return printf("loaded in an odd mode:\n%s\n%s\n", normal, odd), 1;
  if (strcmp(normal, late) != 0) return printf("called in an odd mode:\n%s\n%s\n", normal, late), 1;
  return 0;
}

#else
int main(void) { return 0; } /* the library does not change the mode of other processors */
#endif
