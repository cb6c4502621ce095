/* In a child of fork() every call answers at once, and the parent goes on. */
#include "counter.h"
#include "rows.h"

#define FORKED(call) STATUS(call, PACELINE_EFORKED)

static paceline_trainer *t, *push;
static paceline_buffers b = {.struct_size = sizeof b};

static int child(paceline_config *cfg, paceline_policy *p, paceline_vec *v) {
  paceline_config *c;
  paceline_trainer *u;
  paceline_policy *q;
  paceline_vec *w;
  char *text;
  paceline_stats s = {.struct_size = sizeof s};
  paceline_spec spec = {.struct_size = sizeof spec};
  paceline_parameter par = {.struct_size = sizeof par};
  paceline_hashes h = {.struct_size = sizeof h};
  paceline_option o = {.struct_size = sizeof o};
  paceline_evaluation e = {.struct_size = sizeof e};
  float x[4] = {0};
  int32_t a;
  alarm(5); /* a hang is a failure */
  FORKED(paceline_config_new(&c));
  CHECK(strstr(paceline_last_error(), "fork") != NULL);
  FORKED(paceline_config_set(cfg, "seed", "1"));
  FORKED(paceline_config_get(&text, cfg, "seed"));
  FORKED(paceline_config_preset(cfg, "tuned", "CartPole-v1"));
  FORKED(paceline_config_load(cfg, "x"));
  FORKED(paceline_config_describe(&o, 0));
  FORKED(paceline_trainer_new(&u, cfg));
  FORKED(paceline_trainer_new_push(&u, cfg, &spec, &spec));
  FORKED(paceline_trainer_begin(t, 1, 0));
  FORKED(paceline_trainer_run(t, 1, 0, &s));
  FORKED(paceline_trainer_stop(t));
  FORKED(paceline_trainer_stats(&s, t));
  FORKED(paceline_trainer_notice(&text, t));
  FORKED(paceline_trainer_settle(t));
  FORKED(paceline_trainer_parameter(&par, t, 0));
  FORKED(paceline_trainer_get_parameters(t, x, 4));
  FORKED(paceline_trainer_set_parameters(t, x, 4));
  FORKED(paceline_trainer_hash(&h, t));
  FORKED(paceline_trainer_save(t, "x", 0));
  FORKED(paceline_trainer_load(t, "x"));
  FORKED(paceline_trainer_buffers(&b, push));
  FORKED(paceline_trainer_act(push));
  FORKED(paceline_trainer_observe(push, NULL));
  FORKED(paceline_policy_load(&q, "x"));
  FORKED(paceline_policy_from_trainer(&q, t));
  FORKED(paceline_policy_spec(&spec, &spec, p));
  FORKED(paceline_policy_act(p, 1, x, NULL, NULL, &a, NULL));
  FORKED(paceline_policy_evaluate(&e, p, "CartPole-v1", NULL, 1, 0, 0));
  FORKED(paceline_policy_save(p, "x"));
  const paceline_vec_options options = vec_options(1, 0, 1, 0, NULL);
  paceline_rows rows = {.struct_size = sizeof rows, .num_rows = 2, .obs = x};
  size_t size = 0;
  uint32_t height, width;
  FORKED(paceline_vec_new(&w, "CartPole-v1", &options));
  FORKED(paceline_vec_spec(&spec, &spec, v));
  FORKED(paceline_vec_describe(&text, v));
  FORKED(paceline_vec_reset(v, NULL, NULL, &rows));
  FORKED(paceline_vec_step(v, &a, &rows));
  FORKED(paceline_vec_offer(v, &rows));
  FORKED(paceline_vec_send(v, &a, 1, &a));
  FORKED(paceline_vec_send_reset(v, &a, 1, NULL));
  FORKED(paceline_vec_recv(v, 0));
  FORKED(paceline_vec_drain(v));
  FORKED(paceline_vec_save(NULL, &size, v, 0));
  FORKED(paceline_vec_restore(v, 0, x, 4));
  FORKED(paceline_vec_render(NULL, &size, &height, &width, v, 0));
  FORKED(paceline_env_load(&text, "x"));
  FORKED(paceline_env_names(&text));
  FORKED(paceline_bench(&text, "update", NULL));
  FORKED(paceline_trainer_run(NULL, 1, 0, NULL)); /* fork comes before everything else */

  /* The family is released, even so. */
  family f = counters(SOUND, 0);
  paceline_env_table table = counter_table(1);
  FORKED(paceline_trainer_new_table(&u, cfg, &table, &f, counter_release));
  CHECK(f.released == 1);

  /* What needs no threads still answers; frees are silent. */
  CHECK(strcmp(paceline_version(), PACELINE_VERSION) == 0 && paceline_build_info() != NULL);
  CHECK(paceline_policy_state_bytes(p) == 0);
  CHECK(((float *)b.obs)[0] == 7); /* shared rows are the child's to read */
  ((float *)b.obs)[0] = 8;
  paceline_trainer_free(t);
  paceline_trainer_free(push);
  paceline_policy_free(p);
  paceline_vec_free(v);
  paceline_config_free(cfg);
  paceline_buffers_release(b.id);
  paceline_string_free(NULL);
  return 0;
}

static void *run(void *trainer) {
  paceline_trainer_run(trainer, 0, 0, NULL);
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
  room r = room_for(v, 2);
  family f = counters(SOUND, 0);
  OK(paceline_trainer_new_push(&push, cfg, &f.obs, &f.action));
  OK(paceline_trainer_buffers(&b, push));
  ((float *)b.obs)[0] = 7;

  /* Forked while Go is at work on every thread. */
  OK(paceline_trainer_begin(t, 1000000000, 0));
  pthread_t runner;
  pthread_create(&runner, NULL, run, t);
  for (int i = 0; i < 20; i++) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      int code = child(cfg, p, v);
      if (i % 2 == 0) exit(code); /* with exit handlers, and without */
      _exit(code);
    }
    int status;
    double began = now();
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(now() - began < 3);
  }
  CHECK(((float *)b.obs)[0] == 7); /* a child's writing stays in the child */
  int64_t steps = stats_of(t).num_timesteps;
  struct timespec pause = {0, 100000000};
  nanosleep(&pause, NULL);
  CHECK(stats_of(t).num_timesteps > steps); /* the parent goes on */
  OK(paceline_trainer_stop(t));
  pthread_join(runner, NULL);
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  room_free(&r);
  paceline_buffers_release(b.id);
  paceline_trainer_free(push);
  paceline_trainer_free(t);
  paceline_policy_free(p);
  paceline_vec_free(v);
  paceline_config_free(cfg);
  return 0;
}
