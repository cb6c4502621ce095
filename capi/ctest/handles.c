/* A handle used twice, after free, or as another kind. */
#include "t.h"

int main(void) {
  const char *const settings[] = {QUICK, "env", "CartPole-v1", NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t = quick("CartPole-v1");
  paceline_policy *p;
  paceline_vec *v;
  OK(paceline_policy_from_trainer(&p, t));
  OK(paceline_vec_new(&v, "CartPole-v1", 2, 1, PACELINE_SAME_STEP));

  /* Another kind: refused, named, and not freed by the wrong free. */
  FAILS(paceline_trainer_settle((paceline_trainer *)cfg), PACELINE_EHANDLE, "is a paceline_config");
  FAILS(paceline_vec_step((paceline_vec *)p), PACELINE_EHANDLE, "is a paceline_policy");
  FAILS(paceline_policy_save((paceline_policy *)v, "x"), PACELINE_EHANDLE, "is a paceline_vec");
  paceline_trainer *made;
  FAILS(paceline_trainer_new(&made, (paceline_config *)t), PACELINE_EHANDLE, "is a paceline_trainer");
  paceline_trainer_free((paceline_trainer *)cfg);
  paceline_policy_free((paceline_policy *)t);
  paceline_vec_free((paceline_vec *)p);
  paceline_config_free((paceline_config *)v);
  OK(paceline_config_set(cfg, "seed", "3"));
  OK(paceline_trainer_run(t, 10, 0, NULL));
  OK(paceline_vec_reset(v, NULL, NULL));

  /* After free; and free again. */
  paceline_trainer_free(t);
  FAILS(paceline_trainer_run(t, 10, 0, NULL), PACELINE_EHANDLE, "was freed");
  FAILS(paceline_trainer_stop(t), PACELINE_EHANDLE, "was freed");
  FAILS(paceline_policy_from_trainer(&p, t), PACELINE_EHANDLE, "was freed");
  paceline_trainer_free(t);
  paceline_policy_free(p);
  paceline_policy_free(p);
  float obs[4] = {0};
  int32_t action;
  FAILS(paceline_policy_act(p, 1, obs, NULL, NULL, &action, NULL), PACELINE_EHANDLE, "was freed");
  paceline_vec_free(v);
  paceline_vec_free(v);
  FAILS(paceline_vec_step(v), PACELINE_EHANDLE, "was freed");
  paceline_config_free(cfg);
  paceline_config_free(cfg);
  FAILS(paceline_config_set(cfg, "seed", "3"), PACELINE_EHANDLE, "was freed");

  /* No number comes twice: a stale handle never means a new object. */
  for (int i = 0; i < 1000; i++) {
    paceline_config *c;
    OK(paceline_config_new(&c));
    CHECK(c != cfg && (void *)c != (void *)t && (void *)c != (void *)v);
    FAILS(paceline_config_set(cfg, "seed", "3"), PACELINE_EHANDLE, "was freed");
    paceline_config_free(c);
  }

  /* Shared rows outlive their owner, each lease by itself. */
  OK(paceline_vec_new(&v, "CartPole-v1", 3, 2, PACELINE_SAME_STEP));
  paceline_buffers a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
  OK(paceline_vec_buffers(&a, v));
  OK(paceline_vec_buffers(&b, v));
  CHECK(a.obs == b.obs && a.id != b.id && a.num_envs == 3 && a.obs_bytes == 16 && a.action_bytes == 4);
  OK(paceline_vec_reset(v, NULL, NULL));
  float first = ((float *)a.obs)[0];
  CHECK(first != 0);
  paceline_buffers_release(b.id);
  paceline_buffers_release(b.id); /* twice: nothing more */
  paceline_vec_free(v);
  CHECK(((float *)a.obs)[0] == first);
  ((float *)a.obs)[11] = 5; /* still mapped, and ours */
  a.actions[2] = 1;
  a.ended[2] = a.rewards[2] == 0;
  paceline_buffers_release(a.id);
  return 0;
}
