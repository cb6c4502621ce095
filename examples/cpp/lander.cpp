/*
 * Training on your own simulator, and use of the policy: a craft with a main engine and two small
 * ones descends in a plane, and must land on the pad, upright and slowly. Its engines are controlled
 * in one of three forms:
 *
 *     discrete      one of four actions: no engine, or one of them at full power (DQN)
 *     continuous    two floats: the throttle of the main engine and the side thrust (PPO)
 *     hybrid        one of the engines, and its throttle (PPO)
 *
 * The library's threads train, and the main thread prints their progress. Then the policy is saved,
 * loaded as in production, and chooses one action at a time. Python loads it by
 * paceline.Policy.load("lander.policy").
 *
 *     lander [form] [seed]     writes lander.policy, and the log of a flight, lander.csv
 */
#include <paceline.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <future>
#include <ostream>
#include <random>

/* The simulator, without a form of actions. Lengths are in pads (the pad reaches from -1 to 1),
 * times in seconds, angles in radians. */
class Craft : public paceline::Environment<float> {
 public:
  enum Engine { Main, Left, Right, Engines };
  enum Outcome { Flying, Landed, Crashed };

  static paceline_spec observation() { return box({6}); }

  /* All randomness comes from seed: the same seed gives the same episodes. */
  Craft(uint32_t, uint64_t seed) : random_(static_cast<std::minstd_rand::result_type>(seed)) {}

  void reset(float *obs) {
    x_ = uniform(-2, 2), y_ = uniform(2, 4);
    vx_ = uniform(-0.5f, 0.5f), vy_ = -0.5f;
    angle_ = uniform(-0.3f, 0.3f), spin_ = uniform(-0.2f, 0.2f);
    steps_ = 0;
    observe(obs);
  }

  Outcome outcome() const {
    if (std::fabs(x_) > 3 || y_ > 5) return Crashed; /* out of sight */
    if (y_ > 0) return Flying;
    const bool gently = std::fabs(vx_) < 0.6f && vy_ > -1 && std::fabs(angle_) < 0.3f;
    return gently && std::fabs(x_) < 1 ? Landed : Crashed;
  }

 protected:
  /* main: the throttle of the main engine, 0 to 1. side: the side thrust, -1 (right engine) to 1
   * (left engine). */
  paceline::Step fly(float main, float side, float *obs) {
    constexpr float dt = 0.2f, gravity = -1, thrust = 2;
    const float before = potential();
    vx_ -= dt * thrust * main * std::sin(angle_); /* the main engine pushes along the craft's axis */
    vy_ += dt * (thrust * main * std::cos(angle_) + gravity);
    spin_ += dt * (side - spin_); /* air resistance slows the spin */
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
  paceline::Step fly(int32_t engine, float throttle, float *obs) {
    return fly(engine == Main ? throttle : 0, engine == Left ? throttle : engine == Right ? -throttle : 0, obs);
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

/* --------------------------------------------- the forms of actions */

struct Discrete : Craft {
  using Action = int32_t; /* an Engine, or Engines: none */
  using Craft::Craft;
  static paceline_spec action() { return discrete(Engines + 1); }
  paceline::Step step(Action engine, float *obs) { return fly(engine, 1.0f, obs); }
};

struct Continuous : Craft {
  struct Action {
    float main, side;
  };
  using Craft::Craft;
  static paceline_spec action() { return continuous({0, -1}, {1, 1}); }
  paceline::Step step(const Action &a, float *obs) { return fly(a.main, a.side, obs); }
};

struct Hybrid : Craft {
  struct Action {
    int32_t engine;
    float throttle;
  };
  using Craft::Craft;
  static paceline_spec action() { return hybrid({Engines}, {0}, {1}); }
  paceline::Step step(const Action &a, float *obs) { return fly(a.engine, a.throttle, obs); }
};

/* Columns of the log. */
std::ostream &operator<<(std::ostream &to, const Continuous::Action &a) { return to << a.main << ',' << a.side; }
std::ostream &operator<<(std::ostream &to, const Hybrid::Action &a) { return to << a.engine << ',' << a.throttle; }

/* --------------------------------------------------------- settings */

paceline::Config dqn() {
  paceline::Config cfg("dqn");
  cfg.set("num_envs", 8)
      .set("net_arch", "64,64")
      .set("learning_starts", 1000)
      .set("buffer_size", 50000)
      .set("batch_size", 64)
      .set("train_freq", 2)
      .set("n_steps", 3)
      .set("learning_rate", 5e-4)
      .set("learning_rate_final", 1e-5)
      .set("target_update_interval", 1000)
      .set("double_q", true)
      .set("exploration_steps", 20000)
      .set("exploration_final_eps", 0.02);
  return cfg;
}

paceline::Config ppo() {
  paceline::Config cfg("ppo");
  cfg.set("num_envs", 16)
      .set("n_steps", 128)
      .set("batch_size", 256)
      .set("learning_rate", 2e-3)
      .set("learning_rate_final", 1e-4)
      .set("scaled", true) /* the network's -1 to 1 are the bounds of the box */
      .set("log_std_init", -0.5);
  return cfg;
}

/* ---------------------------------------------- training and flights */

struct Flights {
  int landed = 0, steps = 0;
  std::chrono::duration<double, std::micro> spent{}; /* in choosing actions */
};

/* A hundred flights, one action at a time. log: where the first flight is written, or nullptr. */
template <class Lander>
Flights fly(const paceline::Policy &policy, const paceline::ActOptions &options, std::ostream *log) {
  Flights all;
  Lander lander(0, 12345);
  paceline::ActOptions how = options;
  for (int flight = 0; flight < 100; flight++) {
    float obs[6];
    lander.reset(obs);
    for (paceline::Step s{}; s.ended == 0; all.steps++, how.counter++) {
      const auto began = std::chrono::steady_clock::now();
      const auto action = policy.act<typename Lander::Action>(obs, how);
      all.spent += std::chrono::steady_clock::now() - began;
      if (flight == 0 && log != nullptr) {
        for (float component : obs) *log << component << ',';
        *log << action << '\n';
      }
      s = lander.step(action, obs);
    }
    all.landed += lander.outcome() == Lander::Landed;
  }
  return all;
}

/* Trains, and returns whether the policy lands. */
template <class Lander>
bool learns(const paceline::Config &cfg, int64_t steps) {
  paceline::Trainer trainer(cfg, paceline::environments<Lander>());
  auto training = std::async(std::launch::async, [&] { trainer.run(steps); });
  while (training.wait_for(std::chrono::seconds(1)) == std::future_status::timeout) {
    const paceline_stats s = trainer.stats();
    std::printf("%6lld steps, return %5.2f\n", static_cast<long long>(s.num_timesteps), s.mean_return);
  }
  training.get(); /* throws the error of a failed run */
  trainer.policy().save("lander.policy");

  /* As in production: the file, and one observation at a time. */
  const paceline::Policy policy("lander.policy");
  std::ofstream log("lander.csv");
  log.precision(9); /* enough digits for every float32 */
  paceline::ActOptions at_random;
  at_random.epsilon = 1;
  const Flights random = fly<Lander>(policy, at_random, nullptr), trained = fly<Lander>(policy, {}, &log);
  std::printf("%d of 100 landed, %d with random actions; an action took %.1f microseconds\n", trained.landed,
              random.landed, trained.spent.count() / trained.steps);
  return trained.landed >= 80 && random.landed < 20;
}

int main(int argc, char **argv) try {
  const std::string form = argc > 1 ? argv[1] : "discrete", seed = argc > 2 ? argv[2] : "1";
  bool landed = false;
  if (form == "discrete")
    landed = learns<Discrete>(dqn().set("seed", seed), 60000);
  else if (form == "continuous")
    landed = learns<Continuous>(ppo().set("seed", seed), 122880);
  else if (form == "hybrid")
    landed = learns<Hybrid>(ppo().set("seed", seed), 122880);
  else
    std::fprintf(stderr, "form: %s, must be discrete, continuous or hybrid\n", form.c_str());
  return landed ? 0 : 1;
} catch (const paceline::Error &e) {
  std::fprintf(stderr, "%s: %s\n", paceline_status_str(e.code()), e.what());
  return 1;
}
