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
  FIELD(paceline_env_table, reserved);
  FIELD(paceline_env_table, spec);
  FIELD(paceline_env_table, create);
  FIELD(paceline_env_table, reset);
  FIELD(paceline_env_table, step);
  FIELD(paceline_env_table, save);
  FIELD(paceline_env_table, restore);
  FIELD(paceline_env_table, destroy);
  STRUCT(paceline_host);
  FIELD(paceline_host, struct_size);
  FIELD(paceline_host, abi_version);
  FIELD(paceline_host, set_callback_error);
  STRUCT(paceline_env_plugin);
  FIELD(paceline_env_plugin, struct_size);
  FIELD(paceline_env_plugin, reserved);
  FIELD(paceline_env_plugin, name);
  FIELD(paceline_env_plugin, table);
  FIELD(paceline_env_plugin, user);
  STRUCT(paceline_stats);
  FIELD(paceline_stats, struct_size);
  FIELD(paceline_stats, reserved);
  FIELD(paceline_stats, num_timesteps);
  FIELD(paceline_stats, total_timesteps);
  FIELD(paceline_stats, updates);
  FIELD(paceline_stats, updates_due);
  FIELD(paceline_stats, episodes);
  FIELD(paceline_stats, windows);
  FIELD(paceline_stats, replay_size);
  FIELD(paceline_stats, replay_bytes);
  FIELD(paceline_stats, epsilon);
  FIELD(paceline_stats, learning_rate);
  FIELD(paceline_stats, loss);
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
  STRUCT(paceline_hashes);
  FIELD(paceline_hashes, struct_size);
  FIELD(paceline_hashes, reserved);
  FIELD(paceline_hashes, replay);
  FIELD(paceline_hashes, weights);
  FIELD(paceline_hashes, target);
  STRUCT(paceline_buffers);
  FIELD(paceline_buffers, struct_size);
  FIELD(paceline_buffers, num_envs);
  FIELD(paceline_buffers, obs_bytes);
  FIELD(paceline_buffers, action_bytes);
  FIELD(paceline_buffers, obs);
  FIELD(paceline_buffers, final_obs);
  FIELD(paceline_buffers, actions);
  FIELD(paceline_buffers, rewards);
  FIELD(paceline_buffers, ended);
  FIELD(paceline_buffers, id);
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
  paceline_option o = {0};
  SIZES(o, paceline_config_describe(&o, 0));
  paceline_stats s = {0};
  SIZES(s, paceline_trainer_stats(&s, t));
  SIZES(s, paceline_trainer_run(t, 1, 0, &s));
  paceline_parameter par = {0};
  SIZES(par, paceline_trainer_parameter(&par, t, 0));
  paceline_hashes h = {0};
  SIZES(h, paceline_trainer_hash(&h, t));
  paceline_evaluation e = {0};
  SIZES(e, paceline_policy_evaluate(&e, p, "CartPole-v1", NULL, 1, 0, 0));
  float row[4];
  int32_t move = 1, none = 0;
  paceline_rows rows = {.num_rows = 1, .obs = row};
  SIZES(rows, paceline_vec_reset(v, NULL, NULL, &rows));
  SIZES(rows, paceline_vec_step(v, &move, &rows));
  SIZES(rows, paceline_vec_offer(v, &rows));
  OK(paceline_vec_send(v, &none, 1, &move)); /* only the good one was offered */
  FAILS(paceline_vec_send(v, &move, 1, &move), PACELINE_EINVAL, "room for 0");
  OK(paceline_vec_recv(v, 0));
  paceline_spec obs = {0}, action = {.struct_size = sizeof action};
  SIZES(obs, paceline_policy_spec(&obs, &action, p));
  SIZES(obs, paceline_vec_spec(&obs, &action, v));
  SIZES(action, paceline_vec_spec(&obs, &action, v));

  const char *const settings[] = {QUICK, NULL};
  paceline_config *cfg = config(settings);
  SIZES(obs, paceline_trainer_new_push(&u, cfg, &obs, &action));
  paceline_trainer_free(u);
  SIZES(action, paceline_trainer_new_push(&u, cfg, &obs, &action));
  paceline_buffers w = {0};
  SIZES(w, paceline_trainer_buffers(&w, u));
  paceline_trainer_free(u);
  paceline_buffers_release(w.id);
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
