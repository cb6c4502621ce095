/* Action masks of a table, of pushed rows, of a policy, and of an environment in a file of its own
 * (the argument). */
#include "rows.h"

enum { ROWS = 4, ACTIONS = 3 };

/* An environment with masks, whose episodes terminate or are truncated. */
typedef struct gate {
  uint32_t index;
  uint64_t random;
  int32_t n, length, life;
} gate;

static uint64_t seeds[ROWS];
static int none_at;    /* step in environment 2's life at which no action is allowed; 0: none */
static int mask_fails; /* the mask function fails at that step */

static int gate_spec(void *user, paceline_spec *obs, paceline_spec *action) {
  (void)user;
  obs->kind = PACELINE_BOX, obs->dtype = PACELINE_FLOAT32, obs->ndim = 1, obs->shape[0] = 2;
  action->kind = PACELINE_DISCRETE, action->dtype = PACELINE_INT32, action->n = ACTIONS;
  return 0;
}

static gate gate_of(uint32_t index, uint64_t seed) { return (gate){.index = index, .random = seed}; }

static int gate_create(void *user, uint32_t index, uint64_t seed, void **env) {
  (void)user;
  seeds[index] = seed;
  *env = malloc(sizeof(gate));
  *(gate *)*env = gate_of(index, seed);
  return 0;
}

static void show(gate *g, float *obs) {
  g->random = g->random * 6364136223846793005u + 1442695040888963407u;
  obs[0] = (float)g->n / 12, obs[1] = (float)(g->random >> 40) / (1 << 24);
}

static int gate_reset(void *env, void *obs) {
  gate *g = env;
  g->n = 0, g->life++;
  show(g, obs);
  g->length = 5 + (int)(g->random >> 33) % 7;
  return 0;
}

static int gate_mask(void *env, uint8_t *mask) {
  gate *g = env;
  CHECK(g->n < g->length || g->n % 2 == 0); /* not after a termination */
  for (int a = 0; a < ACTIONS; a++) mask[a] = (g->random >> (50 + a) & 1) != 0;
  mask[g->n % ACTIONS] = 1;
  if (none_at == 0 || g->index != 2 || g->life != none_at) return 0;
  if (mask_fails) return paceline_set_callback_error("the gate is stuck"), 1;
  memset(mask, 0, ACTIONS);
  return 0;
}

static int gate_step(void *env, const void *action, void *obs, float *reward, uint8_t *end) {
  gate *g = env;
  int32_t a = *(const int32_t *)action;
  CHECK(a >= 0 && a < ACTIONS && ((g->random >> (50 + a) & 1) != 0 || a == g->n % ACTIONS));
  g->n++, g->life++;
  show(g, obs);
  *reward = (float)(a == g->n % 2);
  *end = g->n < g->length ? 0 : g->n % 2 ? PACELINE_TERMINATED : PACELINE_TRUNCATED;
  return 0;
}

static paceline_config *settings_of(const char *masks) {
  const char *const settings[] = {QUICK, "double_q", "true", "action_masks", masks, "train_freq", "4", NULL};
  return config(settings);
}

static paceline_env_table gates(void) {
  return (paceline_env_table){.struct_size = sizeof(paceline_env_table),
                              .spec = gate_spec,
                              .create = gate_create,
                              .reset = gate_reset,
                              .step = gate_step,
                              .destroy = free,
                              .mask = gate_mask};
}

static paceline_trainer *with_table(void) {
  paceline_config *cfg = settings_of("false"); /* the table has masks all the same */
  paceline_env_table table = gates();
  paceline_trainer *t;
  OK(paceline_trainer_new_table(&t, cfg, &table, NULL, NULL));
  paceline_config_free(cfg);
  char *value;
  OK(paceline_trainer_config(&cfg, t));
  OK(paceline_config_get(&value, cfg, "action_masks"));
  CHECK(strcmp(value, "true") == 0);
  paceline_string_free(value);
  paceline_config_free(cfg);
  return t;
}

/* The same environments, stepped by the caller. */
typedef struct host {
  gate gates[ROWS];
  float obs[ROWS * 2], final_obs[ROWS * 2];
  double rewards[ROWS];
  uint8_t terminated[ROWS], truncated[ROWS], masks[ROWS * ACTIONS], final_masks[ROWS * ACTIONS];
  int32_t actions[ROWS];
  paceline_rows rows;
} host;

static paceline_trainer *hosted(host *h, const char *masks) {
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
  gate_spec(NULL, &obs, &action);
  paceline_config *cfg = settings_of(masks);
  paceline_trainer *t;
  OK(paceline_trainer_new_push(&t, cfg, &obs, &action));
  paceline_config_free(cfg);
  memset(h, 0, sizeof *h);
  h->rows = (paceline_rows){.struct_size = sizeof h->rows,
                            .num_rows = ROWS,
                            .obs = h->obs,
                            .final_obs = h->final_obs,
                            .rewards = h->rewards,
                            .terminated = h->terminated,
                            .truncated = h->truncated,
                            .action_masks = h->masks,
                            .final_action_masks = h->final_masks};
  for (uint32_t i = 0; i < ROWS; i++) {
    h->gates[i] = gate_of(i, seeds[i]);
    gate_reset(&h->gates[i], h->obs + 2 * i);
    gate_mask(&h->gates[i], h->masks + ACTIONS * i);
  }
  return t;
}

static void step_all(host *h) {
  for (int i = 0; i < ROWS; i++) {
    float reward, *obs = h->obs + 2 * i;
    uint8_t ended, *mask = h->masks + ACTIONS * i;
    gate_step(&h->gates[i], h->actions + i, obs, &reward, &ended);
    h->rewards[i] = reward;
    h->terminated[i] = ended == PACELINE_TERMINATED, h->truncated[i] = ended == PACELINE_TRUNCATED;
    if (ended) {
      memcpy(h->final_obs + 2 * i, obs, 8);
      memset(h->final_masks + ACTIONS * i, 0, ACTIONS);
      if (!h->terminated[i]) gate_mask(&h->gates[i], h->final_masks + ACTIONS * i);
      gate_reset(&h->gates[i], obs);
    }
    gate_mask(&h->gates[i], mask);
  }
}

/* A row whose mask allows no action, and masks that are missing. */
static void refused(host *h, paceline_trainer *t, int observe) {
  uint8_t was[ACTIONS], *row = h->masks + ACTIONS * 3;
#define CALL(rows) (observe ? paceline_trainer_observe(t, rows, 0) : paceline_trainer_act(t, rows, h->actions, 0))
  memcpy(was, row, ACTIONS);
  memset(row, 0, ACTIONS);
  FAILS(CALL(&h->rows), PACELINE_EINVAL, "action mask: allows none of 3 actions, must allow one");
  CHECK(paceline_last_error_index() == 3);
  memcpy(row, was, ACTIONS);
  paceline_rows odd = h->rows;
  odd.action_masks = NULL;
  FAILS(CALL(&odd), PACELINE_EINVAL, "rows.action_masks: NULL, must point to 4 rows of 3 bytes");
  if (!observe) return;
  odd = h->rows;
  odd.final_action_masks = NULL;
  FAILS(CALL(&odd), PACELINE_EINVAL, "rows.final_action_masks: NULL, must point to 4 rows of 3 bytes");
  for (int i = 0; i < ROWS; i++) {
    if (!h->truncated[i]) continue;
    row = h->final_masks + ACTIONS * i;
    memcpy(was, row, ACTIONS);
    memset(row, 0, ACTIONS);
    FAILS(CALL(&h->rows), PACELINE_EINVAL, "final action mask: allows none");
    CHECK(paceline_last_error_index() == i);
    memcpy(row, was, ACTIONS);
  }
}

/* Table and pushed rows give the same bits. Refused calls change nothing. */
static void table_and_rows(void) {
  paceline_trainer *own = with_table();
  OK(paceline_trainer_run(NULL, own, 2000, 0));
  host h;
  paceline_trainer *t = hosted(&h, "true");
  OK(paceline_trainer_begin(t, 2000, 0));
  do {
    refused(&h, t, 0);
    OK(paceline_trainer_act(t, &h.rows, h.actions, 0));
    step_all(&h);
    refused(&h, t, 1);
    OK(paceline_trainer_observe(t, &h.rows, 0));
  } while (stats_of(t).num_timesteps < 2000);
  CHECK(same(hashes_of(own), hashes_of(t)));
  CHECK(stats_of(own).updates == stats_of(t).updates && stats_of(t).updates > 400);

  /* A trainer without masks refuses a checkpoint with masks. */
  const char *file = tmp("masks.paceline");
  OK(paceline_trainer_save(own, file, PACELINE_SAVE_EXPERIENCE));
  OK(paceline_trainer_load(t, file));
  CHECK(same(hashes_of(own), hashes_of(t)));
  host plain;
  paceline_trainer *u = hosted(&plain, "false");
  FAILS(paceline_trainer_load(u, file), PACELINE_EINVAL,
        "action_masks: the checkpoint has \"true\", this trainer has \"false\"");
  OK(paceline_trainer_begin(u, 100, 0));
  FAILS(paceline_trainer_act(u, &plain.rows, plain.actions, 0), PACELINE_EINVAL,
        "rows.action_masks: set, must be NULL");
  paceline_trainer_free(u);
  paceline_trainer_free(t);

  /* A policy obeys the caller's masks. */
  enum { N = 60 };
  paceline_policy *p;
  OK(paceline_policy_from_trainer(&p, own));
  float obs[N * 2];
  uint8_t masks[N * ACTIONS];
  int32_t actions[N], without[N];
  for (int i = 0; i < N * 2; i++) obs[i] = sinf((float)i);
  for (int i = 0; i < N * ACTIONS; i++) masks[i] = i % ACTIONS == i / ACTIONS % ACTIONS;
  paceline_act_options o = {.struct_size = sizeof o, .action_masks = masks};
  for (int k = 0; k < 2; k++) {
    OK(paceline_policy_act(p, N, obs, &o, actions, NULL));
    for (int i = 0; i < N; i++) CHECK(actions[i] == i % ACTIONS);
    o.epsilon = 1;
  }
  uint8_t unread[N] = {0};
  o.state = unread;
  FAILS(paceline_policy_act(p, N, obs, &o, actions, NULL), PACELINE_EINVAL, "o.state: set, must be NULL");
  o.state = NULL, o.episode_starts = unread;
  FAILS(paceline_policy_act(p, N, obs, &o, actions, NULL), PACELINE_EINVAL, "o.episode_starts: set, must be NULL");
  o.episode_starts = NULL;
  o.epsilon = 0;
  memset(masks, 1, sizeof masks);
  OK(paceline_policy_act(p, N, obs, &o, actions, NULL));
  OK(paceline_policy_act(p, N, obs, NULL, without, NULL));
  CHECK(memcmp(actions, without, sizeof actions) == 0);
  memset(masks + 7 * ACTIONS, 0, ACTIONS);
  FAILS(paceline_policy_act(p, N, obs, &o, actions, NULL), PACELINE_EINVAL, "action mask: allows none of 3 actions");
  CHECK(paceline_last_error_index() == 7);
  paceline_policy_free(p);
  paceline_trainer_free(own);
}

/* A mask function that fails, or allows no action, is a failure of its environment. The next run
 * goes on. */
static void failing(void) {
  for (mask_fails = 0; mask_fails < 2; mask_fails++) {
    paceline_trainer *t = with_table();
    none_at = 300;
    OK(paceline_trainer_begin(t, 4000, 0));
    if (mask_fails)
      FAILS(paceline_trainer_run(NULL, t, 0, 0), PACELINE_ECALLBACK, "environment 2: the gate is stuck");
    else
      FAILS(paceline_trainer_run(NULL, t, 0, 0), PACELINE_EINVAL,
            "environment 2: action mask: allows none of 3 actions");
    CHECK(paceline_last_error_index() == 2);
    OK(paceline_trainer_run(NULL, t, 0, 0));
    CHECK(stats_of(t).num_timesteps >= 4000);
    paceline_trainer_free(t);
    none_at = 0;
  }
  /* Methods that do not use masks refuse the table. */
  paceline_config *cfg;
  OK(paceline_config_new(&cfg, "pqn"));
  paceline_env_table table = gates();
  paceline_trainer *t;
  FAILS(paceline_trainer_new_table(&t, cfg, &table, NULL, NULL), PACELINE_EINVAL,
        "action_masks: true, must be false: pqn does not use them");
  OK(paceline_config_set(cfg, "action_masks", "true"));
  OK(paceline_config_set(cfg, "env", "CartPole-v1"));
  FAILS(paceline_trainer_new(&t, cfg), PACELINE_EINVAL, "action_masks: true, must be false: CartPole-v1 gives none");
  paceline_config_free(cfg);
  /* The other methods obey masks: gate_step checks every action. */
  static const char *const methods[] = {"a2c", "a3c", "appo", "ga3c", "ppo"};
  for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
    OK(paceline_config_new(&cfg, methods[m]));
    OK(paceline_config_set(cfg, "num_envs", "3"));
    if (m == 1 || m == 2) OK(paceline_config_set(cfg, "learners", "3"));
    OK(paceline_trainer_new_table(&t, cfg, &table, NULL, NULL));
    OK(paceline_trainer_begin(t, 3 * 2100, 0));
    OK(paceline_trainer_run(NULL, t, 0, 0));
    CHECK(stats_of(t).updates > 0);
    paceline_trainer_free(t);
    paceline_config_free(cfg);
  }
}

/* An environment with masks in a file of its own: a vector writes the masks, and a trainer obeys
 * them. */
static void known(const char *path) {
  char *name;
  OK(paceline_env_load(&name, path));
  for (uint32_t how = PACELINE_NEXT_STEP; how <= PACELINE_SAME_STEP; how++) {
    paceline_vec *v = vec_of(name, ROWS, 0, 2, how, NULL);
    arrays r = arrays_for(v, ROWS);
    enum { N = 6 };
    uint8_t masks[ROWS * N], final_masks[ROWS * N];
    paceline_rows rows = *all_of(&r);
    rows.action_masks = masks, rows.final_action_masks = final_masks;
    OK(paceline_vec_reset(v, NULL, NULL, &rows));
    int ends = 0;
    for (int k = 0; k < 100; k++) {
      for (int i = 0; i < ROWS; i++) {
        const float *obs = (const float *)rows.obs + 3 * i, *last = (const float *)rows.final_obs + 3 * i;
        int over = how == PACELINE_NEXT_STEP && rows.terminated[i], odd = (int)obs[0] % 2;
        for (int a = 0; a < N; a++) CHECK(masks[N * i + a] == (over || a == 0 || (a == 1 && odd)));
        if (how == PACELINE_SAME_STEP && rows.truncated[i]) CHECK(final_masks[N * i + 1] == (int)last[0] % 2);
        ends += rows.truncated[i];
        discrete(&r)[i] = k % 2 && masks[N * i + 1];
      }
      OK(paceline_vec_step(v, r.actions, &rows));
    }
    CHECK(ends > 5);
    arrays_free(&r);
    paceline_vec_free(v);
  }
  paceline_trainer *t = quick(name);
  OK(paceline_trainer_run(NULL, t, 1500, 0));
  /* paceline_trainer_rows writes the masks or leaves them out. */
  const size_t bytes = 4 * 3 * sizeof(float);
  float *obs = malloc(bytes);
  uint8_t masks[4 * 6];
  paceline_rows seen = {.struct_size = sizeof seen, .num_rows = 4, .obs = obs};
  OK(paceline_trainer_rows(&seen, NULL, t));
  memset(masks, 9, sizeof masks);
  seen.action_masks = masks;
  OK(paceline_trainer_rows(&seen, NULL, t));
  for (int i = 0; i < 4; i++)
    for (int a = 0; a < 6; a++) CHECK(masks[6 * i + a] == (a == 0 || (a == 1 && (int)obs[3 * i] % 2)));
  free(obs);
  paceline_policy *p;
  OK(paceline_policy_from_trainer(&p, t));
  paceline_evaluation e = {.struct_size = sizeof e};
  OK(paceline_policy_evaluate(&e, p, name, NULL, EPISODES(20, 0.5, 1)));
  CHECK(e.episodes == 20);
  paceline_policy_free(p);
  paceline_trainer_free(t);
  paceline_string_free(name);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  table_and_rows();
  failing();
  known(argv[1]);
  return 0;
}
