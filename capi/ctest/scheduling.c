/* The library's threads have the cores, the scheduling policy and the niceness of the main thread
 * at loading. They inherit nothing from the control thread that makes a trainer. */
#include "dl.h"
#include "counter.h"

#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

typedef struct state {
  cpu_set_t cores;
  int policy, niceness;
} state;

static state state_of(pid_t id) {
  state s;
  CPU_ZERO(&s.cores);
  CHECK(sched_getaffinity(id, sizeof s.cores, &s.cores) == 0);
  s.policy = sched_getscheduler(id);
  s.niceness = getpriority(PRIO_PROCESS, (id_t)id);
  return s;
}

static state loaded;
static int may_lower; /* the privilege to lower the niceness */

/* Every thread except those of this program has the state at loading. */
static int check_threads(const pid_t *ours, int n) {
  int seen = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (struct dirent *e; (e = readdir(tasks)) != NULL;) {
    pid_t id = (pid_t)atoi(e->d_name);
    int mine = id == 0;
    for (int i = 0; i < n; i++) mine |= id == ours[i];
    if (mine) continue;
    state s = state_of(id);
    if (!CPU_EQUAL(&s.cores, &loaded.cores) || s.policy != loaded.policy ||
        (may_lower && s.niceness != loaded.niceness)) {
      printf("thread %d: %d cores, policy %d, niceness %d; must be %d, %d, %d\n", id, CPU_COUNT(&s.cores), s.policy,
             s.niceness, CPU_COUNT(&loaded.cores), loaded.policy, loaded.niceness);
      exit(1);
    }
    seen++;
  }
  closedir(tasks);
  return seen;
}

static void *control(void *main_id) {
  pid_t me = (pid_t)syscall(SYS_gettid), ours[2] = {*(pid_t *)main_id, me};
  int core = 0;
  while (!CPU_ISSET(core, &loaded.cores)) core++;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  struct sched_param zero = {0};
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0 && sched_setscheduler(0, SCHED_BATCH, &zero) == 0);
  CHECK(setpriority(PRIO_PROCESS, (id_t)me, loaded.niceness + 3) == 0);
  const char *const settings[] = {QUICK, "env", "CartPole-v1", "num_threads", "6", NULL};
  paceline_config *cfg = config(settings);
  for (int i = 0; i < 4; i++) {
    paceline_trainer *t;
    OK(paceline_trainer_new(&t, cfg));
    OK(paceline_trainer_run(NULL, t, 500, 0));
    CHECK(check_threads(ours, 2) > 5);
    paceline_trainer_free(t);
  }
  paceline_config_free(cfg);
  state now = state_of(0);
  CHECK(CPU_EQUAL(&now.cores, &one) && now.policy == SCHED_BATCH && now.niceness == loaded.niceness + 3);
  return NULL;
}

int main(void) {
  pid_t id = getpid();
  loaded = state_of(id);
  struct rlimit r;
  may_lower = geteuid() == 0 || (getrlimit(RLIMIT_NICE, &r) == 0 && r.rlim_cur >= (rlim_t)(20 - loaded.niceness));
  dl_load();
  pthread_t thread;
  pthread_create(&thread, NULL, control, &id);
  pthread_join(thread, NULL);
  return 0;
}
