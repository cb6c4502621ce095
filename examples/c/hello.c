/*
 * Trains a Q-network on the built-in CartPole for a few seconds, saves it, loads it as a policy and
 * chooses an action. See ../README.md for the build.
 */
#include <paceline.h>
#include <stdio.h>

#define TRY(call)                                                                      \
  do {                                                                                 \
    int status = (call);                                                               \
    if (status != PACELINE_OK) {                                                       \
      fprintf(stderr, "%s: %s\n", paceline_status_str(status), paceline_last_error()); \
      return 1;                                                                        \
    }                                                                                  \
  } while (0)

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "hello.paceline";

  /* The settings solve CartPole in a longer run than this one. */
  paceline_config *cfg;
  TRY(paceline_config_new(&cfg, "dqn"));
  TRY(paceline_config_preset(cfg, "tuned", "CartPole-v1"));
  TRY(paceline_config_set(cfg, "seed", "1"));
  paceline_trainer *trainer;
  TRY(paceline_trainer_new(&trainer, cfg));

  /* run returns every 2500 steps, so that the program can print. */
  paceline_stats stats = {.struct_size = sizeof stats};
  TRY(paceline_trainer_begin(trainer, 10000, 0));
  do {
    TRY(paceline_trainer_run(&stats, trainer, 2500, 0));
    printf("step %5lld  return of the latest episodes %.1f", (long long)stats.num_timesteps, stats.mean_return);
    paceline_metric metric = {.struct_size = sizeof metric}; /* further numbers of the method */
    for (size_t i = 0; paceline_trainer_metric(&metric, trainer, i) == PACELINE_OK; i++)
      printf("  %s %.3g %s", metric.name, metric.value, metric.unit);
    printf("\n");
  } while (stats.num_timesteps < stats.total_timesteps);

  TRY(paceline_trainer_save(trainer, path, 0));
  paceline_trainer_free(trainer);
  paceline_config_free(cfg);

  /* Another program could continue here: a policy needs only the file. */
  paceline_policy *policy;
  TRY(paceline_policy_load(&policy, path));
  float obs[4] = {0.0f, 0.0f, 0.05f, 0.0f}; /* the pole leans to the right */
  int32_t action;
  float q[2];
  float *outputs[] = {q}; /* a value for each action: the output "q" of paceline_policy_describe */
  TRY(paceline_policy_act(policy, 1, obs, NULL, &action, outputs));
  printf("leaning right: push %s (Q %.2f left, %.2f right)\n", action == 1 ? "right" : "left", q[0], q[1]);

  paceline_evaluation e = {.struct_size = sizeof e};
  paceline_eval_options how = {.struct_size = sizeof how, .episodes = 10, .seed = 7};
  TRY(paceline_policy_evaluate(&e, policy, "CartPole-v1", NULL, &how));
  printf("10 episodes: mean return %.1f\n", e.mean_return);
  paceline_policy_free(policy);
  return 0;
}
