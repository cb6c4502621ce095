/* A host that uses all keys for thread-local data: loading does not change them, and failed calls
 * still return their code. */
#include <limits.h>
#include <pthread.h>

#include "dl.h"
#include "t.h"

int main(void) {
  static pthread_key_t keys[PTHREAD_KEYS_MAX];
  int n = 0;
  while (n < PTHREAD_KEYS_MAX && pthread_key_create(&keys[n], NULL) == 0) n++;
  CHECK(n > 100);
  for (int i = 0; i < n; i++) CHECK(pthread_setspecific(keys[i], &keys[i]) == 0);
  dl_load();
  paceline_config *cfg;
  OK(paceline_config_new(&cfg, "dqn"));
  for (int i = 0; i < 3; i++) STATUS(paceline_config_set(cfg, "seed", "x"), PACELINE_EINVAL);
  CHECK(paceline_last_error()[0] != 0);
  paceline_trainer *t = quick("CartPole-v1");
  OK(paceline_trainer_run(NULL, t, 500, 0));
  OK(paceline_trainer_free(t));
  paceline_config_free(cfg);
  for (int i = 0; i < n; i++) CHECK(pthread_getspecific(keys[i]) == &keys[i]);
  return 0;
}
