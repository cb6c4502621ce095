/* struct_size too small, too large, and right. */
#include "counter.h"

/* Makes the call with struct_size 0, too small, too large, and right. */
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

int main(void) {
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
  float seen[4] = {0}, after[4] = {0}, gain = 0;
  int32_t taken = 0;
  uint8_t over = 0;
  paceline_transitions x = {
      .num_rows = 1, .obs = seen, .next_obs = after, .actions = &taken, .rewards = &gain, .terminated = &over};
  SIZES(x, paceline_trainer_add_transitions(t, &x));
  SIZES(x, paceline_trainer_read_transitions(&x, t, &(int64_t){0}));
  OK(paceline_config_set(cfg, "env", "CartPole-v1"));
  OK(paceline_config_set(cfg, "updates", "outside"));
  OK(paceline_trainer_new(&u, cfg));
  OK(paceline_trainer_begin(u, 1000, 0));
  float grad[114]; /* of a network of 4 inputs, 16 units and 2 outputs */
  paceline_gradient g = {0};
  SIZES(g, paceline_trainer_gradient(grad, 114, &g, u, 0));
  paceline_trainer_free(u);
  OK(paceline_config_set(cfg, "clock", "updates"));
  OK(paceline_config_set(cfg, "concurrent", "false"));
  OK(paceline_config_set(cfg, "batch_size", "1"));
  OK(paceline_trainer_new(&u, cfg));
  float both[8] = {0}, discount = 0, weight = 0;
  int64_t identity = 0;
  paceline_steps one = {.num_steps = 1, .begins = 1, .obs = both, .actions = &taken, .rewards = &gain};
  SIZES(one, paceline_trainer_add_steps(u, 0, &one));
  paceline_minibatch drawn = {.num_rows = 1, .obs = seen, .next_obs = after, .actions = &taken, .rewards = &gain};
  drawn.discounts = &discount, drawn.weights = &weight, drawn.identities = &identity;
  SIZES(drawn, paceline_trainer_draw(&drawn, u, 0));
  OK(paceline_trainer_gradient_of(grad, 114, &g, u, &drawn));
  paceline_trainer_free(u);
  OK(paceline_config_set(cfg, "updates", "own"));
  paceline_metric m = {0};
  SIZES(m, paceline_trainer_metric(&m, t, 0));
  paceline_parameter par = {0};
  SIZES(par, paceline_trainer_parameter(&par, t, "q_net", 0));
  paceline_evaluation e = {0};
  SIZES(e, paceline_policy_evaluate(&e, p, "CartPole-v1", NULL, EPISODES(1, 0, 0)));
  paceline_eval_options how = {.episodes = 1};
  SIZES(how, paceline_policy_evaluate(&e, p, "CartPole-v1", NULL, &how));
  paceline_store *store = NULL;
  paceline_store_options range = {.optimizer = "adam"};
  SIZES(range, (paceline_store_free(store), paceline_store_new(&store, seen, 4, &range)));
  paceline_push push = {.step = 1};
  paceline_answer answer = {.struct_size = sizeof answer};
  SIZES(push, paceline_store_push(&answer, store, seen, 4, &push));
  SIZES(answer, paceline_store_push(&answer, store, seen, 4, &push));
  paceline_store_free(store);
  float row[4] = {0}, last[4] = {0};
  int32_t move = 1, none = 0;
  paceline_act_options act = {0};
  SIZES(act, paceline_policy_act(p, 1, row, &act, &move, NULL));
  move = 1;
  paceline_rows rows = {.num_rows = 1, .obs = row};
  SIZES(rows, paceline_vec_reset(v, NULL, NULL, &rows));
  SIZES(rows, paceline_vec_step(v, &move, &rows));
  SIZES(rows, paceline_vec_offer(v, &rows));
  OK(paceline_vec_send(v, &none, 1, &move)); /* only the valid rows were offered */
  OK(paceline_vec_recv(v, 0));
  FAILS(paceline_vec_send(v, &none, 1, &move), PACELINE_EINVAL, "0 are free");
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
