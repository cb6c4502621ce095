/* Uses the whole interface once. */
#include "counter.h"

static void method_functions(void) {
  char *text;
  paceline_config *cfg = (void *)1;
  OK(paceline_methods(&text));
  CHECK(text[0] == '[' && strstr(text, "\"dqn\"") != NULL);
  paceline_string_free(text);
  FAILS(paceline_config_new(&cfg, "dqm"), PACELINE_EINVAL, "dqn");
  FAILS(paceline_config_new(&cfg, ""), PACELINE_EINVAL, "dqn");
  FAILS(paceline_config_new(&cfg, "\xff"), PACELINE_EINVAL, "UTF-8");
  CHECK(cfg == (void *)1);
  OK(paceline_config_new(&cfg, "dqn"));
  const char *method, *again;
  OK(paceline_config_method(&method, cfg));
  OK(paceline_config_method(&again, cfg));
  CHECK(strcmp(method, "dqn") == 0 && method == again);

  /* Presets are an array of objects. envs is an array, or null for any environment. */
  OK(paceline_config_presets(&text, cfg));
  char *tuned = strstr(text, "\"name\":\"tuned\""), *mnih = strstr(text, "\"name\":\"mnih2015\"");
  CHECK(text[0] == '[' && tuned != NULL && mnih != NULL && strstr(text, "\"name\":\"fastdqn\"") != NULL);
  char *envs = strstr(tuned, "\"envs\":");
  CHECK(envs != NULL && envs[7] == '[' && strstr(envs, "\"CartPole-v1\"") < strchr(envs, ']'));
  CHECK(strncmp(strstr(mnih, "\"envs\":"), "\"envs\":null", 11) == 0 && strstr(mnih, "\"doc\":\"") != NULL);
  paceline_string_free(text);
  paceline_config_free(cfg);
}

static void config_functions(void) {
  paceline_config *cfg;
  char *value = (void *)1;
  OK(paceline_config_new(&cfg, "dqn"));
  FAILS(paceline_config_get(&value, cfg, "batchsize"), PACELINE_EINVAL, "batchsize");
  CHECK(value == (void *)1);
  OK(paceline_config_set(cfg, "batch_size", "64"));
  OK(paceline_config_get(&value, cfg, "batch_size"));
  CHECK(strcmp(value, "64") == 0);
  paceline_string_free(value);
  FAILS(paceline_config_set(cfg, "batch_size", "0"), PACELINE_EINVAL, "batch_size: 0");
  FAILS(paceline_config_set(cfg, "batchsize", "1"), PACELINE_EINVAL, "did you mean batch_size");
  FAILS(paceline_config_preset(cfg, "tuned", "Nope-v0"), PACELINE_EINVAL, "Nope-v0");
  FAILS(paceline_config_preset(cfg, "best", "CartPole-v1"), PACELINE_EINVAL, "best");
  OK(paceline_config_get(&value, cfg, "batch_size")); /* the failed calls changed nothing */
  CHECK(strcmp(value, "64") == 0);
  paceline_string_free(value);

  /* Every setting is described, and a new configuration has its default. */
  paceline_option o = {.struct_size = sizeof o};
  paceline_config *fresh;
  OK(paceline_config_new(&fresh, "dqn"));
  size_t n = 0;
  while (paceline_config_describe(&o, cfg, n) == PACELINE_OK) {
    OK(paceline_config_get(&value, fresh, o.name));
    CHECK(strcmp(value, o.default_value) == 0 && *o.type != 0 && strlen(o.doc) > 5);
    OK(paceline_config_set(fresh, o.name, value));
    paceline_string_free(value);
    n++;
  }
  CHECK(n > 20);
  const paceline_option last = o;
  FAILS(paceline_config_describe(&o, cfg, n), PACELINE_EINVAL, "must be 0 to");
  FAILS(paceline_config_describe(&o, cfg, (size_t)-1), PACELINE_EINVAL, "must be 0 to");
  CHECK(memcmp(&o, &last, sizeof o) == 0);
  paceline_config_free(fresh);

  /* Texts that are not UTF-8 or too long, and a number out of range. */
  FAILS(paceline_config_set(cfg, "env", "\xff\xfe"), PACELINE_EINVAL, "UTF-8");
  FAILS(paceline_config_set(cfg, "\xc3", "1"), PACELINE_EINVAL, "UTF-8");
  char *endless = malloc(100001);
  memset(endless, 'a', 100000);
  endless[100000] = 0;
  FAILS(paceline_config_set(cfg, "env", endless), PACELINE_EINVAL, "longer than");
  FAILS(paceline_config_set(cfg, endless, "1"), PACELINE_EINVAL, "longer than");
  FAILS(paceline_config_load(&fresh, endless), PACELINE_EINVAL, "path: longer than");
  FAILS(paceline_config_set(cfg, "seed", "99999999999999999999999"), PACELINE_EINVAL, "seed");
  free(endless);
  paceline_config_free(cfg);
}

/* Each metric has a name, a unit and a sentence, which never change; the metrics of DQN. */
static void metrics(paceline_trainer *t, const paceline_stats *s) {
  paceline_metric m = {.struct_size = sizeof m}, again = m;
  size_t n = 0, index;
  for (; paceline_trainer_metric(&m, t, n) == PACELINE_OK; n++) {
    CHECK(*m.name != 0 && m.unit != NULL && strlen(m.doc) > 5);
    for (size_t k = 0; k < n; k++) {
      OK(paceline_trainer_metric(&again, t, k));
      CHECK(strcmp(again.name, m.name) != 0);
    }
    OK(paceline_trainer_metric(&again, t, n));
    CHECK(again.name == m.name && again.unit == m.unit && again.doc == m.doc);
    OK(paceline_trainer_metric_index(&index, t, m.name));
    CHECK(index == n);
  }
  FAILS(paceline_trainer_metric(&again, t, n), PACELINE_EINVAL, "metric: ");
  FAILS(paceline_trainer_metric(&again, t, (size_t)-1), PACELINE_EINVAL, "metric: ");
  FAILS(paceline_trainer_metric_index(&index, t, "train/los"), PACELINE_EINVAL,
        "metric: \"train/los\", dqn reports none of that name; did you mean train/loss?");
  CHECK(again.name == m.name && again.value == m.value);
  CHECK(n >= 6 && metric_of(t, "train/learning_rate") == 0.001 && metric_of(t, "replay_bytes") > 1000);
  CHECK(metric_of(t, "rollout/exploration_rate") > 0 && metric_of(t, "rollout/exploration_rate") < 1 &&
        metric_of(t, "windows") > 5);
  CHECK(metric_of(t, "replay_size") > 500 && metric_of(t, "replay_size") <= (double)s->num_timesteps);
}

/* Parameters: sets of flat arrays, in order, changed by set_parameters one set at a time. */
static void parameters(paceline_trainer *t) {
  enum { SIZE = 16 * 4 + 16 + 2 * 16 + 2 };
  const char *const sets[] = {"q_net", "q_net_target"};
  paceline_parameter p = {.struct_size = sizeof p};
  for (int s = 0; s < 2; s++) {
    size_t total = 0, i = 0;
    for (; paceline_trainer_parameter(&p, t, sets[s], i) == PACELINE_OK; i++) {
      size_t size = 1;
      for (uint32_t k = 0; k < p.ndim; k++) size *= (size_t)p.shape[k];
      CHECK(p.offset == total && p.size == size);
      total += size;
      if (i == 0) CHECK(strcmp(p.name, "q_net.0.weight") == 0 && p.shape[0] == 16 && p.shape[1] == 4);
    }
    CHECK(i == 4 && total == SIZE);
    FAILS(paceline_trainer_parameter(&p, t, sets[s], (size_t)-1), PACELINE_EINVAL, "parameter: ");
  }
  float theta[SIZE], minus[SIZE], again[SIZE];
  int64_t updates = -1;
  OK(paceline_trainer_get_parameters(theta, SIZE, &updates, t, "q_net"));
  CHECK(updates == stats_of(t).updates && updates > 0);
  OK(paceline_trainer_get_parameters(minus, SIZE, NULL, t, "q_net_target"));
  hashes before = hashes_of(t), after;
  theta[0] += 1;
  OK(paceline_trainer_set_parameters(t, "q_net", theta, SIZE));
  OK(paceline_trainer_get_parameters(again, SIZE, NULL, t, "q_net"));
  CHECK(memcmp(theta, again, sizeof theta) == 0);
  OK(paceline_trainer_get_parameters(again, SIZE, NULL, t, "q_net_target"));
  CHECK(memcmp(minus, again, sizeof minus) == 0);
  after = hashes_of(t);
  CHECK(strcmp(before.weights, after.weights) != 0 && strcmp(before.target, after.target) == 0);
  CHECK(strcmp(before.replay, after.replay) == 0);
  again[0] = updates = -7;
  FAILS(paceline_trainer_get_parameters(again, SIZE - 1, &updates, t, "q_net"), PACELINE_EINVAL, "n: ");
  FAILS(paceline_trainer_get_parameters(again, SIZE, &updates, t, "policy"), PACELINE_EINVAL, "q_net or q_net_target");
  CHECK(again[0] == -7 && updates == -7);
  FAILS(paceline_trainer_set_parameters(t, "q_net", theta, (size_t)-1), PACELINE_EINVAL, "n: ");
  FAILS(paceline_trainer_set_parameters(t, "q_nett", theta, SIZE), PACELINE_EINVAL, "set: \"q_nett\"");
  theta[3] = NAN;
  FAILS(paceline_trainer_set_parameters(t, "q_net", theta, SIZE), PACELINE_ENAN, "parameters");
  char *text = (void *)1;
  FAILS(paceline_trainer_hash(&text, t, "weights"), PACELINE_EINVAL, "part: \"weights\"");
  CHECK(text == (void *)1);
}

/* The description, the specs and the settings of a trainer. */
static void described(paceline_trainer *t) {
  char *text;
  OK(paceline_trainer_describe(&text, t));
  CHECK(strstr(text, "\"method\":\"dqn\"") != NULL && strstr(text, "\"env\":\"CartPole-v1\"") != NULL);
  CHECK(strstr(text, "\"recipe\":\"\"") != NULL && strstr(text, "\"name\":\"q_net_target\"") != NULL);
  CHECK(strstr(text, "\"size\":114") != NULL && strstr(text, "\"writable\":true") != NULL);
  paceline_string_free(text);
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
  OK(paceline_trainer_spec(&obs, &action, t));
  CHECK(obs.dtype == PACELINE_FLOAT32 && obs.ndim == 1 && obs.shape[0] == 4 && action.n == 2);

  /* The settings in effect make an equal trainer. */
  paceline_config *cfg;
  OK(paceline_trainer_config(&cfg, t));
  static const char *const acts[][2] = {
      {"policy", "MlpPolicy"}, {"actor", "snapshot"}, {"net_arch", "16"}, {"num_threads", "2"}};
  for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
    OK(paceline_config_get(&text, cfg, acts[i][0]));
    CHECK(strcmp(text, acts[i][1]) == 0);
    paceline_string_free(text);
  }
  paceline_trainer *twin;
  OK(paceline_config_set(cfg, "num_threads", "0")); /* one per core */
  OK(paceline_trainer_new(&twin, cfg));
  paceline_config *full;
  OK(paceline_trainer_config(&full, twin));
  OK(paceline_config_get(&text, full, "num_threads"));
  CHECK(atoi(text) > 0);
  paceline_string_free(text);
  paceline_config_free(full);
  OK(paceline_config_set(cfg, "seed", "9"));
  OK(paceline_trainer_run(NULL, twin, 300, 0));
  paceline_trainer_free(twin);
  paceline_config_free(cfg);
}

/* A policy's random numbers are a function of seed, counter and row alone. */
static void drawn(const paceline_policy *p) {
  enum { N = 40, DRAWS = 50 };
  float obs[N * 4];
  int32_t greedy[N], a[N], b[N];
  for (int k = 0; k < N * 4; k++) obs[k] = (float)(k % 13) / 13 - 0.5f;
  OK(paceline_policy_act(p, N, obs, NULL, greedy, NULL));
  paceline_act_options o = {.struct_size = sizeof o};
  OK(paceline_policy_act(p, N, obs, &o, a, NULL));
  CHECK(memcmp(greedy, a, sizeof a) == 0); /* options of zero are greedy */
  int others = 0, changed = 0;
  o.epsilon = 0.5;
  for (o.counter = 0; o.counter < DRAWS; o.counter++) {
    float q[N * 2];
    OK(paceline_policy_act(p, N, obs, &o, a, NULL));
    OK(paceline_policy_act(p, N, obs, &o, b, (float *[]){q})); /* the same call gives the same actions */
    CHECK(memcmp(a, b, sizeof a) == 0);
    OK(paceline_policy_act(p, N / 2, obs, &o, b, NULL)); /* also for half of the rows */
    CHECK(memcmp(a, b, sizeof a / 2) == 0);
    for (int k = 0; k < N; k++) {
      CHECK(a[k] == 0 || a[k] == 1);
      others += a[k] != greedy[k];
    }
    o.seed = 1;
    OK(paceline_policy_act(p, N, obs, &o, b, NULL));
    o.seed = 0;
    changed += memcmp(a, b, sizeof a) != 0;
  }
  CHECK(changed > DRAWS - 3);
  CHECK(others > N * DRAWS / 5 && others < N * DRAWS * 3 / 10); /* a quarter */
  o.epsilon = 1.5;
  FAILS(paceline_policy_act(p, N, obs, &o, a, NULL), PACELINE_EINVAL, "epsilon: 1.5");
  o.epsilon = NAN;
  FAILS(paceline_policy_act(p, N, obs, &o, a, NULL), PACELINE_EINVAL, "epsilon: NaN");
  o.epsilon = 0;
  o.sample = 2;
  FAILS(paceline_policy_act(p, N, obs, &o, a, NULL), PACELINE_EINVAL, "sample: 2");
  o.sample = 0;
}

/* A policy from its bytes acts as the policy did. Other bytes are refused. */
static void as_bytes(const paceline_policy *p) {
  size_t size = 7, small;
  OK(paceline_policy_to_bytes(NULL, &size, p));
  CHECK(size > 114 * 4);
  unsigned char *bytes = malloc(size + 1);
  bytes[0] = 77;
  small = size - 1;
  FAILS(paceline_policy_to_bytes(bytes, &small, p), PACELINE_EINVAL, "size: ");
  CHECK(bytes[0] == 77 && small == size - 1);
  small = size + 1;
  OK(paceline_policy_to_bytes(bytes, &small, p));
  CHECK(small == size && bytes[0] != 77);
  paceline_policy *q = (void *)1;
  FAILS(paceline_policy_from_bytes(&q, bytes, size - 1), PACELINE_EIO, "");
  FAILS(paceline_policy_from_bytes(&q, bytes, 0), PACELINE_EIO, "");
  FAILS(paceline_policy_from_bytes(&q, bytes, (size_t)-1), PACELINE_EINVAL, "size: ");
  bytes[size / 2] ^= 1;
  FAILS(paceline_policy_from_bytes(&q, bytes, size), PACELINE_EIO, "");
  bytes[size / 2] ^= 1;
  CHECK(q == (void *)1);
  OK(paceline_policy_from_bytes(&q, bytes, size));
  memset(bytes, 0, size); /* the bytes are borrowed */
  free(bytes);
  float obs[4] = {0.1f, -0.2f, 0.3f, -0.4f}, values[2][2];
  int32_t a[2];
  OK(paceline_policy_act(p, 1, obs, NULL, &a[0], (float *[]){values[0]}));
  OK(paceline_policy_act(q, 1, obs, NULL, &a[1], (float *[]){values[1]}));
  CHECK(a[0] == a[1] && memcmp(values[0], values[1], sizeof values[0]) == 0);
  OK(paceline_policy_act(q, 1, obs, NULL, &a[1], (float *[]){NULL})); /* an output that is left out */
  char *text;
  OK(paceline_policy_describe(&text, q));
  CHECK(strstr(text, "\"outputs\":[{\"len\":2,\"name\":\"q\"}]") != NULL && strstr(text, "\"state_bytes\":0") != NULL);
  paceline_string_free(text);
  paceline_policy_free(q);
}

static void trainer_functions(void) {
  paceline_trainer *t = quick("CartPole-v1");
  paceline_stats s = {.struct_size = sizeof s};
  OK(paceline_trainer_run(&s, t, 1000, 0));
  CHECK(s.num_timesteps == 1000 && s.total_timesteps == 1000 && s.updates == s.updates_due && s.updates == 200);
  CHECK(s.episodes > 10 && s.mean_return > 5 && isfinite(metric_of(t, "train/loss")));
  metrics(t, &s);
  OK(paceline_trainer_run(NULL, t, 0, 0)); /* to the end of the run */
  CHECK(stats_of(t).num_timesteps == 1000);
  OK(paceline_trainer_begin(t, 500, 0));
  OK(paceline_trainer_run(&s, t, 0, 0));
  CHECK(s.num_timesteps == 1500 && s.total_timesteps == 1500);

  FAILS(paceline_trainer_begin(t, 0, 0), PACELINE_EINVAL, "total_timesteps: 0");
  FAILS(paceline_trainer_begin(t, 10, 64), PACELINE_EINVAL, "flags: 64");
  FAILS(paceline_trainer_run(NULL, t, -1, 0), PACELINE_EINVAL, "max_steps: -1");
  FAILS(paceline_trainer_run(NULL, t, 1, -1), PACELINE_EINVAL, "max_ms: -1");
  float rows_obs[16] = {0};
  int32_t actions[4];
  double rewards[4] = {0};
  uint8_t ended[4] = {0};
  paceline_rows rows = {.struct_size = sizeof rows,
                        .num_rows = 4,
                        .obs = rows_obs,
                        .final_obs = rows_obs,
                        .rewards = rewards,
                        .terminated = ended,
                        .truncated = ended};
  FAILS(paceline_trainer_act(t, &rows, actions, 0), PACELINE_EINVAL, "act");
  FAILS(paceline_trainer_observe(t, &rows, 0), PACELINE_EINVAL, "observe");
  paceline_stats same = s;
  FAILS(paceline_trainer_run(&s, t, -1, 0), PACELINE_EINVAL, "max_steps: -1");
  CHECK(memcmp(&s, &same, sizeof s) == 0);

  /* max_ms and stop. */
  OK(paceline_trainer_begin(t, 1000000000, 0));
  OK(paceline_trainer_run(NULL, t, 0, 50));
  OK(paceline_trainer_stop(t)); /* no run is in progress: the next one returns at once */
  int64_t steps = stats_of(t).num_timesteps;
  OK(paceline_trainer_run(&s, t, 0, 0));
  CHECK(s.num_timesteps == steps);

  parameters(t);
  described(t);

  char *notice;
  OK(paceline_trainer_notice(&notice, t));
  CHECK(notice == NULL);
  char *line;
  OK(paceline_trainer_proposal(&line, t));
  CHECK(line && strlen(line) > 20);
  paceline_string_free(line);
  OK(paceline_trainer_settle(t, 0));
  OK(paceline_trainer_settle(t, 1000));
  FAILS(paceline_trainer_settle(t, -1), PACELINE_EINVAL, "max_ms: -1");

  /* Policies of the trainer and of files. */
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
  for (int k = 0; k < 3; k++) OK(paceline_policy_act(ps[k], 40, obs, NULL, a[k], (float *[]){q[k]}));
  CHECK(memcmp(q[0], q[1], sizeof q[0]) == 0 && memcmp(q[0], q[2], sizeof q[0]) == 0);
  CHECK(memcmp(a[0], a[1], sizeof a[0]) == 0);
  for (int k = 0; k < 40; k++) CHECK(a[0][k] == (q[0][2 * k + 1] > q[0][2 * k]));
  drawn(ps[1]);
  as_bytes(ps[1]);
  OK(paceline_policy_act(ps[0], 0, NULL, NULL, NULL, NULL));
  FAILS(paceline_policy_act(ps[0], (size_t)-1, obs, NULL, a[0], NULL), PACELINE_EINVAL, "n: ");
  paceline_spec so = {.struct_size = sizeof so}, sa = {.struct_size = sizeof sa};
  OK(paceline_policy_spec(&so, &sa, ps[2]));
  CHECK(so.kind == PACELINE_BOX && so.dtype == PACELINE_FLOAT32 && so.ndim == 1 && so.shape[0] == 4);
  CHECK(sa.kind == PACELINE_DISCRETE && sa.dtype == PACELINE_INT32 && sa.n == 2);
  paceline_evaluation e = {.struct_size = sizeof e}, f = {.struct_size = sizeof f};
  OK(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", NULL, EPISODES(5, 0.1, 3)));
  OK(paceline_policy_evaluate(&f, ps[2], "CartPole-v1", NULL, EPISODES(5, 0.1, 3)));
  CHECK(e.episodes == 5 && e.min_return <= e.mean_return && e.mean_return <= e.max_return);
  CHECK(memcmp(&e, &f, sizeof e) == 0);
  paceline_evaluation same_e = e;
  FAILS(paceline_policy_evaluate(&e, ps[0], "Catch-v0", NULL, EPISODES(5, 0, 3)), PACELINE_EINVAL, "Catch-v0");
  FAILS(paceline_policy_evaluate(&e, ps[0], "CartPol-v1", NULL, EPISODES(5, 0, 3)), PACELINE_EINVAL, "CartPole-v1");
  FAILS(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", "{\"gravity\": 9}", EPISODES(5, 0, 3)), PACELINE_EINVAL,
        "option \"gravity\"");
  FAILS(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", NULL, EPISODES(0, 0, 3)), PACELINE_EINVAL, "episodes: 0");
  FAILS(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", NULL, EPISODES(1, NAN, 3)), PACELINE_EINVAL, "epsilon");
  paceline_eval_options odd = {.struct_size = sizeof odd, .episodes = 1, .sample = 2};
  FAILS(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", NULL, &odd), PACELINE_EINVAL, "sample: 2");
  CHECK(memcmp(&e, &same_e, sizeof e) == 0);
  OK(paceline_policy_evaluate(&e, ps[0], "CartPole-v1", NULL, NULL));
  OK(paceline_policy_evaluate(&f, ps[0], "CartPole-v1", NULL, EPISODES(10, 0, 0)));
  CHECK(e.episodes == 10 && memcmp(&e, &f, sizeof e) == 0);
  for (int k = 0; k < 3; k++) paceline_policy_free(ps[k]);
}

/* Settings that contradict each other, and too little memory. */
static void refused_settings(void) {
  static const struct {
    const char *settings[7];
    int status;
    const char *says;
  } cases[] = {
      {{NULL}, PACELINE_EINVAL, "env"},
      {{"env", "Cartpole", NULL}, PACELINE_EINVAL, "CartPole-v1"},
      {{"env", "CartPole-v1", "n_steps", "64", "buffer_size", "50", NULL}, PACELINE_EINVAL, "buffer_size"},
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

/* Environments of a table have no name. */
static void nameless(void) {
  family f = counters(SOUND, 0);
  paceline_trainer *t;
  paceline_policy *p;
  char *text;
  OK(counter_trainer(&t, &f, 0));
  OK(paceline_trainer_describe(&text, t));
  CHECK(strstr(text, "\"env\":\"\"") != NULL);
  paceline_string_free(text);
  OK(paceline_policy_from_trainer(&p, t));
  OK(paceline_policy_describe(&text, p));
  CHECK(strstr(text, "\"env\":\"\"") != NULL);
  paceline_string_free(text);
  paceline_policy_free(p);
  OK(paceline_trainer_free(t));
}

int main(void) {
  CHECK(strcmp(paceline_version(), PACELINE_VERSION) == 0);
  CHECK(paceline_abi_version() == PACELINE_ABI_VERSION);
  CHECK(strstr(paceline_build_info(), "\"version\":\"" PACELINE_VERSION "\"") != NULL);
  CHECK(strstr(paceline_build_info(), "\"isa\":\"") != NULL && strstr(paceline_build_info(), "\"go\":\"go") != NULL);
  CHECK(paceline_build_info() == paceline_build_info());
  CHECK(strcmp(paceline_last_error(), "") == 0 && paceline_last_error_index() == -1);
  CHECK(strcmp(paceline_status_str(0), "PACELINE_OK") == 0 && strcmp(paceline_status_str(-9), "PACELINE_EPANIC") == 0);
  for (int i = 0; i >= -13; i--) CHECK(strncmp(paceline_status_str(i), "PACELINE_", 9) == 0);
  CHECK(paceline_status_str(7) != NULL);
  method_functions();
  config_functions();
  trainer_functions();
  nameless();
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
