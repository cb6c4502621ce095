/* A save that exceeds the limit of file sizes (ulimit -f) is an error: no signal reaches the host,
 * the older file stays, and no temporary file remains. */
#include "counter.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

static volatile sig_atomic_t signals;
static void on_signal(int s) { (void)s, signals++; }

static int files(void) {
  int n = 0;
  DIR *d = opendir(getenv("TMPDIR"));
  for (struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
  closedir(d);
  return n;
}

static void limited(paceline_trainer *t, paceline_policy *p, const char *path) {
  int before = files();
  hashes h = hashes_of(t);
  FAILS(paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE), PACELINE_EIO, "too large");
  FAILS(paceline_policy_save(p, tmp("policy")), PACELINE_EIO, "too large");
  CHECK(files() == before);
  CHECK(same(h, hashes_of(t)));
}

int main(void) {
  paceline_trainer *t = quick("CartPole-v1"), *twin = quick("CartPole-v1");
  paceline_policy *p;
  OK(paceline_trainer_run(NULL, t, 1000, 0));
  OK(paceline_policy_from_trainer(&p, t));
  const char *path = tmp("agent");
  OK(paceline_trainer_save(t, path, PACELINE_SAVE_EXPERIENCE));
  hashes saved = hashes_of(t);
  OK(paceline_trainer_run(NULL, t, 500, 0));

  struct rlimit l;
  CHECK(getrlimit(RLIMIT_FSIZE, &l) == 0);
  l.rlim_cur = 512;
  CHECK(setrlimit(RLIMIT_FSIZE, &l) == 0);
  limited(t, p, path); /* a delivered SIGXFSZ would end the process */
  signal(SIGXFSZ, on_signal);
  limited(t, p, path);
  CHECK(signals == 0);
  sigset_t only, mask;
  sigemptyset(&only);
  sigaddset(&only, SIGXFSZ);
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGXFSZ));
  CHECK(pthread_sigmask(SIG_BLOCK, &only, NULL) == 0);
  limited(t, p, path);
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGXFSZ));

  OK(paceline_trainer_load(twin, path));
  CHECK(same(saved, hashes_of(twin)));
  paceline_policy_free(p);
  paceline_trainer_free(twin);
  paceline_trainer_free(t);
  return 0;
}
