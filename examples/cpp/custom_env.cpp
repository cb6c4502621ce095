/*
 * Your own environment as a C++ class: a thermostat. The temperature of a house moves towards the
 * colder outside, with random disturbances. Action 1 heats, action 0 does not. The reward is 1
 * while the temperature is within one degree of 20.
 */
#include <paceline.hpp>

#include <cmath>
#include <cstdio>
#include <random>

struct Thermostat : paceline::Environment<float> {
  static paceline_spec observation() { return box({2}); }
  static paceline_spec action() { return discrete(2); }

  /* All randomness comes from seed: the same seed gives the same episodes. */
  Thermostat(uint32_t, uint64_t seed) : random_(static_cast<std::minstd_rand::result_type>(seed)) {}

  void reset(float *obs) {
    temperature_ = 15.0f + static_cast<float>(random_() % 1000) / 100.0f;
    outside_ = static_cast<float>(random_() % 1000) / 100.0f;
    steps_ = 0;
    observe(obs);
  }

  paceline::Step step(int32_t action, float *obs) {
    const float gust = static_cast<float>(random_() % 100) / 500.0f - 0.1f;
    temperature_ += 0.05f * (outside_ - temperature_) + (action == 1 ? 1.5f : 0.0f) + gust;
    observe(obs);
    const bool good = std::fabs(temperature_ - 20.0f) <= 1.0f;
    return {good ? 1.0f : 0.0f, static_cast<uint8_t>(++steps_ == 100 ? PACELINE_TRUNCATED : 0)};
  }

 private:
  void observe(float *obs) const {
    obs[0] = (temperature_ - 20.0f) / 5.0f;
    obs[1] = (outside_ - 5.0f) / 5.0f;
  }

  std::minstd_rand random_;
  float temperature_ = 0, outside_ = 0;
  int steps_ = 0;
};

int main() try {
  paceline::Config cfg("dqn");
  cfg.set("num_envs", 8)
      .set("learning_starts", 1000)
      .set("buffer_size", 20000)
      .set("net_arch", "64,64")
      .set("learning_rate", 1e-3)
      .set("target_update_interval", 250)
      .set("window", 250)
      .set("train_freq", 2)
      .set("exploration_steps", 4000)
      .set("seed", 1);

  paceline::Trainer trainer(cfg, paceline::environments<Thermostat>());
  const paceline_stats stats = trainer.run(12000);
  std::printf("after %lld steps: %.0f of 100 steps at the right temperature\n",
              static_cast<long long>(stats.num_timesteps), stats.mean_return);

  /* The policy acts in an environment that this program steps. */
  const paceline::Policy policy = trainer.policy();
  Thermostat thermostat(0, 12345);
  float obs[2];
  float sum = 0;
  thermostat.reset(obs);
  for (int i = 0; i < 100; i++) sum += thermostat.step(policy.act(obs), obs).reward;
  std::printf("the policy alone: %.0f of 100\n", static_cast<double>(sum));
  return sum > 50 ? 0 : 1;
} catch (const paceline::Error &e) {
  std::fprintf(stderr, "%s: %s\n", paceline_status_str(e.code()), e.what());
  return 1;
}
