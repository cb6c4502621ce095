/* The time of a call; calls on deep stacks and on small ones. */
#include <pthread.h>

#include "rows.h"

static double nanoseconds(int n, double began) { return (now() - began) / n * 1e9; }

static paceline_policy *policy;

static void *small_stack(void *unused) {
  float obs[4] = {0};
  int32_t action;
  (void)unused;
  for (int i = 0; i < 100; i++) OK(paceline_policy_act(policy, 1, obs, NULL, &action, NULL));
  return NULL;
}

static int deep(int frames) {
  volatile char block[16384];
  block[0] = (char)frames;
  if (frames > 0) return deep(frames - 1) + block[0] * 0;
  float obs[4] = {0};
  int32_t action;
  OK(paceline_policy_act(policy, 1, obs, NULL, &action, NULL));
  STATUS(paceline_policy_save(policy, "/no such folder/x"), PACELINE_EIO);
  return 0;
}

int main(void) {
  paceline_trainer *t = quick("CartPole-v1");
  OK(paceline_policy_from_trainer(&policy, t));
  enum { N = 200000 };
  double began = now();
  for (int i = 0; i < N; i++) OK(paceline_policy_act(policy, 0, NULL, NULL, NULL, NULL));
  double call = nanoseconds(N, began);
  float obs[4] = {0};
  int32_t action;
  began = now();
  for (int i = 0; i < N / 4; i++) OK(paceline_policy_act(policy, 1, obs, NULL, &action, NULL));
  double act = nanoseconds(N / 4, began);
  began = now();
  for (int i = 0; i < N; i++)
    STATUS(paceline_policy_act((paceline_policy *)t, 0, NULL, NULL, NULL, NULL), PACELINE_EHANDLE);
  double refused = nanoseconds(N, began);
  paceline_vec *v = vec_of("CartPole-v1", 8, 0, 1, PACELINE_SAME_STEP, NULL);
  arrays r = arrays_for(v, 8);
  OK(paceline_vec_reset(v, NULL, NULL, all_of(&r)));
  began = now();
  for (int i = 0; i < N / 4; i++) OK(paceline_vec_step(v, r.actions, all_of(&r)));
  double step = nanoseconds(N / 4, began);
  began = now();
  for (int i = 0; i < N / 4; i++) {
    OK(paceline_vec_offer(v, all_of(&r)));
    OK(paceline_vec_send(v, r.rows.env_ids, 8, r.actions));
    OK(paceline_vec_recv(v, 0));
  }
  double asynchronous = nanoseconds(N / 4, began);
  paceline_vec_free(v);
  arrays_free(&r);
  printf(
      "a call that does nothing %.0f ns, a refused one %.0f ns, act on one row (4-16-2) %.0f ns, a step of 8 CartPoles "
      "%.0f ns, "
      "offer, send and recv of the same %.0f ns\n",
      call, refused, act, step, asynchronous);
  CHECK(call < 5000); /* far above the usual time, so that the test passes on a busy machine */

  deep(400); /* 6.5 MB of the main thread's 8 */
  pthread_attr_t attr;
  pthread_t x;
  pthread_attr_init(&attr);
  CHECK(pthread_attr_setstacksize(&attr, 128 << 10) == 0);
  for (int i = 0; i < 50; i++) {
    CHECK(pthread_create(&x, &attr, small_stack, NULL) == 0);
    pthread_join(x, NULL);
  }
  paceline_policy_free(policy);
  paceline_trainer_free(t);
  return 0;
}
