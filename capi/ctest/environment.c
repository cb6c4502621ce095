/* The library reads the process's environment variables and its cores when it is loaded. Later
 * changes have no effect. */
#include <sched.h>

#include "dl.h"
#include "t.h"

static void *library;

static int threads(void) {
  const char *(*info)(void) = (const char *(*)(void))dlsym(library, "paceline_build_info");
  const char *at = strstr(info(), "\"threads\":");
  CHECK(at != NULL);
  return atoi(at + strlen("\"threads\":"));
}

static void trains(int status, const char *says) {
  paceline_config *cfg;
  paceline_trainer *t;
  OK(paceline_config_new(&cfg, "dqn"));
  OK(paceline_config_set(cfg, "env", "CartPole-v1"));
  OK(paceline_config_set(cfg, "buffer_size", "1000"));
  int made = paceline_trainer_new(&t, cfg);
  STATUS(made, status);
  if (made == PACELINE_OK) {
    OK(paceline_trainer_run(NULL, t, 100, 0));
    OK(paceline_trainer_free(t));
  } else {
    CHECK(strstr(paceline_last_error(), says) != NULL);
  }
  paceline_config_free(cfg);
}

/* Started with PACELINE_ISA=bogus. */
static void bogus(void) {
  library = dl_load();
  trains(PACELINE_EINVAL, "bogus");
  setenv("PACELINE_ISA", "generic", 1); /* too late */
  trains(PACELINE_EINVAL, "bogus");
}

static void later(void) {
  setenv("PACELINE_ISA", "bogus", 1);
  library = dl_load();
  setenv("PACELINE_ISA", "bogus", 1);
  trains(PACELINE_OK, "");
}

/* One core, and no variables of the library: a container. */
static void one_core(void) {
  cpu_set_t set;
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &set)) first++;
  CPU_ZERO(&set);
  CPU_SET(first, &set);
  CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
  library = dl_load();
  CHECK(threads() == 1);
  trains(PACELINE_OK, "");
}

/* Started with GOMAXPROCS=3. */
static void of_go(void) {
  library = dl_load();
  CHECK(threads() == 3);
}

static const struct {
  void (*run)(void);
  char *variable; /* the process starts with it */
} cases[] = {{bogus, "PACELINE_ISA=bogus"}, {later, "A=1"}, {one_core, "A=1"}, {of_go, "GOMAXPROCS=3"}};

int main(int argc, char **argv) {
  int failed = 0;
  if (argc > 1) return cases[atoi(argv[1])].run(), 0;
  for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
    char which[] = {(char)('0' + i), 0}, path[4200];
    snprintf(path, sizeof path, "PACELINE_LIBRARY=%s", getenv("PACELINE_LIBRARY"));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      execve("/proc/self/exe", (char *[]){argv[0], which, NULL}, (char *[]){path, cases[i].variable, NULL});
      _exit(127);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0) printf("case %d: status %x\n", i, (unsigned)status), failed = 1;
  }
  return failed;
}
