/* In a child of fork() every call answers at once, and the parent goes on. */
#include "counter.h"
#include "rows.h"

#define FORKED(call) STATUS(call, PACELINE_EFORKED)

static paceline_trainer *t, *push;

static int child(paceline_config *cfg, paceline_policy *p, paceline_vec *v) {
  paceline_config *c;
  paceline_trainer *u;
  paceline_policy *q;
  paceline_vec *w;
  char *text;
  paceline_stats s = {.struct_size = sizeof s};
  paceline_spec spec = {.struct_size = sizeof spec};
  paceline_parameter par = {.struct_size = sizeof par};
  paceline_metric m = {.struct_size = sizeof m};
  const char *name;
  paceline_option o = {.struct_size = sizeof o};
  paceline_evaluation e = {.struct_size = sizeof e};
  float x[4] = {0};
  int32_t a;
  size_t index;
  alarm(5); /* a hang is a failure */
  FORKED(paceline_methods(&text));
  FORKED(paceline_config_new(&c, "dqn"));
  CHECK(strstr(paceline_last_error(), "fork") != NULL && paceline_last_error_index() == -1);
  FORKED(paceline_config_set(cfg, "seed", "1"));
  FORKED(paceline_config_get(&text, cfg, "seed"));
  FORKED(paceline_config_preset(cfg, "tuned", "CartPole-v1"));
  FORKED(paceline_config_load(&c, "x"));
  FORKED(paceline_config_method(&name, cfg));
  FORKED(paceline_config_presets(&text, cfg));
  FORKED(paceline_config_describe(&o, cfg, 0));
  FORKED(paceline_trainer_new(&u, cfg));
  FORKED(paceline_trainer_new_push(&u, cfg, &spec, &spec));
  FORKED(paceline_trainer_begin(t, 1, 0));
  FORKED(paceline_trainer_run(&s, t, 1, 0));
  FORKED(paceline_trainer_stop(t));
  FORKED(paceline_trainer_stats(&s, t));
  FORKED(paceline_trainer_notice(&text, t));
  FORKED(paceline_trainer_proposal(&text, t));
  FORKED(paceline_trainer_settle(t, 0));
  FORKED(paceline_trainer_config(&c, t));
  FORKED(paceline_trainer_spec(&spec, &spec, t));
  FORKED(paceline_trainer_describe(&text, t));
  FORKED(paceline_trainer_metric(&m, t, 0));
  FORKED(paceline_trainer_metric_index(&index, t, "train/loss"));
  FORKED(paceline_trainer_parameter(&par, t, "q_net", 0));
  FORKED(paceline_trainer_get_parameters(x, 4, NULL, t, "q_net"));
  FORKED(paceline_trainer_set_parameters(t, "q_net", x, 4));
  FORKED(paceline_trainer_hash(&text, t, "replay"));
  FORKED(paceline_trainer_save(t, "x", 0));
  FORKED(paceline_trainer_load(t, "x"));
  paceline_rows rows = {.struct_size = sizeof rows, .num_rows = 2, .obs = x};
  size_t size = 0;
  FORKED(paceline_trainer_act(push, &rows, &a, 0));
  FORKED(paceline_trainer_observe(push, &rows, 0));
  paceline_transitions transitions = {.struct_size = sizeof transitions};
  FORKED(paceline_trainer_read_transitions(&transitions, t, &(int64_t){0}));
  FORKED(paceline_trainer_add_transitions(t, &transitions));
  FORKED(paceline_policy_load(&q, "x"));
  FORKED(paceline_policy_from_trainer(&q, t));
  FORKED(paceline_policy_spec(&spec, &spec, p));
  FORKED(paceline_policy_act(p, 1, x, NULL, &a, NULL));
  FORKED(paceline_policy_stop(p));
  FORKED(paceline_policy_evaluate(&e, p, "CartPole-v1", NULL, EPISODES(1, 0, 0)));
  FORKED(paceline_policy_save(p, "x"));
  FORKED(paceline_policy_describe(&text, p));
  FORKED(paceline_policy_to_bytes(NULL, &size, p));
  FORKED(paceline_policy_from_bytes(&q, x, 4));
  const paceline_vec_options options = vec_options(1, 0, 1, 0, NULL);
  uint32_t height, width;
  FORKED(paceline_vec_new(&w, "CartPole-v1", &options));
  FORKED(paceline_vec_spec(&spec, &spec, v));
  FORKED(paceline_vec_describe(&text, v));
  FORKED(paceline_vec_reset(v, NULL, NULL, &rows));
  FORKED(paceline_vec_step(v, &a, &rows));
  FORKED(paceline_vec_offer(v, &rows));
  FORKED(paceline_vec_send(v, &a, 1, &a));
  FORKED(paceline_vec_send_reset(v, &a, 1, NULL));
  FORKED(paceline_vec_send_new_game(v, &a, 1));
  FORKED(paceline_vec_recv(v, 0));
  FORKED(paceline_vec_under_way(&size, v));
  FORKED(paceline_vec_drain(v));
  FORKED(paceline_vec_save(NULL, &size, v, 0));
  FORKED(paceline_vec_restore(v, 0, x, 4));
  FORKED(paceline_vec_render(NULL, &size, &height, &width, v, 0));
  FORKED(paceline_env_load(&text, "x"));
  FORKED(paceline_env_names(&text));
  FORKED(paceline_devices(&text));
  FORKED(paceline_bench(&text, "update", NULL));
  FORKED(paceline_trainer_run(NULL, NULL, 1, 0)); /* the check for fork comes first */

  /* The family is released all the same. */
  family f = counters(SOUND, 0);
  paceline_env_table table = counter_table(1);
  FORKED(paceline_trainer_new_table(&u, cfg, &table, &f, counter_release));
  CHECK(f.released == 1);

  /* Functions that need no threads still answer; frees do nothing. */
  CHECK(strcmp(paceline_version(), PACELINE_VERSION) == 0 && paceline_build_info() != NULL);
  paceline_trainer_free(t);
  paceline_trainer_free(push);
  paceline_policy_free(p);
  paceline_vec_free(v);
  paceline_config_free(cfg);
  paceline_string_free(NULL);
  return 0;
}

static void *run(void *trainer) {
  paceline_trainer_run(NULL, trainer, 0, 0);
  return NULL;
}

int main(void) {
  const char *const settings[] = {QUICK, "env", "CartPole-v1", NULL};
  paceline_config *cfg = config(settings);
  paceline_policy *p;
  paceline_vec *v;
  OK(paceline_trainer_new(&t, cfg));
  OK(paceline_policy_from_trainer(&p, t));
  v = vec_of("CartPole-v1", 2, 0, 2, 0, NULL);
  arrays r = arrays_for(v, 2);
  family f = counters(SOUND, 0);
  OK(paceline_trainer_new_push(&push, cfg, &f.obs, &f.action));

  /* fork() while Go runs on every thread. */
  OK(paceline_trainer_begin(t, 1000000000, 0));
  pthread_t runner;
  pthread_create(&runner, NULL, run, t);
  for (int i = 0; i < 20; i++) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      int code = child(cfg, p, v);
      if (i % 2 == 0) exit(code); /* with exit handlers, or without */
      _exit(code);
    }
    int status;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  int64_t steps = stats_of(t).num_timesteps;
  struct timespec pause = {0, 100000000};
  nanosleep(&pause, NULL);
  CHECK(stats_of(t).num_timesteps > steps); /* the parent goes on */
  OK(paceline_trainer_stop(t));
  pthread_join(runner, NULL);
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  arrays_free(&r);
  paceline_trainer_free(push);
  paceline_trainer_free(t);
  paceline_policy_free(p);
  paceline_vec_free(v);
  paceline_config_free(cfg);
  return 0;
}
