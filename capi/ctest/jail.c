/* Without /proc and /sys (a chroot): calls that need more memory than the machine or the limit of
 * the address space allows are refused all the same, and everything else works. */
#include "counter.h"

#include <sys/resource.h>
#include <sys/stat.h>

static int asks(const char *env, const char *key, const char *value, const char *says) {
  const char *const settings[] = {"env", env, "buffer_size", "1000", key, value, NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t = NULL;
  FAILS(paceline_trainer_new(&t, cfg), PACELINE_ENOMEM, says);
  paceline_config_free(cfg);
  return t == NULL;
}

int main(void) {
  const char *dir = getenv("TMPDIR");
  if (geteuid() != 0 || chroot(dir) != 0 || chdir("/") != 0)
    return puts("left out: the test without /proc needs root"), 0;
  CHECK(access("/proc/self", F_OK) != 0);
  setenv("TMPDIR", "/", 1);

  paceline_trainer *t = quick("CartPole-v1"), *twin = quick("CartPole-v1");
  OK(paceline_trainer_run(NULL, t, 1000, 0));
  OK(paceline_trainer_save(t, "/agent.paceline", PACELINE_SAVE_EXPERIENCE));
  OK(paceline_trainer_load(twin, "/agent.paceline"));
  CHECK(same(hashes_of(t), hashes_of(twin)));
  paceline_trainer_free(twin);
  paceline_trainer_free(t);

  CHECK(asks("Catch-v0", "buffer_size", "4000000000", "memory of the machine"));
  struct rlimit l;
  CHECK(getrlimit(RLIMIT_AS, &l) == 0);
  l.rlim_cur = (rlim_t)3 << 30;
  CHECK(setrlimit(RLIMIT_AS, &l) == 0);
  CHECK(asks("CartPole-v1", "net_arch", "16000,16000", "address space"));
  t = quick("CartPole-v1");
  OK(paceline_trainer_run(NULL, t, 1000, 0));
  paceline_trainer_free(t);
  return 0;
}
