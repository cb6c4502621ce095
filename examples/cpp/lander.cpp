/*
 * Training on your own simulator, and use of the policy: a craft with a main engine and two small
 * ones descends in a plane, and must land on the pad, upright and slowly.
 *
 * The library's threads train, and the main thread prints their progress. Then the policy is saved,
 * loaded as in production, and chooses one action at a time. Python loads it by
 * paceline.Policy.load("lander.policy").
 *
 *     lander [seed]     writes lander.policy, and the log of a flight, lander.csv
 */
#include <paceline.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <random>

/* Lengths are in pads (the pad reaches from -1 to 1), times in seconds, angles in radians. */
class Lander : public paceline::Environment<float> {
 public:
  enum Action { Drift, Left, Main, Right, Actions };
  enum Outcome { Flying, Landed, Crashed };

  static paceline_spec observation() { return box({6}); }
  static paceline_spec action() { return discrete(Actions); }

  /* All randomness comes from seed: the same seed gives the same episodes. */
  Lander(uint32_t, uint64_t seed) : random_(static_cast<std::minstd_rand::result_type>(seed)) {}

  void reset(float *obs) {
    x_ = uniform(-2, 2), y_ = uniform(2, 4);
    vx_ = uniform(-0.5f, 0.5f), vy_ = -0.5f;
    angle_ = uniform(-0.3f, 0.3f), spin_ = uniform(-0.2f, 0.2f);
    steps_ = 0;
    observe(obs);
  }

  paceline::Step step(int32_t action, float *obs) {
    constexpr float dt = 0.2f, gravity = -1, thrust = 2;
    const float before = potential();
    const float push = action == Main ? thrust : 0; /* along the craft's axis */
    const float torque = action == Left ? 1.0f : action == Right ? -1.0f : 0;
    vx_ -= dt * push * std::sin(angle_);
    vy_ += dt * (push * std::cos(angle_) + gravity);
    spin_ += dt * (torque - spin_); /* air resistance slows the spin */
    x_ += dt * vx_;
    y_ += dt * vy_;
    angle_ += dt * spin_;
    observe(obs);

    /* Rewards a craft that gets nearer, slower and more upright. Each step costs 0.02, so hovering
     * loses. */
    float reward = potential() - before - 0.02f;
    const Outcome now = outcome();
    if (now != Flying) reward += now == Landed ? 1.0f : -1.0f;
    const bool late = ++steps_ == 100;
    return {reward, static_cast<uint8_t>(now != Flying ? PACELINE_TERMINATED : late ? PACELINE_TRUNCATED : 0)};
  }

  Outcome outcome() const {
    if (std::fabs(x_) > 3 || y_ > 5) return Crashed; /* out of sight */
    if (y_ > 0) return Flying;
    const bool gently = std::fabs(vx_) < 0.6f && vy_ > -1 && std::fabs(angle_) < 0.3f;
    return gently && std::fabs(x_) < 1 ? Landed : Crashed;
  }

 private:
  float potential() const { return -0.1f * (std::hypot(x_, y_) + std::hypot(vx_, vy_) + std::fabs(angle_)); }
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(random_() % 10001) / 10000; }
  void observe(float *obs) const { /* each component is about -1 to 1 */
    obs[0] = x_ / 3, obs[1] = y_ / 3, obs[2] = vx_, obs[3] = vy_, obs[4] = 2 * angle_, obs[5] = spin_;
  }

  std::minstd_rand random_;
  float x_ = 0, y_ = 0, vx_ = 0, vy_ = 0, angle_ = 0, spin_ = 0;
  int steps_ = 0;
};

int main(int argc, char **argv) try {
  paceline::Config cfg("dqn");
  cfg.set("num_envs", 8)
      .set("net_arch", "64,64")
      .set("learning_starts", 1000)
      .set("buffer_size", 50000)
      .set("batch_size", 64)
      .set("train_freq", 2)
      .set("learning_rate", 5e-4)
      .set("learning_rate_final", 1e-5)
      .set("target_update_interval", 1000)
      .set("double_q", true)
      .set("exploration_steps", 20000)
      .set("exploration_final_eps", 0.1)
      .set("seed", argc > 1 ? argv[1] : "1");
  paceline::Trainer trainer(cfg, paceline::environments<Lander>());

  auto training = std::async(std::launch::async, [&] { trainer.run(60000); });
  while (training.wait_for(std::chrono::seconds(1)) == std::future_status::timeout) {
    const paceline_stats s = trainer.stats();
    std::printf("%6lld steps, return %5.2f\n", static_cast<long long>(s.num_timesteps), s.mean_return);
  }
  training.get(); /* throws the error of a failed run */
  trainer.policy().save("lander.policy");

  /* As in production: the file, and one observation at a time. */
  const paceline::Policy policy("lander.policy");
  Lander lander(0, 12345);
  std::ofstream log("lander.csv");
  log.precision(9); /* enough digits for every float32 */
  int landed = 0, steps = 0;
  std::chrono::duration<double, std::micro> spent{};
  for (int flight = 0; flight < 100; flight++) {
    float obs[6];
    lander.reset(obs);
    for (paceline::Step s{}; s.ended == 0; steps++) {
      const auto began = std::chrono::steady_clock::now();
      const int32_t action = policy.act(obs);
      spent += std::chrono::steady_clock::now() - began;
      if (flight == 0) {
        for (float component : obs) log << component << ',';
        log << action << '\n';
      }
      s = lander.step(action, obs);
    }
    landed += lander.outcome() == Lander::Landed;
  }
  std::printf("%d of 100 landed; an action took %.1f microseconds\n", landed, spent.count() / steps);
  return landed >= 80 ? 0 : 1;
} catch (const paceline::Error &e) {
  std::fprintf(stderr, "%s: %s\n", paceline_status_str(e.code()), e.what());
  return 1;
}
