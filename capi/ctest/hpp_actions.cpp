// paceline.hpp: actions of every kind, of environments as classes and of a VecEnv. Argument: the folder in which run.sh
// built variants of acting.c.
#include "check.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

// f throws an Error with this text and code.
template <class F>
static void throws(const char *text, F &&f, int code = PACELINE_EINVAL) {
  try {
    f();
  } catch (const paceline::Error &e) {
    if (e.code() == code && std::strcmp(e.what(), text) == 0) return;
    std::printf("\"%s\", must be \"%s\"\n", e.what(), text);
    std::exit(1);
  }
  std::printf("no error, must be \"%s\"\n", text);
  std::exit(1);
}

// Environments that observe the sum of their action.
struct Base : paceline::Environment<float> {
  static paceline_spec observation() { return box({1}); }
  Base(uint32_t, uint64_t) {}
  void reset(float *obs) { *obs = 0; }
};

struct Switch : Base {
  using Base::Base;
  static paceline_spec action() { return discrete(7); }
  paceline::Step step(int32_t action, float *obs) { return *obs = static_cast<float>(action), paceline::Step{1, 0}; }
};

struct Buttons : Base {
  using Base::Base;
  static paceline_spec action() { return multi_discrete({3, 4}); }
  paceline::Step step(const int32_t *action, float *obs) {
    *obs = static_cast<float>(action[0] + 10 * action[1]);
    return {2, PACELINE_TRUNCATED};
  }
  static void step_many(std::size_t n, Buttons *const *envs, const int32_t *actions, float *const *obs,
                        paceline::Step *steps) {
    for (std::size_t k = 0; k < n; k++) steps[k] = envs[k]->step(actions + 2 * k, obs[k]);
  }
};

struct Arm : Base {
  using Base::Base;
  static paceline_spec action() { return continuous({-1, -2}, {1, std::numeric_limits<float>::infinity()}); }
  paceline::Step step(const float *action, float *obs) { return *obs = action[0] + action[1], paceline::Step{3, 0}; }
  static void step_many(std::size_t n, Arm *const *envs, const float *actions, float *const *obs,
                        paceline::Step *steps) {
    for (std::size_t k = 0; k < n; k++) steps[k] = envs[k]->step(actions + 2 * k, obs[k]);
  }
};

struct Car : Base {
  struct Action {
    int32_t gear, lights;
    float wheel;
  };
  using Base::Base;
  static paceline_spec action() { return hybrid({3, 2}, {-1}, {1}); }
  paceline::Step step(const int32_t *branches, const float *box, float *obs) {
    *obs = static_cast<float>(branches[0] + 10 * branches[1]) + box[0];
    return {4, PACELINE_TERMINATED};
  }
  static void step_many(std::size_t n, Car *const *envs, const void *actions, float *const *obs,
                        paceline::Step *steps) {
    for (std::size_t k = 0; k < n; k++) {
      const Action &a = static_cast<const Action *>(actions)[k];
      steps[k] = envs[k]->step(&a.gear, &a.wheel, obs[k]);
    }
  }
};

// step takes a struct.
struct Crane : Base {
  struct Action {
    int32_t hook;
    float turn, lift;
  };
  using Base::Base;
  static paceline_spec action() { return hybrid({3}, {-1, 0}, {1, 2}); }
  paceline::Step step(const Action &a, float *obs) {
    *obs = static_cast<float>(a.hook) + 10 * a.turn + 100 * a.lift;
    return {5, 0};
  }
  static void step_many(std::size_t n, Crane *const *envs, const Action *actions, float *const *obs,
                        paceline::Step *steps) {
    for (std::size_t k = 0; k < n; k++) steps[k] = envs[k]->step(actions[k], obs[k]);
  }
};

struct Joints : Base {
  using Action = std::array<float, 2>;
  using Base::Base;
  static paceline_spec action() { return continuous({-1, -1}, {1, 1}); }
  paceline::Step step(const Action &a, float *obs) { return *obs = a[0] - a[1], paceline::Step{6, 0}; }
};

// The number of its tools is set before a family is made.
struct Robot : Base {
  using Base::Base;
  static paceline_spec action() { return hybrid(std::vector<int32_t>(tools, 3), {10}, {11}); }
  paceline::Step step(const int32_t *, const float *box, float *obs) { return *obs = box[0], paceline::Step{}; }
  static inline std::size_t tools = 1;
};

// The struct is not an action of the spec.
struct Short : Base {
  using Action = std::array<float, 2>;
  using Base::Base;
  static paceline_spec action() { return hybrid({3}, {-1, -1}, {1, 1}); }
  paceline::Step step(const Action &, float *) { return {}; }
};

// The spec is not that of step.
struct Confused : Base {
  using Base::Base;
  static paceline_spec action() { return discrete(2); }
  paceline::Step step(const float *, float *) { return {}; }
};

// Makes two environments by the functions of a table and steps the first one alone, then both together, if they can.
template <class Env, class Action>
static void table(const Action &first, const Action &second, float sum, float other, float reward, uint8_t ended) {
  const paceline::Environments envs = paceline::environments<Env>();
  const paceline_env_table &t = envs.table;
  paceline_spec obs = paceline::detail::sized<paceline_spec>(), action = obs;
  CHECK(t.spec(envs.user.get(), &obs, &action) == 0 && 4 * paceline::detail::action_numbers(action) == sizeof(Action));
  void *env[2];
  for (uint32_t i = 0; i < 2; i++) CHECK(t.create(envs.user.get(), i, 0, &env[i]) == 0);
  float seen[2] = {-1, -1}, rewards[2] = {0, 0};
  uint8_t ends[2] = {0, 0};
  CHECK(t.reset(env[0], &seen[0]) == 0 && seen[0] == 0);
  CHECK(t.step(env[0], &first, &seen[0], &rewards[0], &ends[0]) == 0);
  CHECK(seen[0] == sum && rewards[0] == reward && ends[0] == ended);
  if (t.step_many != nullptr) {
    const Action both[2] = {second, first};
    void *rows[2] = {&seen[0], &seen[1]};
    CHECK(t.step_many(envs.user.get(), 2, env, both, rows, rewards, ends) == 0);
    CHECK(seen[0] == other && seen[1] == sum && rewards[1] == reward && ends[1] == ended);
  }
  for (void *e : env) t.destroy(e);
}

static void tables() {
  table<Switch, int32_t>(5, 6, 5, 6, 1, 0);
  table<Buttons, std::array<int32_t, 2> >({2, 3}, {0, 1}, 32, 10, 2, PACELINE_TRUNCATED);
  table<Arm, std::array<float, 2> >({0.5f, 4}, {1, 1}, 4.5f, 2, 3, 0);
  table<Car, Car::Action>({2, 1, 0.25f}, {0, 1, -1}, 12.25f, 9, 4, PACELINE_TERMINATED);
  table<Crane, Crane::Action>({2, 0.5f, 1.5f}, {0, -1, 0}, 157, -10, 5, 0);
  table<Joints, Joints::Action>({0.5f, -0.25f}, {}, 0.75f, 0, 6, 0);

  const paceline_spec car = Car::action(), again = Car::action(), arm = Arm::action();
  CHECK(car.kind == PACELINE_HYBRID && car.dtype == PACELINE_FLOAT32 && car.num_branches == 2 && car.shape[0] == 1);
  CHECK(car.branches[0] == 3 && car.branches[1] == 2 && car.low[0] == -1 && car.high[0] == 1);
  CHECK(car.branches == again.branches && car.low == again.low);  // one copy
  CHECK(arm.kind == PACELINE_BOX && arm.num_branches == 0 && arm.low[1] == -2 && arm.high[1] > 1e38f);
  CHECK(paceline::detail::mask_bytes(car) == 5 && paceline::detail::mask_bytes(Switch::action()) == 7);
  try {
    Base::continuous({1}, {});
    CHECK(false);
  } catch (const std::invalid_argument &) {
  }
  throws(
      "action kind: 2, must be 1, the kind that step takes",
      [] { paceline::Trainer(paceline::Config("dqn"), paceline::environments<Confused>()); }, PACELINE_ECALLBACK);
  throws(
      "actions: of 8 bytes, must be of 12",
      [] { paceline::Trainer(paceline::Config("ppo"), paceline::environments<Short>()); }, PACELINE_ECALLBACK);
}

// Its bounds are set before a trainer is made.
struct Bounded : Base {
  using Base::Base;
  static paceline_spec action() { return continuous({low}, {high}); }
  paceline::Step step(const float *, float *obs) { return *obs = 0, paceline::Step{}; }
  static inline float low = 0, high = 0;
};

// NaN is refused, whatever bounds came before it, and changes no later ones.
static void bounds() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto make = [](float low, float high) {
    Bounded::low = low, Bounded::high = high;
    paceline::Trainer(paceline::Config("ppo"), paceline::environments<Bounded>());
  };
  make(-2, 2);
  throws("action low[0]: NaN, must be a number or infinite", [&] { make(nan, 1); });
  throws("action high[0]: NaN, must be a number or infinite", [&] { make(0, nan); });
  make(-3, 3);
}

// Its step_many first steps the environments of another table.
struct Planner : Base {
  using Base::Base;
  static paceline_spec action() { return discrete(2); }
  paceline::Step step(int32_t action, float *obs) { return *obs += static_cast<float>(action), paceline::Step{1, 0}; }
  static void step_many(std::size_t n, Planner *const *envs, const int32_t *actions, float *const *obs,
                        paceline::Step *steps) {
    if (const std::function<void()> first = std::exchange(plan, nullptr)) first();
    for (std::size_t k = 0; k < n; k++) steps[k] = envs[k]->step(actions[k], obs[k]);
  }
  static inline std::function<void()> plan;
};

// step_many may step other environments of its class, and the inner call may fail.
static void nested() {
  const paceline::Environments envs = paceline::environments<Planner>();
  const paceline_env_table &t = envs.table;
  void *env[4];
  for (uint32_t i = 0; i < 4; i++) CHECK(t.create(envs.user.get(), i, 0, &env[i]) == 0);
  float seen[4] = {0, 10, 20, 30}, rewards[4];
  void *rows[4] = {&seen[0], &seen[1], &seen[2], &seen[3]};
  uint8_t ends[4];
  const int32_t actions[2] = {1, 1};
  const auto many = [&](std::size_t first) {
    return t.step_many(envs.user.get(), 2, env + first, actions, rows + first, rewards + first, ends + first);
  };
  Planner::plan = [&] { CHECK(many(2) == 0); };
  CHECK(many(0) == 0 && seen[0] == 1 && seen[1] == 11 && seen[2] == 21 && seen[3] == 31);
  Planner::plan = [&] {
    Planner::plan = [] { throw std::runtime_error("no plan"); };
    CHECK(many(2) != 0);
  };
  CHECK(many(0) == 0 && seen[0] == 2 && seen[1] == 12 && seen[2] == 21 && seen[3] == 31);
  for (void *e : env) t.destroy(e);
}

// Each family of a class keeps its own number of branches.
static void families() {
  struct {
    int32_t branches[2];
    float box;
  } two = {{0, 0}, 10.5f};
  struct {
    int32_t branch;
    float box;
  } one = {0, 10.5f};
  const void *actions[] = {&one, &two};
  const paceline::Environments envs[] = {paceline::environments<Robot>(), paceline::environments<Robot>()};
  void *env[2];
  for (std::size_t k = 0; k < 2; k++) {
    paceline_spec obs = paceline::detail::sized<paceline_spec>(), action = obs;
    Robot::tools = k + 1;
    CHECK(envs[k].table.spec(envs[k].user.get(), &obs, &action) == 0);
    CHECK(envs[k].table.create(envs[k].user.get(), 0, 0, &env[k]) == 0);
  }
  for (std::size_t k = 0; k < 2; k++) {
    float seen = 0, reward;
    uint8_t ended;
    CHECK(envs[k].table.step(env[k], actions[k], &seen, &reward, &ended) == 0 && seen == 10.5f);
    envs[k].table.destroy(env[k]);
  }
}

struct Act {
  int32_t branch[3];
  float box[2];
};

static void vectors(const std::string &folder) {
  paceline::VecEnv multi(paceline::load_env(folder + "/multi.so"), 2);
  multi.reset();
  CHECK(multi.rows().action_masks.size() == 2 * 9);
  CHECK(multi.step(std::vector<int32_t>{2, 0, 4, 1, 0, 3}).obs<float>(1)[3] == 3);
  CHECK(multi.step(std::vector<std::array<int32_t, 3> >{{0, 0, 1}, {2, 0, 0}}).obs<float>(1)[1] == 2);
  throws("actions: 5, must be 6", [&] { multi.step(std::vector<int32_t>(5)); });
  throws("actions: float, must be int32_t", [&] { multi.step(std::vector<float>(6)); });
  throws("environment 1: action branch 0: 3, must be 0 to 2",
         [&] { multi.step(std::vector<int32_t>{0, 0, 0, 3, 0, 0}); });

  paceline::VecEnv box(paceline::load_env(folder + "/continuous.so"), 2);
  box.reset();
  CHECK(box.rows().action_masks.empty() && box.step(std::vector<float>{1, 2, -1, 4}).obs<float>(1)[2] == 4);
  throws("actions: int32_t, must be float", [&] { box.step(std::vector<int32_t>(4)); });
  throws("environment 0: action[0]: 2.5, must be -1 to 2", [&] { box.step(std::vector<float>{2.5f, 0, 0, 0}); });

  paceline::VecEnv hybrid(paceline::load_env(folder + "/hybrid.so"), 2);
  hybrid.reset();
  const float *obs = hybrid.step(std::vector<Act>{{{1, 0, 2}, {-1, 1e20f}}, {{2, 0, 4}, {0.5f, -3}}}).obs<float>(0);
  CHECK(obs[1] == 1 && obs[3] == 2 && obs[4] == -1 && obs[5] == 1e20f && obs[6 + 1] == 2 && obs[6 + 5] == -3);
  throws("actions: numbers, must be a struct of int32_t and float", [&] { hybrid.step(std::vector<float>(10)); });
  throws("actions: of 16 bytes, must be of 20", [&] { hybrid.step(std::vector<std::array<float, 4> >(2)); });
  throws("actions: 1, must be 2", [&] { hybrid.step(std::vector<Act>(1)); });
  throws("environment 1: action[1]: NaN, must be finite",
         [&] { hybrid.step(std::vector<Act>{{}, {{0, 0, 0}, {0, std::numeric_limits<float>::quiet_NaN()}}}); });
  hybrid.send_reset({0, 1});
  const std::vector<int32_t> ids = hybrid.recv().env_ids;
  hybrid.send(ids, std::vector<Act>{{{1, 0, 1}, {2, 5}}, {{1, 0, 1}, {2, 6}}});
  const paceline::Rows &rows = hybrid.recv();
  CHECK(rows.obs<float>(0)[5] == 5 && rows.obs<float>(1)[5] == 6);
}

static paceline::Policy policy_of(const char *env) {
  paceline::Config cfg("ppo");
  cfg.set("env", env).set("num_envs", 2).set("n_steps", 8).set("batch_size", 16).set("seed", 3);
  paceline::Trainer trainer(cfg);
  trainer.run(32);
  return trainer.policy();
}

// A policy returns the struct that step takes.
static void structs() {
  paceline::Config cfg("ppo");
  cfg.set("num_envs", 2).set("n_steps", 8).set("batch_size", 16).set("seed", 3);
  paceline::Trainer trainer(cfg, paceline::environments<Crane>());
  trainer.run(32);
  const float obs[] = {0.5f};
  const Crane::Action action = trainer.policy().act<Crane::Action>(obs);
  CHECK(action.hook >= 0 && action.hook < 3 && action.turn >= -1 && action.turn <= 1);
  CHECK(action.lift >= 0 && action.lift <= 2);
}

// The policies act in the environments that vectors loaded.
static void policies() {
  const paceline::Policy multi = policy_of("Multi-v0"), box = policy_of("Continuous-v0"),
                         hybrid = policy_of("Hybrid-v0");
  const std::vector<float> four(4, 0.5f), six(12, 0.25f);
  using Branches = std::array<int32_t, 3>;
  const std::vector<int32_t> flat = multi.act(four);
  const Branches one = multi.act<Branches>(four.data());
  CHECK(flat.size() == 3 && std::equal(one.begin(), one.end(), flat.begin()));
  CHECK(multi.act<Branches>(four).at(0) == one);
  const uint8_t mask[9] = {0, 0, 1, 1, 0, 1, 0, 0, 0};
  paceline::ActOptions only;
  only.action_masks = mask;
  CHECK((multi.act<Branches>(four, only).at(0) == Branches{2, 0, 1}));
  CHECK((multi.act<Branches>(four.data(), only) == Branches{2, 0, 1}));

  const std::vector<float> three(6, -0.5f), moves = box.act<float>(three);
  CHECK(moves.size() == 4 && moves[0] == moves[2] && moves[0] >= -1 && moves[0] <= 2);
  CHECK((box.act<std::array<float, 2> >(three.data())[1] == moves[1]));

  Act acts[2];
  hybrid.act(2, six.data(), acts);
  const Act same = hybrid.act<Act>(six.data());
  CHECK(std::memcmp(&acts[0], &same, sizeof same) == 0 && std::memcmp(&acts[1], &same, sizeof same) == 0);
  CHECK(hybrid.act<Act>(six).size() == 2);

  throws("actions: int32_t, must be float", [&] { box.act(three); });
  throws("actions: float, must be int32_t", [&] { multi.act<float>(four); });
  throws("action: one number, must be an array of 3", [&] { multi.act(four.data()); });
  throws("actions: numbers, must be a struct of int32_t and float", [&] { hybrid.act(six); });
  throws("actions: of 8 bytes, must be of 12", [&] { multi.act<std::array<int32_t, 2> >(four); });
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  tables();
  bounds();
  nested();
  families();
  vectors(argv[1]);
  policies();
  structs();
  return 0;
}
