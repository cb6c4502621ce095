/* A handle that is freed twice, used after free, or of another kind. */
#include "rows.h"

int main(void) {
  const char *const settings[] = {QUICK, "env", "CartPole-v1", NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t = quick("CartPole-v1");
  paceline_policy *p;
  paceline_vec *v = vec_of("CartPole-v1", 2, 0, 1, PACELINE_SAME_STEP, NULL);
  arrays r = arrays_for(v, 2);
  OK(paceline_policy_from_trainer(&p, t));

  /* Another kind: the call is refused, the text names the kind, and the wrong free frees
   * nothing. */
  FAILS(paceline_trainer_settle((paceline_trainer *)cfg, 0), PACELINE_EHANDLE, "is a paceline_config");
  FAILS(paceline_vec_step((paceline_vec *)p, r.actions, all_of(&r)), PACELINE_EHANDLE, "is a paceline_policy");
  FAILS(paceline_policy_save((paceline_policy *)v, "x"), PACELINE_EHANDLE, "is a paceline_vec");
  FAILS(paceline_store_pull(&(float){0}, 1, NULL, (paceline_store *)cfg), PACELINE_EHANDLE, "is a paceline_config");
  paceline_store_free((paceline_store *)cfg);
  paceline_trainer *made;
  paceline_option option = {.struct_size = sizeof option};
  FAILS(paceline_trainer_new(&made, (paceline_config *)t), PACELINE_EHANDLE, "is a paceline_trainer");
  FAILS(paceline_trainer_free((paceline_trainer *)cfg), PACELINE_EHANDLE, "is a paceline_config");
  paceline_policy_free((paceline_policy *)t);
  FAILS(paceline_vec_free((paceline_vec *)p), PACELINE_EHANDLE, "is a paceline_policy");
  paceline_config_free((paceline_config *)v);
  FAILS(paceline_config_method((const char **)&made, (paceline_config *)v), PACELINE_EHANDLE, "is a paceline_vec");
  FAILS(paceline_config_describe(&option, (paceline_config *)p, 0), PACELINE_EHANDLE, "is a paceline_policy");
  OK(paceline_config_set(cfg, "seed", "3"));
  OK(paceline_trainer_run(NULL, t, 10, 0));
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));

  /* Use after free, and a second free. */
  paceline_trainer_free(t);
  FAILS(paceline_trainer_run(NULL, t, 10, 0), PACELINE_EHANDLE, "was freed");
  FAILS(paceline_trainer_stop(t), PACELINE_EHANDLE, "was freed");
  FAILS(paceline_policy_from_trainer(&p, t), PACELINE_EHANDLE, "was freed");
  paceline_trainer_free(t);
  paceline_policy_free(p);
  paceline_policy_free(p);
  float obs[4] = {0};
  int32_t action;
  FAILS(paceline_policy_act(p, 1, obs, NULL, &action, NULL), PACELINE_EHANDLE, "was freed");
  paceline_vec_free(v);
  paceline_vec_free(v);
  FAILS(paceline_vec_step(v, r.actions, all_of(&r)), PACELINE_EHANDLE, "was freed");
  FAILS(paceline_vec_recv(v, 0), PACELINE_EHANDLE, "was freed");
  arrays_free(&r);
  paceline_config_free(cfg);
  paceline_config_free(cfg);
  FAILS(paceline_config_set(cfg, "seed", "3"), PACELINE_EHANDLE, "was freed");

  /* No id is used twice: a freed handle never stands for a new object. */
  for (int i = 0; i < 1000; i++) {
    paceline_config *c;
    OK(paceline_config_new(&c, "dqn"));
    CHECK(c != cfg && (void *)c != (void *)t && (void *)c != (void *)v);
    FAILS(paceline_config_set(cfg, "seed", "3"), PACELINE_EHANDLE, "was freed");
    paceline_config_free(c);
  }
  return 0;
}
