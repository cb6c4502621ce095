/* A vector environment: in lockstep, asynchronously, its states. */
#include "try.h"

enum { N = 4 };
static float obs[N][4], final_obs[N][4];
static double rewards[N];
static uint8_t terminated[N], truncated[N], started[N];
static int32_t ids[N], actions[N];

int main(void) {
  paceline_vec *v;
  paceline_vec_options o = {.struct_size = sizeof o,
                            .num_envs = N,
                            .batch_size = 2,
                            .num_threads = 2,
                            .autoreset = PACELINE_SAME_STEP,
                            .pin = -1};
  paceline_rows rows = {.struct_size = sizeof rows,
                        .num_rows = N,
                        .obs = obs,
                        .final_obs = final_obs,
                        .rewards = rewards,
                        .terminated = terminated,
                        .truncated = truncated,
                        .started = started,
                        .env_ids = ids};
  paceline_spec spec = {.struct_size = sizeof spec}, action = {.struct_size = sizeof action};
  char *text, *names;
  uint64_t seeds[N] = {1, 2, 3, 4};
  TRY(paceline_env_names(&names));
  NEED(strstr(names, "\"CartPole-v1\"") != NULL);
  paceline_string_free(names);
  TRY(paceline_vec_new(&v, "CartPole-v1", &o));
  TRY(paceline_vec_spec(&spec, &action, v));
  NEED(spec.shape[0] == 4 && action.n == 2 && action.kind == PACELINE_DISCRETE);
  TRY(paceline_vec_describe(&text, v));
  NEED(strstr(text, "\"infos\"") != NULL);
  paceline_string_free(text);
  TRY(paceline_vec_reset(v, seeds, NULL, &rows));
  int ends = 0;
  for (int i = 0; i < 200; i++) {
    for (int k = 0; k < N; k++) actions[k] = (i + k) % 2;
    TRY(paceline_vec_step(v, actions, &rows));
    for (int k = 0; k < N; k++) ends += terminated[k] | truncated[k];
  }
  NEED(ends > 0 && rewards[0] == 1 && ids[3] == 3);

  size_t size = 0;
  TRY(paceline_vec_save(NULL, &size, v, 0));
  void *state = malloc(size);
  TRY(paceline_vec_save(state, &size, v, 0));
  TRY(paceline_vec_restore(v, 1, state, size));
  free(state);
  NEED(paceline_vec_step(v, (int32_t[N]){7}, &rows) == PACELINE_EINVAL);
  paceline_vec_free(v);

  TRY(paceline_vec_new(&v, "CartPole-v1", &o));
  rows.num_rows = 2;
  TRY(paceline_vec_offer(v, &rows));
  TRY(paceline_vec_send_reset(v, (int32_t[]){0, 1}, 2, NULL));
  TRY(paceline_vec_recv(v, 0));
  for (int i = 0; i < 20; i++) {
    TRY(paceline_vec_offer(v, &rows));
    TRY(paceline_vec_send(v, (int32_t[]){0, 1}, 2, actions));
    TRY(paceline_vec_recv(v, 10000));
  }
  TRY(paceline_vec_drain(v));
  paceline_vec_free(v);
  return 0;
}
