/* A handle used twice, after free, or as another kind. */
#include "rows.h"

int main(void) {
  const char *const settings[] = {QUICK, "env", "CartPole-v1", NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t = quick("CartPole-v1");
  paceline_policy *p;
  paceline_vec *v = vec_of("CartPole-v1", 2, 0, 1, PACELINE_SAME_STEP, NULL);
  room r = room_for(v, 2);
  OK(paceline_policy_from_trainer(&p, t));

  /* Another kind: refused, named, and not freed by the wrong free. */
  FAILS(paceline_trainer_settle((paceline_trainer *)cfg), PACELINE_EHANDLE, "is a paceline_config");
  FAILS(paceline_vec_step((paceline_vec *)p, r.actions, all_of(&r)), PACELINE_EHANDLE, "is a paceline_policy");
  FAILS(paceline_policy_save((paceline_policy *)v, "x"), PACELINE_EHANDLE, "is a paceline_vec");
  paceline_trainer *made;
  FAILS(paceline_trainer_new(&made, (paceline_config *)t), PACELINE_EHANDLE, "is a paceline_trainer");
  paceline_trainer_free((paceline_trainer *)cfg);
  paceline_policy_free((paceline_policy *)t);
  paceline_vec_free((paceline_vec *)p);
  paceline_config_free((paceline_config *)v);
  OK(paceline_config_set(cfg, "seed", "3"));
  OK(paceline_trainer_run(t, 10, 0, NULL));
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));

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
  FAILS(paceline_vec_step(v, r.actions, all_of(&r)), PACELINE_EHANDLE, "was freed");
  FAILS(paceline_vec_recv(v, 0), PACELINE_EHANDLE, "was freed");
  room_free(&r);
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
  paceline_spec box = {
      .struct_size = sizeof box, .kind = PACELINE_BOX, .dtype = PACELINE_FLOAT32, .ndim = 1, .shape = {4}};
  paceline_spec act = {.struct_size = sizeof act, .kind = PACELINE_DISCRETE, .dtype = PACELINE_INT32, .n = 2};
  cfg = config(settings);
  OK(paceline_config_set(cfg, "num_envs", "3"));
  OK(paceline_trainer_new_push(&t, cfg, &box, &act));
  paceline_config_free(cfg);
  paceline_buffers a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
  OK(paceline_trainer_buffers(&a, t));
  OK(paceline_trainer_buffers(&b, t));
  CHECK(a.obs == b.obs && a.id != b.id && a.num_envs == 3 && a.obs_bytes == 16 && a.action_bytes == 4);
  ((float *)b.obs)[0] = 3;
  paceline_buffers_release(b.id);
  paceline_buffers_release(b.id); /* twice: nothing more */
  paceline_trainer_free(t);
  CHECK(((float *)a.obs)[0] == 3);
  ((float *)a.obs)[11] = 5; /* still mapped, and ours */
  a.actions[2] = 1;
  a.ended[2] = a.rewards[2] == 0;
  paceline_buffers_release(a.id);
  return 0;
}
