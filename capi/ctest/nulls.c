/* NULL for every pointer of every function, and wild handles: an error that names the argument, and
 * no crash. */
#include "counter.h"
#include "rows.h"

#define NIL(call, name) FAILS(call, PACELINE_EINVAL, name ": NULL")

int main(void) {
  const char *const settings[] = {QUICK, "env", "CartPole-v1", NULL};
  paceline_config *cfg = config(settings), *c;
  paceline_trainer *t = quick("CartPole-v1"), *made;
  paceline_policy *p, *q;
  paceline_vec *v, *w;
  char *text;
  paceline_spec s = {.struct_size = sizeof s};
  paceline_option o = {.struct_size = sizeof o};
  paceline_stats st = {.struct_size = sizeof st};
  paceline_parameter par = {.struct_size = sizeof par};
  paceline_metric m = {.struct_size = sizeof m};
  paceline_evaluation e = {.struct_size = sizeof e};
  float obs[4] = {0};
  int32_t action;
  size_t index;

  NIL(paceline_methods(NULL), "out");
  NIL(paceline_config_new(NULL, "dqn"), "out");
  NIL(paceline_config_new(&c, NULL), "method");
  NIL(paceline_config_method(NULL, cfg), "out");
  NIL(paceline_config_method((const char **)&text, NULL), "cfg");
  NIL(paceline_config_presets(NULL, cfg), "out");
  NIL(paceline_config_presets(&text, NULL), "cfg");
  NIL(paceline_config_set(NULL, "a", "b"), "cfg");
  NIL(paceline_config_set(cfg, NULL, "b"), "key");
  NIL(paceline_config_set(cfg, "env", NULL), "value");
  NIL(paceline_config_get(NULL, cfg, "env"), "out");
  NIL(paceline_config_get(&text, NULL, "env"), "cfg");
  NIL(paceline_config_get(&text, cfg, NULL), "key");
  NIL(paceline_config_preset(NULL, "tuned", "CartPole-v1"), "cfg");
  NIL(paceline_config_preset(cfg, NULL, "CartPole-v1"), "preset");
  NIL(paceline_config_preset(cfg, "tuned", NULL), "env");
  NIL(paceline_config_load(NULL, "x"), "out");
  NIL(paceline_config_load(&c, NULL), "path");
  NIL(paceline_config_describe(NULL, cfg, 0), "out");
  NIL(paceline_config_describe(&o, NULL, 0), "cfg");

  NIL(paceline_trainer_new(NULL, cfg), "out");
  NIL(paceline_trainer_new(&made, NULL), "cfg");
  NIL(paceline_trainer_new_push(NULL, cfg, &s, &s), "out");
  NIL(paceline_trainer_new_push(&made, NULL, &s, &s), "cfg");
  NIL(paceline_trainer_new_push(&made, cfg, NULL, &s), "obs");
  NIL(paceline_trainer_new_push(&made, cfg, &s, NULL), "action");
  NIL(paceline_trainer_begin(NULL, 1, 0), "t");
  NIL(paceline_trainer_run(NULL, NULL, 1, 0), "t");
  NIL(paceline_trainer_run_rollouts(NULL, NULL, 1, 1, 0), "t");
  OK(paceline_trainer_run(NULL, t, 1, 0));
  NIL(paceline_trainer_stop(NULL), "t");
  NIL(paceline_trainer_stats(NULL, t), "out");
  NIL(paceline_trainer_stats(&st, NULL), "t");
  NIL(paceline_trainer_notice(NULL, t), "out");
  NIL(paceline_trainer_notice(&text, NULL), "t");
  NIL(paceline_trainer_proposal(NULL, t), "out");
  NIL(paceline_trainer_proposal(&text, NULL), "t");
  NIL(paceline_trainer_settle(NULL, 0), "t");
  NIL(paceline_trainer_metric(NULL, t, 0), "out");
  NIL(paceline_trainer_metric(&m, NULL, 0), "t");
  NIL(paceline_trainer_metric_index(NULL, t, "train/loss"), "out");
  NIL(paceline_trainer_metric_index(&index, NULL, "train/loss"), "t");
  NIL(paceline_trainer_metric_index(&index, t, NULL), "name");
  NIL(paceline_trainer_config(NULL, t), "out");
  NIL(paceline_trainer_config(&c, NULL), "t");
  NIL(paceline_trainer_spec(NULL, &s, t), "obs");
  NIL(paceline_trainer_spec(&s, NULL, t), "action");
  NIL(paceline_trainer_spec(&s, &s, NULL), "t");
  NIL(paceline_trainer_describe(NULL, t), "out");
  NIL(paceline_trainer_describe(&text, NULL), "t");
  NIL(paceline_trainer_parameter(NULL, t, "q_net", 0), "out");
  NIL(paceline_trainer_parameter(&par, NULL, "q_net", 0), "t");
  NIL(paceline_trainer_parameter(&par, t, NULL, 0), "set");
  NIL(paceline_trainer_get_parameters(NULL, 4, NULL, t, "q_net"), "out");
  NIL(paceline_trainer_get_parameters(obs, 4, NULL, NULL, "q_net"), "t");
  NIL(paceline_trainer_get_parameters(obs, 4, NULL, t, NULL), "set");
  NIL(paceline_trainer_set_parameters(NULL, "q_net", obs, 4), "t");
  NIL(paceline_trainer_set_parameters(t, NULL, obs, 4), "set");
  NIL(paceline_trainer_set_parameters(t, "q_net", NULL, 4), "in");
  NIL(paceline_trainer_hash(NULL, t, "replay"), "out");
  NIL(paceline_trainer_hash(&text, NULL, "replay"), "t");
  NIL(paceline_trainer_hash(&text, t, NULL), "part");
  NIL(paceline_trainer_save(NULL, "x", 0), "t");
  NIL(paceline_trainer_save(t, NULL, 0), "path");
  NIL(paceline_trainer_load(NULL, "x"), "t");
  NIL(paceline_trainer_load(t, NULL), "path");
  NIL(paceline_trainer_save_order(NULL, "x"), "t");
  NIL(paceline_trainer_save_order(t, NULL), "path");
  NIL(paceline_trainer_save_trace(NULL, "x"), "t");
  NIL(paceline_trainer_save_trace(t, NULL), "path");
  NIL(paceline_trainer_load_experience(NULL, "x"), "t");
  NIL(paceline_trainer_load_experience(t, NULL), "path");
  const paceline_rows none = {.struct_size = sizeof none};
  double returns;
  int64_t lengths;
  size_t episodes = 1;
  paceline_transitions none_of = {.struct_size = sizeof none_of};
  int64_t number = 0;
  NIL(paceline_trainer_read_transitions(NULL, t, &number), "to");
  NIL(paceline_trainer_read_transitions(&none_of, NULL, &number), "t");
  NIL(paceline_trainer_read_transitions(&none_of, t, NULL), "numbers");
  FAILS(paceline_trainer_read_transitions(&none_of, t, &number), PACELINE_EINVAL, "transitions.obs: NULL");
  NIL(paceline_trainer_add_transitions(NULL, &none_of), "t");
  NIL(paceline_trainer_add_transitions(t, NULL), "rows");
  FAILS(paceline_trainer_add_transitions(t, &none_of), PACELINE_EINVAL, "transitions.obs: NULL");
  NIL(paceline_trainer_rows(NULL, &action, t), "rows");
  NIL(paceline_trainer_rows(&none, &action, NULL), "t");
  FAILS(paceline_trainer_rows(&none, &action, t), PACELINE_EINVAL, "rows.num_rows: 0");
  NIL(paceline_trainer_episodes(NULL, &lengths, &episodes, t), "returns");
  NIL(paceline_trainer_episodes(&returns, NULL, &episodes, t), "lengths");
  NIL(paceline_trainer_episodes(&returns, &lengths, NULL, t), "n");
  NIL(paceline_trainer_episodes(&returns, &lengths, &episodes, NULL), "t");
  OK(paceline_trainer_episodes(&returns, &lengths, &episodes, t));
  CHECK(episodes == 0);
  NIL(paceline_trainer_act(NULL, &none, &action, 0), "t");
  NIL(paceline_trainer_act(t, NULL, &action, 0), "rows");
  NIL(paceline_trainer_act(t, &none, NULL, 0), "actions");
  NIL(paceline_trainer_observe(NULL, &none, 0), "t");
  NIL(paceline_trainer_observe(t, NULL, 0), "rows");

  NIL(paceline_policy_load(NULL, "x"), "out");
  NIL(paceline_policy_load(&p, NULL), "path");
  NIL(paceline_policy_from_trainer(NULL, t), "out");
  NIL(paceline_policy_from_trainer(&p, NULL), "t");
  OK(paceline_policy_from_trainer(&p, t));
  NIL(paceline_policy_spec(NULL, &s, p), "obs");
  NIL(paceline_policy_spec(&s, NULL, p), "action");
  NIL(paceline_policy_spec(&s, &s, NULL), "p");
  NIL(paceline_policy_describe(NULL, p), "out");
  NIL(paceline_policy_describe(&text, NULL), "p");
  NIL(paceline_policy_from_bytes(NULL, obs, 16), "out");
  NIL(paceline_policy_from_bytes(&q, NULL, 16), "bytes");
  NIL(paceline_policy_to_bytes(NULL, NULL, p), "size");
  NIL(paceline_policy_to_bytes(NULL, &par.size, NULL), "p");
  NIL(paceline_policy_act(NULL, 1, obs, NULL, &action, NULL), "p");
  NIL(paceline_policy_act(p, 1, NULL, NULL, &action, NULL), "obs");
  NIL(paceline_policy_act(p, 1, obs, NULL, NULL, NULL), "actions");
  NIL(paceline_policy_evaluate(NULL, p, "CartPole-v1", NULL, EPISODES(1, 0, 0)), "out");
  NIL(paceline_policy_evaluate(&e, NULL, "CartPole-v1", NULL, EPISODES(1, 0, 0)), "p");
  NIL(paceline_policy_stop(NULL), "p");
  NIL(paceline_policy_evaluate(&e, p, NULL, NULL, EPISODES(1, 0, 0)), "env");
  NIL(paceline_policy_save(NULL, "x"), "p");
  NIL(paceline_policy_save(p, NULL), "path");

  const paceline_vec_options options = vec_options(1, 0, 1, PACELINE_SAME_STEP, NULL);
  NIL(paceline_vec_new(NULL, "CartPole-v1", &options), "out");
  NIL(paceline_vec_new(&v, NULL, &options), "env");
  NIL(paceline_vec_new(&v, "CartPole-v1", NULL), "options");
  OK(paceline_vec_new(&v, "CartPole-v1", &options));
  arrays r = arrays_for(v, 1);
  const paceline_rows rows = *all_of(&r);
  size_t size;
  uint32_t height, width;
  NIL(paceline_vec_spec(NULL, &s, v), "obs");
  NIL(paceline_vec_spec(&s, NULL, v), "action");
  NIL(paceline_vec_spec(&s, &s, NULL), "v");
  NIL(paceline_vec_describe(NULL, v), "out");
  NIL(paceline_vec_describe(&text, NULL), "v");
  NIL(paceline_vec_reset(NULL, NULL, NULL, &rows), "v");
  NIL(paceline_vec_reset(v, NULL, NULL, NULL), "rows");
  NIL(paceline_vec_step(NULL, r.actions, &rows), "v");
  NIL(paceline_vec_step(v, NULL, &rows), "actions");
  NIL(paceline_vec_step(v, r.actions, NULL), "rows");
  NIL(paceline_vec_offer(NULL, &rows), "v");
  NIL(paceline_vec_offer(v, NULL), "rows");
  NIL(paceline_vec_send(NULL, rows.env_ids, 1, r.actions), "v");
  NIL(paceline_vec_send(v, NULL, 1, r.actions), "env_ids");
  NIL(paceline_vec_send(v, rows.env_ids, 1, NULL), "actions");
  OK(paceline_vec_send(v, NULL, 0, NULL));
  NIL(paceline_vec_send_reset(NULL, rows.env_ids, 1, NULL), "v");
  NIL(paceline_vec_send_reset(v, NULL, 1, NULL), "env_ids");
  NIL(paceline_vec_send_new_game(NULL, rows.env_ids, 1), "v");
  NIL(paceline_vec_send_new_game(v, NULL, 1), "env_ids");
  NIL(paceline_vec_recv(NULL, 0), "v");
  NIL(paceline_vec_under_way(NULL, v), "out");
  NIL(paceline_vec_under_way(&size, NULL), "v");
  NIL(paceline_vec_drain(NULL), "v");
  NIL(paceline_vec_save(NULL, NULL, v, 0), "size");
  NIL(paceline_vec_save(NULL, &size, NULL, 0), "v");
  NIL(paceline_vec_restore(NULL, 0, r.actions, 4), "v");
  NIL(paceline_vec_restore(v, 0, NULL, 4), "state");
  NIL(paceline_vec_render(NULL, NULL, &height, &width, v, 0), "size");
  NIL(paceline_vec_render(NULL, &size, NULL, &width, v, 0), "height");
  NIL(paceline_vec_render(NULL, &size, &height, NULL, v, 0), "width");
  NIL(paceline_vec_render(NULL, &size, &height, &width, NULL, 0), "v");
  NIL(paceline_env_load(NULL, "x"), "out");
  NIL(paceline_env_load(&text, NULL), "path");
  NIL(paceline_env_names(NULL), "out");
  NIL(paceline_devices(NULL), "out");
  NIL(paceline_bench(NULL, "update", NULL), "out");
  NIL(paceline_bench(&text, NULL, NULL), "name");

  paceline_gradient gradient = {.struct_size = sizeof gradient};
  NIL(paceline_trainer_gradient(NULL, 4, &gradient, t, 0), "out");
  NIL(paceline_trainer_gradient(obs, 4, NULL, t, 0), "info");
  NIL(paceline_trainer_gradient(obs, 4, &gradient, NULL, 0), "t");
  NIL(paceline_trainer_adopt(NULL, obs, 4, 0, 0), "t");
  NIL(paceline_trainer_adopt(t, NULL, 4, 0, 0), "in");
  paceline_steps steps = {.struct_size = sizeof steps, .num_steps = 1};
  paceline_minibatch batch = {.struct_size = sizeof batch, .num_rows = 1};
  NIL(paceline_trainer_add_steps(NULL, 0, &steps), "t");
  NIL(paceline_trainer_add_steps(t, 0, NULL), "steps");
  FAILS(paceline_trainer_add_steps(t, 0, &steps), PACELINE_EINVAL, "steps.obs: NULL");
  NIL(paceline_trainer_draw(NULL, t, 0), "to");
  NIL(paceline_trainer_draw(&batch, NULL, 0), "t");
  FAILS(paceline_trainer_draw(&batch, t, 0), PACELINE_EINVAL, "minibatch.identities: NULL");
  NIL(paceline_trainer_set_errors(NULL, &number, obs, 1), "t");
  NIL(paceline_trainer_set_errors(t, NULL, obs, 1), "identities");
  NIL(paceline_trainer_set_errors(t, &number, NULL, 1), "errors");
  NIL(paceline_trainer_gradient_of(NULL, 4, &gradient, t, &batch), "out");
  NIL(paceline_trainer_gradient_of(obs, 4, NULL, t, &batch), "info");
  NIL(paceline_trainer_gradient_of(obs, 4, &gradient, NULL, &batch), "t");
  NIL(paceline_trainer_gradient_of(obs, 4, &gradient, t, NULL), "batch");
  paceline_store_options range = {.struct_size = sizeof range, .optimizer = "adam"};
  paceline_store *store;
  paceline_push push = {.struct_size = sizeof push, .step = 1};
  paceline_answer answer = {.struct_size = sizeof answer};
  NIL(paceline_store_new(NULL, obs, 4, &range), "out");
  NIL(paceline_store_new(&store, NULL, 4, &range), "parameters");
  NIL(paceline_store_new(&store, obs, 4, NULL), "options");
  OK(paceline_store_new(&store, obs, 4, &range));
  NIL(paceline_store_push(NULL, store, obs, 4, &push), "out");
  NIL(paceline_store_push(&answer, NULL, obs, 4, &push), "s");
  NIL(paceline_store_push(&answer, store, NULL, 4, &push), "grad");
  NIL(paceline_store_push(&answer, store, obs, 4, NULL), "push");
  NIL(paceline_store_pull(NULL, 4, NULL, store), "out");
  NIL(paceline_store_pull(obs, 4, NULL, NULL), "s");
  OK(paceline_store_pull(obs, 4, NULL, store));
  NIL(paceline_store_describe(NULL, store), "out");
  NIL(paceline_store_describe(&text, NULL), "s");
  NIL(paceline_store_save(NULL, "x"), "s");
  NIL(paceline_store_save(store, NULL), "path");
  NIL(paceline_store_load(NULL, "x"), "out");
  NIL(paceline_store_load(&store, NULL), "path");
  NIL(paceline_store_to_bytes(NULL, NULL, store), "size");
  NIL(paceline_store_to_bytes(NULL, &size, NULL), "s");
  NIL(paceline_store_from_bytes(NULL, obs, 4), "out");
  NIL(paceline_store_from_bytes(&store, NULL, 4), "bytes");
  paceline_store_free(store);

  /* The environment table: each function, the pair of save and restore, unknown flags. The family
   * is released exactly once every time. */
  for (int i = 0; i < 11; i++) {
    family f = counters(SOUND, 0);
    paceline_env_table table = counter_table(1);
    const char *says[] = {"out: NULL",
                          "cfg: NULL",
                          "table: NULL",
                          "table.spec: NULL",
                          "table.create: NULL",
                          "table.reset: NULL",
                          "table.step: NULL",
                          "table.destroy: NULL",
                          "must be both or none",
                          "must be both or none",
                          "table.flags: 2, must be 0 or PACELINE_ENV_WAITS"};
    if (i == 3) table.spec = NULL;
    if (i == 4) table.create = NULL;
    if (i == 5) table.reset = NULL;
    if (i == 6) table.step = NULL;
    if (i == 7) table.destroy = NULL;
    if (i == 8) table.save = NULL;
    if (i == 9) table.restore = NULL;
    if (i == 10) table.flags = 2;
    FAILS(paceline_trainer_new_table(i == 0 ? NULL : &made, i == 1 ? NULL : cfg, i == 2 ? NULL : &table, &f,
                                     counter_release),
          PACELINE_EINVAL, says[i]);
    CHECK(f.released == 1 && f.made == 0);
  }

  /* These accept NULL. */
  paceline_string_free(NULL);
  paceline_config_free(NULL);
  paceline_trainer_free(NULL);
  paceline_policy_free(NULL);
  paceline_vec_free(NULL);
  paceline_set_callback_error(NULL);

  /* A wild pointer is not a handle. */
  c = (paceline_config *)&c, made = (paceline_trainer *)&c, q = (paceline_policy *)-1, w = (paceline_vec *)8;
  FAILS(paceline_config_set(c, "env", ""), PACELINE_EHANDLE, "not a handle");
  FAILS(paceline_trainer_settle(made, 0), PACELINE_EHANDLE, "not a handle");
  FAILS(paceline_policy_save(q, "x"), PACELINE_EHANDLE, "not a handle");
  FAILS(paceline_vec_step(w, r.actions, &rows), PACELINE_EHANDLE, "not a handle");
  paceline_config_free(c);
  paceline_trainer_free(made);
  paceline_policy_free(q);
  paceline_vec_free(w);

  paceline_vec_free(v);
  arrays_free(&r);
  paceline_policy_free(p);
  paceline_trainer_free(t);
  paceline_config_free(cfg);
  return 0;
}
