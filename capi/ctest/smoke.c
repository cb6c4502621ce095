/* The way through the whole interface, once. */
#include "t.h"

static void config_functions(void) {
  paceline_config *cfg;
  char *value;
  OK(paceline_config_new(&cfg));
  OK(paceline_config_set(cfg, "batch_size", "64"));
  OK(paceline_config_get(&value, cfg, "batch_size"));
  CHECK(strcmp(value, "64") == 0);
  paceline_string_free(value);
  FAILS(paceline_config_set(cfg, "batch_size", "0"), PACELINE_EINVAL, "batch_size: 0");
  FAILS(paceline_config_set(cfg, "batchsize", "1"), PACELINE_EINVAL, "did you mean batch_size");
  FAILS(paceline_config_get(&value, cfg, "batchsize"), PACELINE_EINVAL, "batchsize");
  FAILS(paceline_config_preset(cfg, "tuned", "Nope-v0"), PACELINE_EINVAL, "Nope-v0");
  FAILS(paceline_config_preset(cfg, "best", "CartPole-v1"), PACELINE_EINVAL, "best");
  OK(paceline_config_get(&value, cfg, "batch_size")); /* what failed changed nothing */
  CHECK(strcmp(value, "64") == 0);
  paceline_string_free(value);

  /* Every setting is described, and its default is what a new table has. */
  paceline_option o = {.struct_size = sizeof o};
  paceline_config *fresh;
  OK(paceline_config_new(&fresh));
  size_t n = 0;
  while (paceline_config_describe(&o, n) == PACELINE_OK) {
    OK(paceline_config_get(&value, fresh, o.name));
    CHECK(strcmp(value, o.default_value) == 0 && *o.type != 0 && strlen(o.doc) > 5);
    OK(paceline_config_set(fresh, o.name, value));
    paceline_string_free(value);
    n++;
  }
  CHECK(n > 20);
  FAILS(paceline_config_describe(&o, n), PACELINE_EINVAL, "must be 0 to");
  FAILS(paceline_config_describe(&o, (size_t)-1), PACELINE_EINVAL, "must be 0 to");
  paceline_config_free(fresh);

  /* Texts: not UTF-8, too long, too big a number. */
  FAILS(paceline_config_set(cfg, "env", "\xff\xfe"), PACELINE_EINVAL, "UTF-8");
  FAILS(paceline_config_set(cfg, "\xc3", "1"), PACELINE_EINVAL, "UTF-8");
  char *endless = malloc(100001);
  memset(endless, 'a', 100000);
  endless[100000] = 0;
  FAILS(paceline_config_set(cfg, "env", endless), PACELINE_EINVAL, "longer than");
  FAILS(paceline_config_set(cfg, endless, "1"), PACELINE_EINVAL, "longer than");
  FAILS(paceline_config_load(cfg, endless), PACELINE_EINVAL, "path: longer than");
  FAILS(paceline_config_set(cfg, "seed", "99999999999999999999999"), PACELINE_EINVAL, "seed");
  free(endless);
  paceline_config_free(cfg);
}

static void trainer_functions(void) {
  paceline_trainer *t = quick("CartPole-v1");
  paceline_stats s = {.struct_size = sizeof s};
  OK(paceline_trainer_run(t, 1000, 0, &s));
  CHECK(s.num_timesteps == 1000 && s.total_timesteps == 1000 && s.updates == s.updates_due && s.updates == 200);
  CHECK(s.episodes > 10 && s.mean_return > 5 && isfinite(s.loss) && s.replay_size > 0 && s.replay_bytes > 0);
  OK(paceline_trainer_run(t, 0, 0, NULL)); /* the course is over */
  CHECK(stats_of(t).num_timesteps == 1000);
  OK(paceline_trainer_begin(t, 500, 0));
  OK(paceline_trainer_run(t, 0, 0, &s));
  CHECK(s.num_timesteps == 1500 && s.total_timesteps == 1500);

  FAILS(paceline_trainer_begin(t, 0, 0), PACELINE_EINVAL, "total_timesteps: 0");
  FAILS(paceline_trainer_begin(t, 10, 64), PACELINE_EINVAL, "flags: 64");
  FAILS(paceline_trainer_run(t, -1, 0, NULL), PACELINE_EINVAL, "max_steps: -1");
  FAILS(paceline_trainer_run(t, 1, -1, NULL), PACELINE_EINVAL, "max_ms: -1");
  FAILS(paceline_trainer_act(t), PACELINE_EINVAL, "act");
  FAILS(paceline_trainer_observe(t, NULL), PACELINE_EINVAL, "observe");
  paceline_buffers b = {.struct_size = sizeof b};
  FAILS(paceline_trainer_buffers(&b, t), PACELINE_EINVAL, "buffers");

  /* max_ms and stop. */
  OK(paceline_trainer_begin(t, 1000000000, 0));
  double began = now();
  OK(paceline_trainer_run(t, 0, 50, NULL));
  CHECK(now() - began < 5);
  OK(paceline_trainer_stop(t)); /* none in progress: the next returns at once */
  int64_t steps = stats_of(t).num_timesteps;
  OK(paceline_trainer_run(t, 0, 0, &s));
  CHECK(s.num_timesteps == steps);

  /* Parameters: flat, in order, changed by set. */
  paceline_parameter p = {.struct_size = sizeof p};
  size_t total = 0, i = 0;
  for (; paceline_trainer_parameter(&p, t, i) == PACELINE_OK; i++) {
    size_t size = 1;
    for (uint32_t k = 0; k < p.ndim; k++) size *= (size_t)p.shape[k];
    CHECK(p.offset == total && p.size == size);
    total += size;
    if (i == 0) CHECK(strcmp(p.name, "q_net.q_net.0.weight") == 0 && p.shape[0] == 16 && p.shape[1] == 4);
  }
  CHECK(i == 8 && total == 2 * (16 * 4 + 16 + 2 * 16 + 2));
  float *theta = malloc(total * sizeof *theta), *again = malloc(total * sizeof *again);
  OK(paceline_trainer_get_parameters(t, theta, total));
  theta[0] += 1;
  OK(paceline_trainer_set_parameters(t, theta, total));
  OK(paceline_trainer_get_parameters(t, again, total));
  CHECK(memcmp(theta, again, total * sizeof *theta) == 0);
  FAILS(paceline_trainer_get_parameters(t, again, total - 1), PACELINE_EINVAL, "n: ");
  FAILS(paceline_trainer_set_parameters(t, theta, (size_t)-1), PACELINE_EINVAL, "n: ");
  theta[3] = NAN;
  FAILS(paceline_trainer_set_parameters(t, theta, total), PACELINE_ENAN, "parameters");
  free(theta);
  free(again);

  paceline_hashes h = hashes_of(t);
  CHECK(strlen(h.replay) == 64 && strlen(h.weights) == 64 && strlen(h.target) == 64);

  char *notice;
  OK(paceline_trainer_notice(&notice, t));
  CHECK(notice == NULL);
  OK(paceline_trainer_settle(t));

  /* The policy, from the trainer and from files. */
  const char *path = tmp("smoke.paceline"), *own = tmp("policy.paceline");
  OK(paceline_trainer_save(t, path, 0));
  FAILS(paceline_trainer_save(t, path, 8), PACELINE_EINVAL, "flags: 8");
  FAILS(paceline_trainer_save(t, "", 0), PACELINE_EINVAL, "path");
  paceline_policy *ps[3];
  OK(paceline_policy_from_trainer(&ps[0], t));
  OK(paceline_policy_load(&ps[1], path));
  OK(paceline_policy_save(ps[1], own));
  OK(paceline_policy_load(&ps[2], own));
  paceline_trainer_free(t);
  float obs[40 * 4], q[3][40 * 2];
  int32_t a[3][40];
  for (int k = 0; k < 160; k++) obs[k] = (float)(k % 13) / 13 - 0.5f;
  for (int k = 0; k < 3; k++) OK(paceline_policy_act(ps[k], 40, obs, NULL, NULL, a[k], q[k]));
  CHECK(memcmp(q[0], q[1], sizeof q[0]) == 0 && memcmp(q[0], q[2], sizeof q[0]) == 0);
  CHECK(memcmp(a[0], a[1], sizeof a[0]) == 0);
  for (int k = 0; k < 40; k++) CHECK(a[0][k] == (q[0][2 * k + 1] > q[0][2 * k]));
  CHECK(paceline_policy_state_bytes(ps[0]) == 0);
  OK(paceline_policy_act(ps[0], 0, NULL, NULL, NULL, NULL, NULL));
  FAILS(paceline_policy_act(ps[0], (size_t)-1, obs, NULL, NULL, a[0], NULL), PACELINE_EINVAL, "n: ");
  paceline_spec so = {.struct_size = sizeof so}, sa = {.struct_size = sizeof sa};
  OK(paceline_policy_spec(&so, &sa, ps[2]));
  CHECK(so.kind == PACELINE_BOX && so.dtype == PACELINE_FLOAT32 && so.ndim == 1 && so.shape[0] == 4);
  CHECK(sa.kind == PACELINE_DISCRETE && sa.dtype == PACELINE_INT32 && sa.n == 2);
  paceline_evaluation e = {.struct_size = sizeof e}, f = {.struct_size = sizeof f};
  OK(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", NULL, 5, 0.1, 3));
  OK(paceline_policy_evaluate(&f, ps[2], "CartPole-v1", NULL, 5, 0.1, 3));
  CHECK(e.episodes == 5 && e.min_return <= e.mean_return && e.mean_return <= e.max_return);
  CHECK(memcmp(&e, &f, sizeof e) == 0);
  FAILS(paceline_policy_evaluate(&e, ps[0], "Catch-v0", NULL, 5, 0, 3), PACELINE_EINVAL, "Catch-v0");
  FAILS(paceline_policy_evaluate(&e, ps[0], "CartPol-v1", NULL, 5, 0, 3), PACELINE_EINVAL, "CartPole-v1");
  FAILS(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", "{\"gravity\": 9}", 5, 0, 3), PACELINE_EINVAL,
        "option \"gravity\"");
  FAILS(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", NULL, 0, 0, 3), PACELINE_EINVAL, "episodes: 0");
  FAILS(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", NULL, 1, NAN, 3), PACELINE_EINVAL, "epsilon");
  for (int k = 0; k < 3; k++) paceline_policy_free(ps[k]);
}

/* Settings that do not go together, and memory that is not there. */
static void refused_settings(void) {
  static const struct {
    const char *settings[9];
    int status;
    const char *says;
  } cases[] = {
      {{NULL}, PACELINE_EINVAL, "env"},
      {{"env", "Cartpole", NULL}, PACELINE_EINVAL, "CartPole-v1"},
      {{"env", "CartPole-v1", "batch_size", "200", NULL}, PACELINE_EINVAL, "learning_starts"},
      {{"env", "CartPole-v1", "batch_size", "64", "buffer_size", "50", NULL}, PACELINE_EINVAL, "buffer_size"},
      {{"env", "CartPole-v1", "actor", "online", NULL}, PACELINE_EINVAL, "actor"},
      {{"env", "CartPole-v1", "num_envs", "8", "window", "4", NULL}, PACELINE_EINVAL, "window"},
      {{"env", "Catch-v0", "buffer_size", "4000000000", NULL}, PACELINE_ENOMEM, "buffer_size: 4000000000"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    paceline_config *cfg = config(cases[i].settings);
    paceline_trainer *t = (void *)1;
    FAILS(paceline_trainer_new(&t, cfg), cases[i].status, cases[i].says);
    CHECK(t == (void *)1);
    paceline_config_free(cfg);
    if (cases[i].status == PACELINE_ENOMEM)
      CHECK(strstr(paceline_last_error(), "available") != NULL); /* both numbers */
  }
}

int main(void) {
  CHECK(strcmp(paceline_version(), PACELINE_VERSION) == 0);
  CHECK(paceline_abi_version() == PACELINE_ABI_VERSION);
  CHECK(strstr(paceline_build_info(), "\"version\":\"" PACELINE_VERSION "\"") != NULL);
  CHECK(strstr(paceline_build_info(), "\"isa\":\"") != NULL && strstr(paceline_build_info(), "\"go\":\"go") != NULL);
  CHECK(paceline_build_info() == paceline_build_info());
  CHECK(strcmp(paceline_last_error(), "") == 0);
  CHECK(strcmp(paceline_status_str(0), "PACELINE_OK") == 0 && strcmp(paceline_status_str(-9), "PACELINE_EPANIC") == 0);
  for (int i = 0; i >= -12; i--) CHECK(strncmp(paceline_status_str(i), "PACELINE_", 9) == 0);
  CHECK(paceline_status_str(7) != NULL);
  config_functions();
  trainer_functions();
  refused_settings();
  char *report = NULL;
  FAILS(paceline_bench(&report, "speed", NULL), PACELINE_EINVAL, "speed");
  FAILS(paceline_bench(&report, "update", "{\"batch\": "), PACELINE_EINVAL, "options");
  OK(paceline_bench(&report, "update", "{\"batch\": 8, \"trials\": 1}"));
  CHECK(strstr(report, "\"peak_gflops\":[") != NULL);
  paceline_string_free(report);
  FAILS(paceline_bench(&report, "update", "{\"precisions\": [\"fp8\"]}"), PACELINE_EINVAL, "fp8");
  OK(paceline_bench(&report, "update",
                    "{\"act\": [], \"precisions\": [\"bf16\"], \"threads\": [1], \"batch\": 1, \"trials\": 1}"));
  paceline_string_free(report);
  return 0;
}
