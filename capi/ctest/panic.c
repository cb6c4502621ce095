/* A panic in the library is an error that makes one handle unusable. A panic in an environment is an
 * error that makes no handle unusable. Linked with the library built with the tag pacelinetest. */
#include "rows.h"

int paceline_test_panic(paceline_trainer *t);

int main(void) {
  paceline_trainer *a = quick("CartPole-v1"), *b = quick("CartPole-v1");
  OK(paceline_trainer_run(NULL, a, 500, 0));
  FAILS(paceline_test_panic(a), PACELINE_EPANIC, "injected by a test");
  FAILS(paceline_trainer_run(NULL, a, 500, 0), PACELINE_EPANIC, "injected by a test");
  FAILS(paceline_trainer_save(a, tmp("x"), 0), PACELINE_EPANIC, "injected by a test");
  OK(paceline_trainer_run(NULL, b, 500, 0)); /* another trainer still works */
  paceline_trainer_free(a);
  FAILS(paceline_trainer_settle(a, 0), PACELINE_EHANDLE, "was freed");

  /* In a step on a thread of the library: an error of that environment. */
  a = quick("Panic-v0");
  int status = paceline_trainer_run(NULL, a, 5000, 0);
  CHECK(status == PACELINE_EPANIC);
  CHECK(strstr(paceline_last_error(), "injected by a test") != NULL);
  CHECK(strstr(paceline_last_error(), "environment") != NULL);
  int panics = 1; /* each environment panics once */
  for (; (status = paceline_trainer_run(NULL, a, 5000, 0)) == PACELINE_EPANIC; panics++) CHECK(panics < 100);
  CHECK(status == PACELINE_OK);
  OK(paceline_trainer_run(NULL, b, 500, 0));
  paceline_trainer_free(a);
  for (int asynchronous = 0; asynchronous < 2; asynchronous++) {
    paceline_vec *v = vec_of("Panic-v0", 4, 0, 2, PACELINE_SAME_STEP, NULL);
    arrays r = arrays_for(v, 4);
    OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
    for (status = 0; status == 0;) {
      if (asynchronous) {
        OK(paceline_vec_offer(v, all_of(&r)));
        OK(paceline_vec_send(v, r.rows.env_ids, 4, r.actions));
      }
      status = asynchronous ? paceline_vec_recv(v, 0) : paceline_vec_step(v, r.actions, all_of(&r));
    }
    CHECK(status == PACELINE_EPANIC);
    CHECK(strstr(paceline_last_error(), "injected by a test") != NULL);
    CHECK(strstr(paceline_last_error(), "environment ") != NULL);
    status = paceline_vec_reset(v, NULL, NULL, all_of(&r));
    CHECK(asynchronous ? status != PACELINE_EPANIC : status == PACELINE_OK);
    if (!asynchronous) OK(paceline_vec_step(v, r.actions, all_of(&r)));
    paceline_vec_free(v);
    arrays_free(&r);
  }
  OK(paceline_trainer_run(NULL, b, 500, 0));
  CHECK(stats_of(b).num_timesteps == 1500);
  paceline_trainer_free(b);
  return 0;
}
