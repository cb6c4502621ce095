/* The library's descriptors are open when loading ends. If too few are left, calls fail with a
 * sentence and the process goes on. */
#include "dl.h"
#include "t.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

enum { MOST = 64 };

/* The open descriptors, as bits. */
static unsigned long long open_ones(void) {
  unsigned long long bits = 0;
  for (int fd = 0; fd < MOST; fd++)
    if (fcntl(fd, F_GETFD) != -1) bits |= 1ull << fd;
  return bits;
}

static void may_open(rlim_t n) {
  struct rlimit l;
  CHECK(getrlimit(RLIMIT_NOFILE, &l) == 0);
  l.rlim_cur = n;
  CHECK(setrlimit(RLIMIT_NOFILE, &l) == 0);
}

/* Loads the library with `left` descriptors left: 0 if calls work, 3 if they fail with a
 * sentence. */
static int loaded_with(int left) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    /* dlopen itself opens some of them for a moment. */
    unsigned long long before = open_ones();
    struct sigaction was, is;
    sigaction(SIGSEGV, NULL, &was);
    int first = 0;
    while (before >> first & 1) first++;
    may_open((rlim_t)(first + left));
    dl_load();
    paceline_config *cfg = NULL;
    int code = paceline_config_new(&cfg, "dqn");
    if (code == PACELINE_OK) {
      paceline_config_free(cfg);
      _exit(0);
    }
    if (code != PACELINE_EFAIL || strstr(paceline_last_error(), "file descriptors") == NULL) _exit(1);
    if (paceline_trainer_run(NULL, NULL, 1, 0) != PACELINE_EFAIL || paceline_trainer_free(NULL) != PACELINE_EFAIL)
      _exit(1);
    paceline_config_free(NULL);
    sigaction(SIGSEGV, NULL, &is); /* no handler of Go is installed */
    _exit(is.sa_handler == was.sa_handler ? 3 : 1);
  }
  int status;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status)) {
    printf("with %d descriptors left: ended by signal %d\n", left, WTERMSIG(status));
    exit(1);
  }
  return WEXITSTATUS(status);
}

int main(void) {
  int works = 0, refuses = 0;
  for (int left = 1; left < 14; left++) {
    int code = loaded_with(left);
    if (code != 0 && code != 3) return printf("with %d descriptors left: exit code %d\n", left, code), 1;
    if (code == 3 && works) return printf("refused with %d left, and not with fewer\n", left), 1;
    works += code == 0;
    refuses += code == 3;
  }
  CHECK(works >= 3 && refuses >= 3);

  /* The library opens no more descriptors after loading. */
  unsigned long long before = open_ones();
  dl_load();
  unsigned long long after = open_ones();
  CHECK((before & ~after) == 0 && after != before);
  for (int fd = 0; fd < MOST; fd++)
    if (((after & ~before) >> fd) & 1) CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
  paceline_trainer *t = quick("CartPole-v1");
  OK(paceline_trainer_run(NULL, t, 1000, 0));
  paceline_trainer_free(t);
  for (int i = 0; i < 50 && open_ones() == after; i++) usleep(1000);
  CHECK(open_ones() == after);
  return 0;
}
