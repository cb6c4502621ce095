/* Sizes and offsets of every struct, as committed in abi.txt, and what happens
 * with struct_size. With an argument it prints them, for a new abi.txt. */
#include "counter.h"

static FILE *out;

#define STRUCT(type) fprintf(out, "%s %zu\n", #type, sizeof(type))
#define FIELD(type, field) fprintf(out, "  %s %zu %zu\n", #field, offsetof(type, field), sizeof(((type *)0)->field))

static void dump(void) {
  STRUCT(paceline_option);
  FIELD(paceline_option, struct_size);
  FIELD(paceline_option, reserved);
  FIELD(paceline_option, name);
  FIELD(paceline_option, type);
  FIELD(paceline_option, default_value);
  FIELD(paceline_option, doc);
  STRUCT(paceline_spec);
  FIELD(paceline_spec, struct_size);
  FIELD(paceline_spec, kind);
  FIELD(paceline_spec, dtype);
  FIELD(paceline_spec, ndim);
  FIELD(paceline_spec, shape);
  FIELD(paceline_spec, n);
  FIELD(paceline_spec, frame_stack);
  STRUCT(paceline_env_table);
  FIELD(paceline_env_table, struct_size);
  FIELD(paceline_env_table, flags);
  FIELD(paceline_env_table, spec);
  FIELD(paceline_env_table, create);
  FIELD(paceline_env_table, reset);
  FIELD(paceline_env_table, step);
  FIELD(paceline_env_table, save);
  FIELD(paceline_env_table, restore);
  FIELD(paceline_env_table, destroy);
  FIELD(paceline_env_table, mask);
  STRUCT(paceline_host);
  FIELD(paceline_host, struct_size);
  FIELD(paceline_host, abi_version);
  FIELD(paceline_host, set_callback_error);
  STRUCT(paceline_env_plugin);
  FIELD(paceline_env_plugin, struct_size);
  FIELD(paceline_env_plugin, reserved);
  FIELD(paceline_env_plugin, name);
  FIELD(paceline_env_plugin, user);
  FIELD(paceline_env_plugin, table);
  STRUCT(paceline_stats);
  FIELD(paceline_stats, struct_size);
  FIELD(paceline_stats, reserved);
  FIELD(paceline_stats, num_timesteps);
  FIELD(paceline_stats, total_timesteps);
  FIELD(paceline_stats, updates);
  FIELD(paceline_stats, updates_due);
  FIELD(paceline_stats, episodes);
  FIELD(paceline_stats, mean_return);
  FIELD(paceline_stats, mean_length);
  FIELD(paceline_stats, seconds_env);
  FIELD(paceline_stats, seconds_act);
  FIELD(paceline_stats, seconds_train);
  FIELD(paceline_stats, seconds_wait);
  STRUCT(paceline_parameter);
  FIELD(paceline_parameter, struct_size);
  FIELD(paceline_parameter, ndim);
  FIELD(paceline_parameter, shape);
  FIELD(paceline_parameter, offset);
  FIELD(paceline_parameter, size);
  FIELD(paceline_parameter, name);
  STRUCT(paceline_metric);
  FIELD(paceline_metric, struct_size);
  FIELD(paceline_metric, reserved);
  FIELD(paceline_metric, name);
  FIELD(paceline_metric, unit);
  FIELD(paceline_metric, doc);
  FIELD(paceline_metric, value);
  STRUCT(paceline_act_options);
  FIELD(paceline_act_options, struct_size);
  FIELD(paceline_act_options, sample);
  FIELD(paceline_act_options, epsilon);
  FIELD(paceline_act_options, seed);
  FIELD(paceline_act_options, counter);
  FIELD(paceline_act_options, action_masks);
  FIELD(paceline_act_options, state);
  FIELD(paceline_act_options, episode_starts);
  STRUCT(paceline_eval_options);
  FIELD(paceline_eval_options, struct_size);
  FIELD(paceline_eval_options, sample);
  FIELD(paceline_eval_options, episodes);
  FIELD(paceline_eval_options, epsilon);
  FIELD(paceline_eval_options, seed);
  FIELD(paceline_eval_options, returns);
  FIELD(paceline_eval_options, lengths);
  STRUCT(paceline_evaluation);
  FIELD(paceline_evaluation, struct_size);
  FIELD(paceline_evaluation, reserved);
  FIELD(paceline_evaluation, episodes);
  FIELD(paceline_evaluation, mean_return);
  FIELD(paceline_evaluation, std_return);
  FIELD(paceline_evaluation, min_return);
  FIELD(paceline_evaluation, max_return);
  FIELD(paceline_evaluation, mean_length);
  STRUCT(paceline_vec_options);
  FIELD(paceline_vec_options, struct_size);
  FIELD(paceline_vec_options, num_envs);
  FIELD(paceline_vec_options, batch_size);
  FIELD(paceline_vec_options, num_threads);
  FIELD(paceline_vec_options, autoreset);
  FIELD(paceline_vec_options, pin);
  FIELD(paceline_vec_options, env_options);
  STRUCT(paceline_rows);
  FIELD(paceline_rows, struct_size);
  FIELD(paceline_rows, num_rows);
  FIELD(paceline_rows, obs);
  FIELD(paceline_rows, final_obs);
  FIELD(paceline_rows, rewards);
  FIELD(paceline_rows, terminated);
  FIELD(paceline_rows, truncated);
  FIELD(paceline_rows, started);
  FIELD(paceline_rows, env_ids);
  FIELD(paceline_rows, infos);
  FIELD(paceline_rows, final_infos);
  FIELD(paceline_rows, action_masks);
  FIELD(paceline_rows, final_action_masks);
  FIELD(paceline_rows, device_type);
  FIELD(paceline_rows, device_id);
}

static void compare(const char *path) {
  char now[8192] = "", was[8192] = "";
  out = fmemopen(now, sizeof now, "w");
  dump();
  fclose(out);
  FILE *f = fopen(path, "r");
  CHECK(f != NULL);
  size_t n = fread(was, 1, sizeof was - 1, f);
  fclose(f);
  if (n == 0 || strcmp(now, was) != 0) {
    printf("structs are not those of abi.txt: callers built with the old header break.\n%s", now);
    exit(1);
  }
}

/* call with struct_size 0, one too small, one too large, and right. */
#define SIZES(value, call)                          \
  do {                                              \
    value.struct_size = 0;                          \
    FAILS(call, PACELINE_EINVAL, "struct_size: 0"); \
    value.struct_size = sizeof value - 1;           \
    FAILS(call, PACELINE_EINVAL, "struct_size");    \
    value.struct_size = sizeof value + 8;           \
    FAILS(call, PACELINE_EVERSION, "struct_size");  \
    value.struct_size = 0xffffffff;                 \
    FAILS(call, PACELINE_EVERSION, "struct_size");  \
    value.struct_size = sizeof value;               \
    OK(call);                                       \
    CHECK(value.struct_size == sizeof value);       \
  } while (0)

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "print") == 0) {
    out = stdout;
    dump();
    return 0;
  }
  compare(argc > 1 ? argv[1] : "abi.txt");

  paceline_trainer *t = quick("CartPole-v1"), *u;
  paceline_policy *p;
  paceline_vec *v = NULL;
  OK(paceline_policy_from_trainer(&p, t));
  paceline_vec_options options = {.num_envs = 1, .num_threads = 1, .pin = -1};
  SIZES(options, (paceline_vec_free(v), paceline_vec_new(&v, "CartPole-v1", &options)));
  const char *const settings[] = {QUICK, NULL};
  paceline_config *cfg = config(settings);
  paceline_option o = {0};
  SIZES(o, paceline_config_describe(&o, cfg, 0));
  paceline_stats s = {0};
  SIZES(s, paceline_trainer_stats(&s, t));
  SIZES(s, paceline_trainer_run(&s, t, 1, 0));
  paceline_metric m = {0};
  SIZES(m, paceline_trainer_metric(&m, t, 0));
  paceline_parameter par = {0};
  SIZES(par, paceline_trainer_parameter(&par, t, "q_net", 0));
  paceline_evaluation e = {0};
  SIZES(e, paceline_policy_evaluate(&e, p, "CartPole-v1", NULL, EPISODES(1, 0, 0)));
  paceline_eval_options how = {.episodes = 1};
  SIZES(how, paceline_policy_evaluate(&e, p, "CartPole-v1", NULL, &how));
  float row[4] = {0}, last[4] = {0};
  int32_t move = 1, none = 0;
  paceline_act_options act = {0};
  SIZES(act, paceline_policy_act(p, 1, row, &act, &move, NULL));
  move = 1;
  paceline_rows rows = {.num_rows = 1, .obs = row};
  SIZES(rows, paceline_vec_reset(v, NULL, NULL, &rows));
  SIZES(rows, paceline_vec_step(v, &move, &rows));
  SIZES(rows, paceline_vec_offer(v, &rows));
  OK(paceline_vec_send(v, &none, 1, &move)); /* only the good one was offered */
  FAILS(paceline_vec_send(v, &move, 1, &move), PACELINE_EINVAL, "1 are sent");
  OK(paceline_vec_recv(v, 0));
  paceline_spec obs = {0}, action = {.struct_size = sizeof action};
  SIZES(obs, paceline_policy_spec(&obs, &action, p));
  SIZES(obs, paceline_trainer_spec(&obs, &action, t));
  SIZES(obs, paceline_vec_spec(&obs, &action, v));
  SIZES(action, paceline_vec_spec(&obs, &action, v));

  OK(paceline_config_set(cfg, "num_envs", "1"));
  SIZES(obs, paceline_trainer_new_push(&u, cfg, &obs, &action));
  paceline_trainer_free(u);
  SIZES(action, paceline_trainer_new_push(&u, cfg, &obs, &action));
  double reward = 0;
  uint8_t ended = 0;
  rows.final_obs = last, rows.rewards = &reward, rows.terminated = rows.truncated = &ended;
  OK(paceline_trainer_begin(u, 100, 0));
  SIZES(rows, paceline_trainer_act(u, &rows, &move, 0));
  SIZES(rows, paceline_trainer_observe(u, &rows, 0));
  paceline_trainer_free(u);
  OK(paceline_config_set(cfg, "num_envs", "4"));
  family f = counters(SOUND, 0);
  paceline_env_table table = counter_table(1);
  SIZES(table, paceline_trainer_new_table(&u, cfg, &table, &f, NULL));
  paceline_trainer_free(u);
  CHECK(f.made == 4 && f.destroyed == 4 && f.released == 0);
  paceline_config_free(cfg);
  paceline_vec_free(v);
  paceline_policy_free(p);
  paceline_trainer_free(t);
  return 0;
}
