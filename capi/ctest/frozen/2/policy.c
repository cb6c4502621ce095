/* A policy: from a trainer, from a file, from bytes; acting, described, evaluated. */
#include "try.h"

int main(void) {
  paceline_trainer *t = small("dqn", "CartPole-v1");
  paceline_policy *p, *q;
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
  paceline_act_options how = {.struct_size = sizeof how, .epsilon = 0.5, .seed = 3, .counter = 4};
  paceline_eval_options play = {.struct_size = sizeof play, .episodes = 3, .seed = 1};
  paceline_evaluation e = {.struct_size = sizeof e};
  float rows[2][4] = {{0.1f, 0.2f, 0.3f, 0.4f}, {-0.1f, 0, 0, 0.1f}}, one[2][2], two[2][2];
  int32_t actions[2], again[2];
  char *text;
  size_t size;
  TRY(paceline_trainer_run(NULL, t, 500, 0));
  TRY(paceline_policy_from_trainer(&p, t));
  paceline_trainer_free(t);
  TRY(paceline_policy_spec(&obs, &action, p));
  NEED(obs.kind == PACELINE_BOX && obs.dtype == PACELINE_FLOAT32 && obs.ndim == 1 && obs.shape[0] == 4 &&
       action.n == 2);
  TRY(paceline_policy_describe(&text, p));
  NEED(strstr(text, "\"outputs\"") != NULL && strstr(text, "\"state_bytes\"") != NULL);
  paceline_string_free(text);
  TRY(paceline_policy_act(p, 2, rows, &how, actions, NULL));
  TRY(paceline_policy_act(p, 2, rows, &how, again, NULL));
  NEED(memcmp(actions, again, sizeof actions) == 0);
  TRY(paceline_policy_act(p, 2, rows, NULL, actions, (float *[]){one[0]}));
  TRY(paceline_policy_evaluate(&e, p, "CartPole-v1", NULL, &play));
  NEED(e.episodes == 3 && e.mean_return >= 1 && e.min_return <= e.max_return && e.mean_length >= 1);

  TRY(paceline_policy_to_bytes(NULL, &size, p));
  void *bytes = malloc(size);
  TRY(paceline_policy_to_bytes(bytes, &size, p));
  TRY(paceline_policy_from_bytes(&q, bytes, size));
  free(bytes);
  TRY(paceline_policy_save(q, tmp("policy")));
  paceline_policy_free(q);
  TRY(paceline_policy_load(&q, tmp("policy")));
  TRY(paceline_policy_act(q, 2, rows, NULL, again, (float *[]){two[0]}));
  NEED(memcmp(one, two, sizeof one) == 0 && memcmp(actions, again, sizeof actions) == 0);
  paceline_policy_free(p), paceline_policy_free(q);

  /* Codes that callers compare with. */
  NEED(paceline_policy_load(&q, tmp("no such file")) == PACELINE_EIO);
  NEED(paceline_policy_act(p, 2, rows, NULL, actions, NULL) == PACELINE_EHANDLE);
  NEED(paceline_policy_spec(NULL, &action, p) == PACELINE_EINVAL);
  obs.struct_size += 8;
  NEED(paceline_policy_spec(&obs, &action, q) == PACELINE_EVERSION || paceline_last_error()[0] != 0);
  return 0;
}
