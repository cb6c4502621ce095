/* A bug in the library is an error that spoils one handle. Linked with the
 * library that is built with the tag pacelinetest. */
#include "t.h"

int paceline_test_panic(paceline_trainer *t);

int main(void) {
  paceline_trainer *a = quick("CartPole-v1"), *b = quick("CartPole-v1");
  OK(paceline_trainer_run(a, 500, 0, NULL));
  FAILS(paceline_test_panic(a), PACELINE_EPANIC, "injected by a test");
  FAILS(paceline_trainer_run(a, 500, 0, NULL), PACELINE_EPANIC, "injected by a test");
  FAILS(paceline_trainer_save(a, tmp("x"), 0), PACELINE_EPANIC, "injected by a test");
  OK(paceline_trainer_run(b, 500, 0, NULL)); /* another one is unharmed */
  paceline_trainer_free(a);
  FAILS(paceline_trainer_settle(a), PACELINE_EHANDLE, "was freed");

  /* On a thread of the samplers: an error of that environment. */
  a = quick("Panic-v0");
  int status = paceline_trainer_run(a, 5000, 0, NULL);
  CHECK(status == PACELINE_EPANIC);
  CHECK(strstr(paceline_last_error(), "injected by a test") != NULL);
  CHECK(strstr(paceline_last_error(), "environment") != NULL);
  OK(paceline_trainer_run(b, 500, 0, NULL));
  paceline_trainer_free(a);
  paceline_vec *v;
  OK(paceline_vec_new(&v, "Panic-v0", 4, 2, PACELINE_SAME_STEP));
  OK(paceline_vec_reset(v, NULL, NULL));
  for (status = 0; status == 0;) status = paceline_vec_step(v);
  CHECK(status == PACELINE_EPANIC);
  CHECK(strstr(paceline_last_error(), "injected by a test") != NULL);
  paceline_vec_free(v);
  OK(paceline_trainer_run(b, 500, 0, NULL));
  CHECK(stats_of(b).num_timesteps == 1500);
  paceline_trainer_free(b);
  return 0;
}
