/* Reads transitions from the replay memory and adds transitions to it. */
#include "counter.h"

enum { N = 6 };

typedef struct arrays {
  float obs[N][1], next[N][1], rewards[N];
  int32_t actions[N];
  uint8_t terminated[N];
} arrays;

static paceline_transitions rows_of(arrays *r, uint32_t n) {
  return (paceline_transitions){.struct_size = sizeof(paceline_transitions),
                                .num_rows = n,
                                .obs = r->obs,
                                .next_obs = r->next,
                                .actions = r->actions,
                                .rewards = r->rewards,
                                .terminated = r->terminated};
}

int main(void) {
  family f = counters(SOUND, 0);
  paceline_env_table table = counter_table(1);
  const char *const settings[] = {QUICK, "num_envs", "2", NULL};
  paceline_config *cfg = config(settings);
  paceline_trainer *t;
  OK(paceline_trainer_new_table(&t, cfg, &table, &f, counter_release));

  arrays demonstrated = {0}, read = {0};
  for (int i = 0; i < N; i++) {
    demonstrated.obs[i][0] = (float)i, demonstrated.next[i][0] = (float)i + 1;
    demonstrated.actions[i] = i % 2, demonstrated.rewards[i] = 0.5f * (float)i, demonstrated.terminated[i] = i >= 4;
  }
  paceline_transitions in = rows_of(&demonstrated, N), out = rows_of(&read, N);
  OK(paceline_trainer_add_transitions(t, &in));
  CHECK(metric_of(t, "replay_size") == N);
  /* Ordered by environment: rows 0, 2 and 4 belong to the first one. */
  static const int64_t numbers[N] = {0, 3, 1, 4, 2, 5};
  OK(paceline_trainer_read_transitions(&out, t, numbers));
  for (int i = 0; i < N; i++) {
    CHECK(read.obs[i][0] == (float)i && read.actions[i] == i % 2 && read.rewards[i] == 0.5f * (float)i);
    CHECK(read.terminated[i] == (i >= 4) && read.next[i][0] == (i >= 4 ? 0 : (float)i + 1));
  }
  hashes before = hashes_of(t);
  FAILS(paceline_trainer_read_transitions(&out, t, (int64_t[N]){0, 1, 2, 3, 4, N}), PACELINE_EINVAL,
        "numbers[5]: 6, must be 0 to 5");
  demonstrated.actions[3] = 7;
  FAILS(paceline_trainer_add_transitions(t, &in), PACELINE_EINVAL, "row 3: action: 7");
  CHECK(paceline_last_error_index() == 3);
  CHECK(same(before, hashes_of(t)));
  demonstrated.actions[3] = 1;

  /* During a run: adding twice gives the same bits, and reading changes none. */
  hashes twice[2];
  for (int i = 0; i < 2; i++) {
    paceline_trainer *u;
    family own = counters(SOUND, 0);
    OK(paceline_trainer_new_table(&u, cfg, &table, &own, counter_release));
    OK(paceline_trainer_begin(u, 1000, 0));
    OK(paceline_trainer_run(NULL, u, 450, 0));
    OK(paceline_trainer_add_transitions(u, &in));
    if (i == 1) OK(paceline_trainer_read_transitions(&out, u, numbers));
    OK(paceline_trainer_run(NULL, u, 550, 0));
    twice[i] = hashes_of(u);
    paceline_trainer_free(u);
  }
  CHECK(same(twice[0], twice[1]));

  /* Learners: the transitions of the first learner come first, and so they are ordered by environment. */
  family two = counters(SOUND, 0);
  paceline_trainer *l;
  OK(paceline_config_set(cfg, "learners", "2"));
  OK(paceline_trainer_new_table(&l, cfg, &table, &two, counter_release));
  OK(paceline_trainer_add_transitions(l, &in));
  CHECK(metric_of(l, "replay_size") == N);
  OK(paceline_trainer_read_transitions(&out, l, numbers));
  for (int i = 0; i < N; i++) CHECK(read.obs[i][0] == (float)i && read.terminated[i] == (i >= 4));
  FAILS(paceline_trainer_read_transitions(&out, l, (int64_t[N]){0, 1, 2, 3, 4, N}), PACELINE_EINVAL,
        "numbers[5]: 6, must be 0 to 5");
  OK(paceline_trainer_begin(l, 1000, 0));
  OK(paceline_trainer_run(NULL, l, 0, 0));
  CHECK(stats_of(l).updates > 0);
  OK(paceline_trainer_read_transitions(&out, l, numbers));
  paceline_trainer_free(l);

  paceline_config *on_policy;
  paceline_trainer *a2c;
  OK(paceline_config_new(&on_policy, "a2c"));
  OK(paceline_config_set(on_policy, "env", "CartPole-v1"));
  OK(paceline_trainer_new(&a2c, on_policy));
  float four[N][4] = {{0}};
  out.obs = in.obs = out.next_obs = in.next_obs = four;
  FAILS(paceline_trainer_read_transitions(&out, a2c, numbers), PACELINE_EINVAL, "a2c is an on-policy method");
  paceline_trainer_free(a2c);
  paceline_config_free(on_policy);
  paceline_trainer_free(t);
  paceline_config_free(cfg);
  return 0;
}
