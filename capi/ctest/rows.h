/* Arrays for the rows of a vector environment, and their comparison with vectors of one environment
 * each. */
#ifndef ROWS_H
#define ROWS_H

#include "t.h"

enum { MOST_COLUMNS = 8 };

typedef struct arrays {
  paceline_rows rows; /* no array is NULL */
  uint32_t n;
  size_t obs_bytes, action_bytes; /* of a row */
  paceline_spec action;
  void *actions;
  uint32_t columns;           /* of infos */
  size_t sizes[MOST_COLUMNS]; /* of an entry */
  char names[MOST_COLUMNS][32];
  void *infos[MOST_COLUMNS], *final_infos[MOST_COLUMNS];
} arrays;

static inline void *zeroed(size_t size) {
  void *p = calloc(1, size);
  CHECK(p != NULL);
  return p;
}

/* Writes the value of a field of a flat JSON object, as text. */
static inline void json_field(char *out, size_t size, const char *object, const char *name) {
  char key[64];
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(object, key);
  CHECK(at != NULL);
  at += strlen(key);
  at += *at == '"';
  size_t n = strcspn(at, "\",}");
  CHECK(n < size);
  memcpy(out, at, n);
  out[n] = 0;
}

/* Reads "infos" of paceline_vec_describe. */
static inline void describe_columns(arrays *r, const paceline_vec *v) {
  char *text, field[32];
  OK(paceline_vec_describe(&text, v));
  char *at = strstr(text, "\"infos\":["), *end = at == NULL ? NULL : strchr(at, ']');
  CHECK(end != NULL);
  *end = 0;
  while ((at = strchr(at, '{')) != NULL) {
    uint32_t k = r->columns++;
    CHECK(k < MOST_COLUMNS);
    json_field(r->names[k], sizeof r->names[k], at, "name");
    json_field(field, sizeof field, at, "len");
    size_t len = (size_t)atoi(field);
    json_field(field, sizeof field, at, "dtype");
    r->sizes[k] = (len == 0 ? 1 : len) * (strcmp(field, "int32") == 0 || strcmp(field, "float32") == 0 ? 4 : 1);
    at++;
  }
  paceline_string_free(text);
}

static inline arrays arrays_for(const paceline_vec *v, uint32_t n) {
  arrays r = {.n = n, .rows = {.struct_size = sizeof r.rows, .num_rows = n}};
  paceline_spec obs = {.struct_size = sizeof obs};
  r.action.struct_size = sizeof r.action;
  OK(paceline_vec_spec(&obs, &r.action, v));
  r.obs_bytes = obs.dtype == PACELINE_FLOAT32 ? 4 : 1;
  for (uint32_t i = 0; i < obs.ndim; i++) r.obs_bytes *= (size_t)obs.shape[i];
  r.action_bytes = 4 * (size_t)(r.action.kind == PACELINE_DISCRETE ? 1 : r.action.num_branches + r.action.shape[0]);
  r.actions = zeroed(n * r.action_bytes);
  r.rows.obs = zeroed(n * r.obs_bytes);
  r.rows.final_obs = zeroed(n * r.obs_bytes);
  r.rows.rewards = zeroed(n * sizeof *r.rows.rewards);
  r.rows.terminated = zeroed(n);
  r.rows.truncated = zeroed(n);
  r.rows.started = zeroed(n);
  r.rows.env_ids = zeroed(n * sizeof *r.rows.env_ids);
  describe_columns(&r, v);
  for (uint32_t k = 0; k < r.columns; k++) {
    r.infos[k] = zeroed(n * r.sizes[k]);
    r.final_infos[k] = zeroed(n * r.sizes[k]);
  }
  return r;
}

/* The rows. Sets the pointers to the columns of infos again, since *r may have been copied. */
static inline const paceline_rows *all_of(arrays *r) {
  r->rows.infos = r->infos;
  r->rows.final_infos = r->final_infos;
  return &r->rows;
}

static inline void arrays_free(arrays *r) {
  for (uint32_t k = 0; k < r->columns; k++) free(r->infos[k]), free(r->final_infos[k]);
  free(r->actions), free(r->rows.obs), free(r->rows.final_obs), free(r->rows.rewards);
  free(r->rows.terminated), free(r->rows.truncated), free(r->rows.started), free(r->rows.env_ids);
}

static inline uint8_t *obs_of(const arrays *r, uint32_t i) { return (uint8_t *)r->rows.obs + i * r->obs_bytes; }
static inline uint8_t *final_of(const arrays *r, uint32_t i) { return (uint8_t *)r->rows.final_obs + i * r->obs_bytes; }
static inline int32_t *discrete(const arrays *r) { return r->actions; }
static inline int over(const arrays *r, uint32_t i) { return r->rows.terminated[i] | r->rows.truncated[i] << 1; }
static inline const uint8_t *info(const arrays *r, uint32_t k, uint32_t i) {
  return (const uint8_t *)r->infos[k] + i * r->sizes[k];
}

/* The column of that name, as int32. */
static inline int32_t number(const arrays *r, const char *name, uint32_t i) {
  for (uint32_t k = 0; k < r->columns; k++)
    if (strcmp(r->names[k], name) == 0) return r->sizes[k] == 4 ? ((const int32_t *)r->infos[k])[i] : *info(r, k, i);
  printf("there is no info called %s\n", name);
  exit(1);
}

static inline paceline_vec_options vec_options(uint32_t n, uint32_t batch, uint32_t threads, uint32_t mode,
                                               const char *env_options) {
  return (paceline_vec_options){.struct_size = sizeof(paceline_vec_options),
                                .num_envs = n,
                                .batch_size = batch,
                                .num_threads = threads,
                                .autoreset = mode,
                                .pin = -1,
                                .env_options = env_options};
}

static inline paceline_vec *vec_of(const char *env, uint32_t n, uint32_t batch, uint32_t threads, uint32_t mode,
                                   const char *env_options) {
  paceline_vec *v;
  paceline_vec_options o = vec_options(n, batch, threads, mode, env_options);
  OK(paceline_vec_new(&v, env, &o));
  return v;
}

/* Whether row i of a equals row k of b, in all that a step or reset writes. */
static inline int same_row(const arrays *a, uint32_t i, const arrays *b, uint32_t k, int same_step) {
  if (memcmp(obs_of(a, i), obs_of(b, k), a->obs_bytes) != 0 || a->rows.rewards[i] != b->rows.rewards[k] ||
      over(a, i) != over(b, k) || a->rows.started[i] != b->rows.started[k])
    return 0;
  for (uint32_t c = 0; c < a->columns; c++)
    if (memcmp(info(a, c, i), info(b, c, k), a->sizes[c]) != 0) return 0;
  if (!same_step || !over(a, i)) return 1;
  for (uint32_t c = 0; c < a->columns; c++)
    if (memcmp((uint8_t *)a->final_infos[c] + i * a->sizes[c], (uint8_t *)b->final_infos[c] + k * a->sizes[c],
               a->sizes[c]) != 0)
      return 0;
  return memcmp(final_of(a, i), final_of(b, k), a->obs_bytes) == 0;
}

static inline uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

/* An action for row i: a number below n, or with n 0 branches and floats of 0 to 1 as the spec says. */
static inline void act_at_random(const arrays *r, uint32_t i, int64_t n, uint64_t *random) {
  if (n > 0) {
    discrete(r)[i] = (int32_t)(next_random(random) % n);
    return;
  }
  int32_t *ints = (int32_t *)r->actions + i * (r->action_bytes / 4);
  float *box = (float *)r->actions + i * (r->action_bytes / 4) + r->action.num_branches;
  for (int64_t b = 0; b < r->action.num_branches; b++) ints[b] = (int32_t)next_random(random) % r->action.branches[b];
  for (int64_t k = 0; k < r->action.shape[0]; k++) box[k] = (float)(next_random(random) % 1000) / 1000;
}

/* Steps eight environments asynchronously, and each alone in a vector of its own with the same
 * seeds and actions: in any order, the rows must be the same. n: the number of actions, or 0 for
 * other actions than one number. Returns the number of episodes that ended. */
static inline int against_singles(const char *env, const char *env_options, uint32_t batch, uint32_t mode, int64_t n,
                                  int rounds) {
  enum { ENVS = 8, BLOCKS = 10 };
  paceline_vec *v = vec_of(env, ENVS, batch, 3, mode, env_options), *single[ENVS];
  arrays wanted[ENVS], given[BLOCKS], once = arrays_for(v, ENVS);
  int32_t all[ENVS];
  uint64_t seeds[ENVS], random = batch;
  uint32_t blocks = (ENVS + batch - 1) / batch + 1;
  int ends = 0, steps[ENVS] = {0};
  for (int i = 0; i < ENVS; i++) {
    all[i] = i;
    seeds[i] = 100 + 7 * (uint64_t)i;
    single[i] = vec_of(env, 1, 0, 1, mode, env_options);
    wanted[i] = arrays_for(single[i], 1);
    OK(paceline_vec_reset(single[i], &seeds[i], NULL, all_of(&wanted[i])));
  }
  for (uint32_t k = 0; k < blocks; k++) {
    given[k] = arrays_for(v, batch);
    OK(paceline_vec_offer(v, all_of(&given[k])));
  }
  OK(paceline_vec_send_reset(v, all, ENVS, seeds));
  for (int round = 0; round < rounds; round++) {
    arrays *r = &given[(uint32_t)round % blocks];
    OK(paceline_vec_recv(v, 0));
    int32_t *ids = r->rows.env_ids;
    for (uint32_t k = 0; k < batch; k++) {
      CHECK(ids[k] >= 0 && ids[k] < ENVS);
      CHECK(batch < ENVS || ids[k] == (int32_t)k);
      arrays *w = &wanted[ids[k]];
      if (!same_row(r, k, w, 0, mode == PACELINE_SAME_STEP)) {
        printf("%s, batch %u, autoreset %u: step %d of environment %d is not what it is alone\n", env, batch, mode,
               steps[ids[k]], ids[k]);
        exit(1);
      }
      steps[ids[k]]++;
      ends += over(r, k) != 0;
      const void *action = (uint8_t *)r->actions + k * r->action_bytes;
      if (mode == PACELINE_DISABLED && over(r, k)) {
        const uint8_t ended = 1; /* the game goes on with the next life */
        OK(paceline_vec_reset(single[ids[k]], NULL, &ended, all_of(w)));
        OK(paceline_vec_send_reset(v, &ids[k], 1, NULL));
        continue;
      }
      act_at_random(r, k, n, &random);
      OK(paceline_vec_step(single[ids[k]], action, all_of(w)));
      if (mode == PACELINE_DISABLED) OK(paceline_vec_send(v, &ids[k], 1, action));
    }
    if (mode != PACELINE_DISABLED) OK(paceline_vec_send(v, ids, batch, r->actions));
    OK(paceline_vec_offer(v, all_of(r)));
  }
  /* The drain discards those under way; a reset of all then works. */
  OK(paceline_vec_drain(v));
  OK(paceline_vec_reset(v, seeds, NULL, all_of(&once)));
  for (uint32_t i = 0; i < ENVS; i++) {
    OK(paceline_vec_reset(single[i], &seeds[i], NULL, all_of(&wanted[i])));
    CHECK(same_row(&once, i, &wanted[i], 0, 0));
    paceline_vec_free(single[i]);
    arrays_free(&wanted[i]);
  }
  paceline_vec_free(v);
  for (uint32_t k = 0; k < blocks; k++) arrays_free(&given[k]);
  arrays_free(&once);
  return ends;
}

#endif
