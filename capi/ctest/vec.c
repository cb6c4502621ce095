/* The vector environment, stepped in lockstep. */
#include "rows.h"

static void refused(const char *env, uint32_t n, uint32_t batch, uint32_t threads, uint32_t mode,
                    const char *env_options, const char *says) {
  paceline_vec *v = (void *)1;
  paceline_vec_options o = vec_options(n, batch, threads, mode, env_options);
  FAILS(paceline_vec_new(&v, env, &o), PACELINE_EINVAL, says);
  CHECK(v == (void *)1);
}

static void options(void) {
  refused("CartPole-v1", 0, 0, 1, 0, NULL, "num_envs: 0, must be 1 to 65536");
  refused("CartPole-v1", 100000000, 0, 1, 0, NULL, "num_envs: 100000000");
  refused("CartPole-v1", 4, 5, 1, 0, NULL, "batch_size: 5, must be 1 to num_envs (4)");
  refused("CartPole-v1", 1, 0, 4000000000u, 0, NULL, "num_threads: 4000000000");
  refused("CartPole-v1", 1, 0, 1, 3, NULL, "autoreset: 3");
  refused("Cartpole", 1, 0, 1, 0, NULL, "CartPole-v1");
  refused("CartPole-v1", 1, 0, 1, 0, "{\"gravity\": 1}", "option \"gravity\": CartPole-v1 has no options");
  refused("CartPole-v1", 1, 0, 1, 0, "{\"gravity\": ", "must be a JSON object");
  refused("CartPole-v1", 1, 0, 1, 0, "[1]", "must be a JSON object");
  refused("CartPole-v1", 1, 0, 1, 0, "{\"decorrelation_steps\": -1}", "decorrelation_steps: -1, must be");
  paceline_vec *v;
  paceline_vec_options o = vec_options(2, 0, 1, 0, NULL);
  o.pin = -2;
  FAILS(paceline_vec_new(&v, "CartPole-v1", &o), PACELINE_EINVAL, "pin: -2");
  o.pin = 1000000; /* the core's number wraps around */
  OK(paceline_vec_new(&v, "CartPole-v1", &o));
  arrays r = arrays_for(v, 2);
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  OK(paceline_vec_step(v, r.actions, all_of(&r)));
  arrays_free(&r);
  paceline_vec_free(v);
}

/* The same rows for any number of threads. */
static void threads(uint32_t mode) {
  paceline_vec *one = vec_of("CartPole-v1", 5, 0, 1, mode, NULL), *many = vec_of("CartPole-v1", 5, 0, 3, mode, NULL);
  arrays a = arrays_for(one, 5), b = arrays_for(many, 5);
  uint64_t seeds[] = {5, 6, 7, 8, 9};
  FAILS(paceline_vec_step(one, a.actions, all_of(&a)), PACELINE_EINVAL, "reset");
  OK(paceline_vec_reset(one, seeds, NULL, all_of(&a)));
  OK(paceline_vec_reset(many, seeds, NULL, all_of(&b)));
  int ends = 0;
  for (int i = 0; i < 300; i++) {
    for (int k = 0; k < 5; k++) discrete(&a)[k] = (i / 3 + k) % 2;
    if (mode == PACELINE_DISABLED) {
      uint8_t mask[5], any = 0;
      for (uint32_t k = 0; k < 5; k++) any |= mask[k] = (uint8_t)over(&a, k);
      if (any) {
        FAILS(paceline_vec_step(one, a.actions, all_of(&a)), PACELINE_EINVAL, "reset");
        OK(paceline_vec_reset(one, NULL, mask, all_of(&a)));
        OK(paceline_vec_reset(many, NULL, mask, all_of(&b)));
      }
    }
    OK(paceline_vec_step(one, a.actions, all_of(&a)));
    OK(paceline_vec_step(many, a.actions, all_of(&b)));
    for (uint32_t k = 0; k < 5; k++) {
      CHECK(same_row(&a, k, &b, k, mode == PACELINE_SAME_STEP));
      CHECK(a.rows.env_ids[k] == (int32_t)k);
      ends += over(&a, k) != 0;
    }
  }
  CHECK(ends > 10);

  /* An action out of range moves no environment. */
  float before[20];
  memcpy(before, a.rows.obs, sizeof before);
  if (mode == PACELINE_SAME_STEP) {
    discrete(&a)[4] = 2;
    FAILS(paceline_vec_step(one, a.actions, all_of(&a)), PACELINE_EINVAL, "environment 4: action: 2, must be 0 to 1");
    CHECK(paceline_last_error_index() == 4);
    discrete(&a)[4] = -1;
    FAILS(paceline_vec_step(one, a.actions, all_of(&a)), PACELINE_EINVAL, "action: -1");
    CHECK(memcmp(before, a.rows.obs, sizeof before) == 0);
  }

  /* A reset by mask resets and seeds the masked rows only. */
  uint8_t mask[] = {0, 1, 0, 0, 7}, none[5] = {0};
  FAILS(paceline_vec_reset(one, NULL, none, all_of(&a)), PACELINE_EINVAL, "mask");
  a.rows.rewards[0] = a.rows.rewards[1] = 17;
  OK(paceline_vec_reset(one, seeds, mask, all_of(&a)));
  CHECK(a.rows.rewards[0] == 17 && a.rows.rewards[1] == 0);
  float *obs = a.rows.obs;
  CHECK(memcmp(before, obs, 16) == 0 && memcmp(before + 8, obs + 8, 32) == 0);
  CHECK(memcmp(before + 4, obs + 4, 16) != 0 && memcmp(before + 16, obs + 16, 16) != 0);
  float first[4], again[4];
  memcpy(first, obs + 4, 16);
  OK(paceline_vec_reset(one, NULL, mask, all_of(&a)));
  memcpy(again, obs + 4, 16);
  CHECK(memcmp(first, again, 16) != 0); /* the random stream goes on */
  OK(paceline_vec_reset(one, seeds, mask, all_of(&a)));
  CHECK(memcmp(first, obs + 4, 16) == 0);
  paceline_vec_free(one);
  paceline_vec_free(many);
  arrays_free(&a);
  arrays_free(&b);
}

/* Arrays that are NULL are left out, or refused if they are needed. Refused calls write nothing. */
static void missing(void) {
  paceline_vec *v = vec_of("CartPole-v1", 3, 0, 2, PACELINE_SAME_STEP, NULL);
  arrays r = arrays_for(v, 3);
  paceline_rows rows = *all_of(&r);
  rows.num_rows = 2;
  FAILS(paceline_vec_reset(v, NULL, NULL, &rows), PACELINE_EINVAL, "rows.num_rows: 2, must be 3");
  FAILS(paceline_vec_offer(v, &rows), PACELINE_EINVAL, "rows.num_rows: 2, must be 3");
  rows = *all_of(&r);
  rows.obs = NULL;
  FAILS(paceline_vec_reset(v, NULL, NULL, &rows), PACELINE_EINVAL, "rows.obs: NULL");
  FAILS(paceline_vec_offer(v, &rows), PACELINE_EINVAL, "rows.obs: NULL");
  rows = *all_of(&r);
  rows.final_obs = NULL;
  FAILS(paceline_vec_reset(v, NULL, NULL, &rows), PACELINE_EINVAL, "rows.final_obs: NULL");
  FAILS(paceline_vec_offer(v, &rows), PACELINE_EINVAL, "rows.final_obs: NULL");
  uint8_t masks[3 * 2];
  rows = *all_of(&r);
  rows.action_masks = masks;
  FAILS(paceline_vec_reset(v, NULL, NULL, &rows), PACELINE_EINVAL, "rows.action_masks: set, must be NULL");
  FAILS(paceline_vec_offer(v, &rows), PACELINE_EINVAL, "rows.action_masks: set, must be NULL");
  rows = *all_of(&r);
  rows.device_type = 2, rows.device_id = 1;
  FAILS(paceline_vec_step(v, r.actions, &rows), PACELINE_EINVAL, "rows.device_type: 2, device_id: 1");
  paceline_rows least = {.struct_size = sizeof least, .num_rows = 3, .obs = r.rows.obs, .final_obs = r.rows.final_obs};
  OK(paceline_vec_reset(v, NULL, NULL, &least));
  OK(paceline_vec_step(v, r.actions, &least));
  r.rows.rewards[1] = 17;
  discrete(&r)[2] = 5;
  FAILS(paceline_vec_step(v, r.actions, all_of(&r)), PACELINE_EINVAL, "action: 5");
  CHECK(r.rows.rewards[1] == 17);
  paceline_vec_free(v);
  arrays_free(&r);
}

/* The state of an environment continues in another vector; rendering. */
static void states(void) {
  paceline_vec *v = vec_of("CartPole-v1", 3, 0, 2, PACELINE_NEXT_STEP, NULL),
               *w = vec_of("CartPole-v1", 2, 0, 1, PACELINE_NEXT_STEP, NULL);
  arrays r = arrays_for(v, 3), s = arrays_for(w, 2);
  uint64_t random = 1;
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  OK(paceline_vec_reset(w, NULL, NULL, all_of(&s)));
  size_t size = 0, given;
  OK(paceline_vec_save(NULL, &size, v, 2));
  CHECK(size > 16);
  char *state = zeroed(size);
  given = size - 1;
  FAILS(paceline_vec_save(state, &given, v, 2), PACELINE_EINVAL, "size:");
  given = size;
  OK(paceline_vec_save(state, &given, v, 2));
  FAILS(paceline_vec_save(state, &given, v, 3), PACELINE_EINVAL, "environment: 3, must be 0 to 2");
  FAILS(paceline_vec_restore(w, 2, state, size), PACELINE_EINVAL, "environment: 2, must be 0 to 1");
  FAILS(paceline_vec_restore(w, 1, state, (size_t)-1), PACELINE_EINVAL, "size: 18446744073709551615, must be at most");
  STATUS(paceline_vec_restore(w, 1, state, size - 1), PACELINE_EFAIL);
  FAILS(paceline_vec_step(w, s.actions, all_of(&s)), PACELINE_EINVAL, "environment 1: step before reset");
  OK(paceline_vec_restore(w, 1, state, size));
  for (int i = 0, ends = 0; i < 300; i++) {
    for (uint32_t k = 0; k < 3; k++) act_at_random(&r, k, 2, &random);
    discrete(&s)[1] = discrete(&r)[2];
    OK(paceline_vec_step(v, r.actions, all_of(&r)));
    OK(paceline_vec_step(w, s.actions, all_of(&s)));
    CHECK(same_row(&r, 2, &s, 1, 0));
    ends += over(&r, 2) != 0;
    CHECK(i < 299 || ends > 3);
  }
  free(state);

  uint32_t height = 0, width = 0;
  OK(paceline_vec_render(NULL, &size, &height, &width, v, 0));
  CHECK(height == 400 && width == 600 && size == 3 * 400 * 600);
  uint8_t *rgb = zeroed(size);
  OK(paceline_vec_render(rgb, &size, &height, &width, v, 0));
  CHECK(rgb[0] == 255); /* a white sky */
  rgb[0] = 7, given = size - 1, height = width = 7;
  FAILS(paceline_vec_render(rgb, &given, &height, &width, v, 0), PACELINE_EINVAL,
        "size: 719999, must be at least 720000");
  CHECK(rgb[0] == 7 && given == size - 1 && height == 7 && width == 7); /* untouched */
  FAILS(paceline_vec_render(rgb, &size, &height, &width, v, 3), PACELINE_EINVAL, "environment: 3");
  free(rgb);

  char *text;
  OK(paceline_vec_describe(&text, v));
  CHECK(strstr(text, "\"env\":\"CartPole-v1\"") != NULL && strstr(text, "\"infos\":[]") != NULL);
  CHECK(strstr(text, "\"max_steps\":500") != NULL && strstr(text, "null") != NULL); /* speeds have no bounds */
  paceline_string_free(text);
  paceline_vec_free(v);
  paceline_vec_free(w);
  arrays_free(&r);
  arrays_free(&s);
}

/* Images: stacked frames of bytes. */
static void images(void) {
  paceline_vec *v = vec_of("Catch-v0", 2, 0, 2, PACELINE_SAME_STEP, NULL);
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
  OK(paceline_vec_spec(&obs, &action, v));
  CHECK(obs.dtype == PACELINE_UINT8 && obs.ndim == 3 && obs.shape[0] == 4 && obs.shape[1] == 84 && obs.shape[2] == 84);
  arrays r = arrays_for(v, 2);
  CHECK(obs.frame_stack == 4 && action.n == 3 && r.obs_bytes == 4 * 84 * 84);
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  long sum = 0;
  for (size_t i = 0; i < 2 * r.obs_bytes; i++) sum += obs_of(&r, 0)[i];
  CHECK(sum > 0);
  paceline_vec_free(v);
  arrays_free(&r);
}

/* With random steps before an episode, episodes start in other states, which the seed
 * determines. */
static void decorrelated(void) {
  paceline_vec *v = vec_of("CartPole-v1", 4, 0, 2, PACELINE_NEXT_STEP, "{\"decorrelation_steps\": 30}");
  paceline_vec *plain = vec_of("CartPole-v1", 4, 0, 2, PACELINE_NEXT_STEP, NULL);
  arrays a = arrays_for(v, 4), b = arrays_for(v, 4), c = arrays_for(plain, 4);
  uint64_t seeds[] = {1, 2, 3, 4};
  OK(paceline_vec_reset(v, seeds, NULL, all_of(&a)));
  OK(paceline_vec_reset(v, seeds, NULL, all_of(&b)));
  OK(paceline_vec_reset(plain, seeds, NULL, all_of(&c)));
  CHECK(memcmp(a.rows.obs, b.rows.obs, 64) == 0 && memcmp(a.rows.obs, c.rows.obs, 64) != 0);
  paceline_vec_free(v);
  paceline_vec_free(plain);
  arrays_free(&a), arrays_free(&b), arrays_free(&c);
}

int main(void) {
  options();
  for (uint32_t mode = 0; mode < 3; mode++) threads(mode);
  missing();
  states();
  images();
  decorrelated();
  return 0;
}
