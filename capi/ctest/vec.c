/* The vector environment. */
#include "t.h"

static paceline_vec *make(const char *env, uint32_t n, uint32_t threads, uint32_t mode, paceline_buffers *b) {
  paceline_vec *v;
  OK(paceline_vec_new(&v, env, n, threads, mode));
  b->struct_size = sizeof *b;
  OK(paceline_vec_buffers(b, v));
  return v;
}

int main(void) {
  paceline_vec *v;
  FAILS(paceline_vec_new(&v, "CartPole", 0, 1, 0), PACELINE_EINVAL, "num_envs: 0");
  FAILS(paceline_vec_new(&v, "CartPole-v1", 100000000, 1, 0), PACELINE_EINVAL, "num_envs: 100000000");
  FAILS(paceline_vec_new(&v, "CartPole-v1", 1, 4000000000u, 0), PACELINE_EINVAL, "num_threads: 4000000000");
  FAILS(paceline_vec_new(&v, "CartPole-v1", 1, 1, 3), PACELINE_EINVAL, "autoreset: 3");
  FAILS(paceline_vec_new(&v, "Cartpole", 1, 1, 0), PACELINE_EINVAL, "CartPole-v1");

  /* The same rows for any number of threads, in each mode. */
  for (uint32_t mode = 0; mode < 3; mode++) {
    paceline_buffers a = {0}, b = {0};
    paceline_vec *one = make("CartPole-v1", 5, 1, mode, &a), *many = make("CartPole-v1", 5, 3, mode, &b);
    uint64_t seeds[] = {5, 6, 7, 8, 9};
    FAILS(paceline_vec_step(one), PACELINE_EINVAL, "reset");
    OK(paceline_vec_reset(one, seeds, NULL));
    OK(paceline_vec_reset(many, seeds, NULL));
    int ends = 0;
    for (int i = 0; i < 300; i++) {
      for (int k = 0; k < 5; k++) a.actions[k] = b.actions[k] = (i / 3 + k) % 2;
      if (mode == PACELINE_DISABLED) {
        uint8_t mask[5];
        memcpy(mask, a.ended, 5);
        if (memchr(mask, 1, 5) || memchr(mask, 2, 5) || memchr(mask, 3, 5)) {
          FAILS(paceline_vec_step(one), PACELINE_EINVAL, "reset");
          OK(paceline_vec_reset(one, NULL, mask));
          OK(paceline_vec_reset(many, NULL, mask));
        }
      }
      OK(paceline_vec_step(one));
      OK(paceline_vec_step(many));
      CHECK(memcmp(a.obs, b.obs, 5 * a.obs_bytes) == 0 && memcmp(a.ended, b.ended, 5) == 0);
      CHECK(memcmp(a.rewards, b.rewards, 20) == 0);
      if (mode == PACELINE_SAME_STEP) CHECK(memcmp(a.final_obs, b.final_obs, 5 * a.obs_bytes) == 0);
      for (int k = 0; k < 5; k++) ends += a.ended[k] != 0;
    }
    CHECK(ends > 10);

    /* Actions out of range move nothing. */
    float before[20];
    memcpy(before, a.obs, sizeof before);
    if (mode == PACELINE_SAME_STEP) {
      a.actions[4] = 2;
      FAILS(paceline_vec_step(one), PACELINE_EINVAL, "environment 4: action: 2, must be 0 to 1");
      a.actions[4] = -1;
      FAILS(paceline_vec_step(one), PACELINE_EINVAL, "action: -1");
      CHECK(memcmp(before, a.obs, sizeof before) == 0);
      a.actions[4] = 0;
    }

    /* A mask resets its rows only, and seeds only those. */
    uint8_t mask[] = {0, 1, 0, 0, 7}, none[5] = {0};
    FAILS(paceline_vec_reset(one, NULL, none), PACELINE_EINVAL, "mask");
    OK(paceline_vec_reset(one, seeds, mask));
    float *obs = a.obs;
    CHECK(memcmp(before, obs, 16) == 0 && memcmp(before + 8, obs + 8, 32) == 0);
    CHECK(memcmp(before + 4, obs + 4, 16) != 0 && memcmp(before + 16, obs + 16, 16) != 0);
    float first[4], again[4];
    memcpy(first, obs + 4, 16);
    OK(paceline_vec_reset(one, NULL, mask));
    memcpy(again, obs + 4, 16);
    CHECK(memcmp(first, again, 16) != 0); /* on along the stream */
    OK(paceline_vec_reset(one, seeds, mask));
    CHECK(memcmp(first, obs + 4, 16) == 0);
    paceline_vec_free(one);
    paceline_vec_free(many);
    paceline_buffers_release(a.id);
    paceline_buffers_release(b.id);
  }

  /* Pictures: stacked frames of bytes. */
  paceline_buffers b = {0};
  v = make("Catch-v0", 2, 2, PACELINE_SAME_STEP, &b);
  paceline_spec obs = {.struct_size = sizeof obs}, action = {.struct_size = sizeof action};
  OK(paceline_vec_spec(&obs, &action, v));
  CHECK(obs.dtype == PACELINE_UINT8 && obs.ndim == 3 && obs.shape[0] == 4 && obs.shape[1] == 84 && obs.shape[2] == 84);
  CHECK(obs.frame_stack == 4 && action.n == 3 && b.obs_bytes == 4 * 84 * 84);
  OK(paceline_vec_reset(v, NULL, NULL));
  long sum = 0;
  for (size_t i = 0; i < 2 * b.obs_bytes; i++) sum += ((uint8_t *)b.obs)[i];
  CHECK(sum > 0);
  paceline_vec_free(v);
  paceline_buffers_release(b.id);
  return 0;
}
