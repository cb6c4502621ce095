/* Training on built-in environments, on a plugin's, on a table and on rows of one's own; saved,
 * loaded, gone on with. argv[1]: the plugin. */
#include "try.h"

static int spec(void *user, paceline_spec *obs, paceline_spec *action) {
  *obs = *(paceline_spec *)user;
  action->kind = PACELINE_DISCRETE, action->dtype = PACELINE_INT32, action->n = 2;
  return 0;
}
static int create(void *user, uint32_t index, uint64_t seed, void **env) {
  *env = calloc(1, sizeof(int));
  return (void)user, (void)index, (void)seed, *env == NULL;
}
static int reset(void *env, void *obs) {
  *(float *)obs = (float)(*(int *)env = 0);
  return 0;
}
static int step(void *env, const void *action, void *obs, float *reward, uint8_t *ended) {
  *(float *)obs = (float)++*(int *)env / 10;
  *reward = (float)*(const int32_t *)action;
  *ended = *(int *)env == 10 ? PACELINE_TERMINATED : 0;
  return 0;
}

static void whole(const char *method, const char *env) {
  paceline_trainer *t = small(method, env), *u = small(method, env);
  paceline_stats s = {.struct_size = sizeof s};
  paceline_metric m = {.struct_size = sizeof m};
  paceline_parameter p = {.struct_size = sizeof p};
  const char *set = strcmp(method, "dqn") == 0 ? "q_net" : "policy";
  char *one, *two;
  double returns[100];
  int64_t lengths[100];
  size_t n = 100;
  TRY(paceline_trainer_begin(t, 2000, PACELINE_RESET_TIMESTEPS | PACELINE_RESET_ENVS));
  TRY(paceline_trainer_run(&s, t, 0, 0));
  NEED(s.num_timesteps == 2000 && s.total_timesteps == 2000 && s.updates > 0 && s.episodes > 0 && s.mean_length > 0);
  TRY(paceline_trainer_episodes(returns, lengths, &n, t));
  NEED(n > 0 && lengths[n - 1] > 0);
  for (size_t i = 0; paceline_trainer_metric(&m, t, i) == PACELINE_OK; i++) NEED(m.name[0] != 0 && m.doc[0] != 0);
  TRY(paceline_trainer_parameter(&p, t, set, 0));
  NEED(p.ndim == 2 && p.size == (size_t)(p.shape[0] * p.shape[1]) && p.name[0] != 0);
  TRY(paceline_trainer_save(t, tmp("run.paceline"), PACELINE_SAVE_EXPERIENCE));
  TRY(paceline_trainer_load(u, tmp("run.paceline")));
  TRY(paceline_trainer_hash(&one, t, set));
  TRY(paceline_trainer_hash(&two, u, set));
  NEED(strcmp(one, two) == 0);
  paceline_string_free(one), paceline_string_free(two);
  paceline_trainer_free(t), paceline_trainer_free(u);
}

int main(int argc, char **argv) {
  char *name;
  NEED(argc == 2 && paceline_abi_version() == PACELINE_ABI_VERSION);
  TRY(paceline_env_load(&name, argv[1]));
  whole("dqn", "CartPole-v1");
  whole("a2c", "CartPole-v1");
  whole("dqn", name);
  paceline_string_free(name);

  paceline_spec obs = {
      .struct_size = sizeof obs, .kind = PACELINE_BOX, .dtype = PACELINE_FLOAT32, .ndim = 1, .shape = {1}};
  paceline_spec action = {.struct_size = sizeof action, .kind = PACELINE_DISCRETE, .dtype = PACELINE_INT32, .n = 2};
  paceline_env_table table = {
      .struct_size = sizeof table, .spec = spec, .create = create, .reset = reset, .step = step, .destroy = free};
  paceline_config *cfg;
  paceline_trainer *t;
  TRY(paceline_config_new(&cfg, "dqn"));
  TRY(paceline_config_set(cfg, "buffer_size", "1000"));
  TRY(paceline_trainer_new_table(&t, cfg, &table, &obs, NULL));
  TRY(paceline_trainer_run(NULL, t, 300, 0));
  paceline_trainer_free(t);

  float now = 0, last = 0;
  double reward = 1;
  uint8_t no = 0;
  int32_t chosen = -1;
  paceline_rows rows = {.struct_size = sizeof rows,
                        .num_rows = 1,
                        .obs = &now,
                        .final_obs = &last,
                        .rewards = &reward,
                        .terminated = &no,
                        .truncated = &no};
  TRY(paceline_trainer_new_push(&t, cfg, &obs, &action));
  TRY(paceline_trainer_begin(t, 100, 0));
  for (int i = 0; i < 50; i++) {
    TRY(paceline_trainer_act(t, &rows, &chosen, 0));
    NEED(chosen == 0 || chosen == 1);
    TRY(paceline_trainer_observe(t, &rows, 0));
  }
  paceline_trainer_free(t);
  paceline_config_free(cfg);
  return 0;
}
