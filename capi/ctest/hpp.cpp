// paceline.hpp: owners, errors, environments as classes. The second file of the program includes
// it, too, after paceline.h.
#include "check.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

int second_unit();  // hpp_second.cpp

static int alive;
enum Fault { none, in_constructor, in_reset, in_step, odd_type };
static Fault fault;

// Counts to 9; has save and restore.
struct Counter : paceline::Environment<float> {
  static paceline_spec observation() { return box({2}); }
  static paceline_spec action() { return discrete(3); }
  Counter(uint32_t index, uint64_t seed) : seed_(seed) {
    if (fault == in_constructor && index == 1) throw std::runtime_error("no memory for another counter");
    alive++;
  }
  ~Counter() { alive--; }
  Counter(const Counter &) = delete;
  void reset(float *obs) {
    if (fault == in_reset) throw std::logic_error("reset: refused");
    seed_ = seed_ * 6364136223846793005u + 1;
    n_ = 0;
    show(obs);
  }
  paceline::Step step(int32_t action, float *obs) {
    CHECK(action >= 0 && action < 3);
    if (n_++ == 5 && fault == in_step) throw std::out_of_range("step: index 7 of 5");
    if (n_ == 5 && fault == odd_type) throw 42;
    show(obs);
    return {static_cast<float>(action == static_cast<int32_t>(seed_ >> 40) % 3),
            static_cast<uint8_t>(n_ == 9 ? PACELINE_TERMINATED : 0)};
  }
  std::string save() { return {reinterpret_cast<const char *>(&seed_), sizeof seed_ + sizeof n_}; }
  void restore(const std::string &state) {
    if (state.size() != sizeof seed_ + sizeof n_) throw std::runtime_error("no counter's state");
    std::memcpy(static_cast<void *>(&seed_), state.data(), state.size());
  }

 private:
  void show(float *obs) const {
    obs[0] = static_cast<float>(n_) / 9;
    obs[1] = static_cast<float>(seed_ >> 40 & 3);
  }
  uint64_t seed_;
  uint64_t n_ = 0;
};

// Images, without save and restore, made by a lambda with a capture.
struct Image : paceline::Environment<uint8_t> {
  static paceline_spec observation() { return box({1, 36, 36}); }
  static paceline_spec action() { return discrete(2); }
  static constexpr bool waits = true;
  explicit Image(int shade) : shade_(shade) {}
  void reset(uint8_t *obs) { std::memset(obs, shade_, 36 * 36); }
  paceline::Step step(int32_t, uint8_t *obs) {
    reset(obs);
    return {1, static_cast<uint8_t>(++n_ % 5 ? 0 : PACELINE_TRUNCATED)};
  }
  int shade_, n_ = 0;
};

// A Counter that forbids one action in each step.
struct Masked : Counter {
  using Counter::Counter;
  void mask(uint8_t *mask) {
    for (int32_t a = 0; a < 3; a++) mask[a] = a != not_;
  }
  paceline::Step step(int32_t action, float *obs) {
    CHECK(action != not_);
    not_ = (not_ + 1) % 3;
    return Counter::step(action, obs);
  }
  int32_t not_ = 0;
};

// The same, stepped together.
struct Joined : Counter {
  using Counter::Counter;
  static void step_many(std::size_t n, Joined *const *envs, const int32_t *actions, float *const *obs,
                        paceline::Step *steps) {
    calls++;
    for (std::size_t k = 0; k < n; k++) steps[k] = envs[k]->step(actions[k], obs[k]);
  }
  static inline int calls = 0;
};

static_assert(paceline::detail::CanStepMany<Joined>::value && !paceline::detail::CanStepMany<Counter>::value);
static_assert(paceline::detail::CanMask<Masked>::value && !paceline::detail::CanMask<Counter>::value);
static_assert(paceline::detail::CanSave<Counter>::value);
static_assert(paceline::detail::Waits<Image>::value && !paceline::detail::Waits<Counter>::value);
static_assert(!paceline::detail::CanSave<Image>::value);
static_assert(!std::is_copy_constructible_v<paceline::Trainer> &&
              std::is_nothrow_move_constructible_v<paceline::Trainer>);
static_assert(std::is_move_assignable_v<paceline::Policy> && std::is_move_assignable_v<paceline::VecEnv>);

static paceline::Config small() {
  paceline::Config cfg("dqn");
  cfg.set("num_envs", 4).set("learning_starts", 100).set("batch_size", 16).set("buffer_size", 2000);
  cfg.set("net_arch", "16").set("window", 50).set("target_update_interval", 100).set("optimizer_eps", 1e-8);
  return cfg;
}

int main() {
  // Settings: numbers keep all digits.
  paceline::Config cfg = small();
  CHECK(cfg.get("optimizer_eps") == "1e-08" && cfg.get("num_envs") == "4");
  CHECK(cfg.set("learning_rate", 2.5e-5f).get("learning_rate").substr(0, 7) == "2.5e-05" ||
        cfg.get("learning_rate").substr(0, 5) == "2.499");
  CHECK(cfg.set("concurrent", false).get("concurrent") == "false");
  cfg.set("concurrent", true).set("learning_rate", 1e-3).set("seed", INT64_C(1) << 62);
  CHECK(cfg.get("seed") == "4611686018427387904");
  cfg.set("seed", 5);
  throws(PACELINE_EINVAL, "gamma: 2", [&] { cfg.set("gamma", 2); });
  throws(PACELINE_EINVAL, "env", [&] { paceline::Trainer t(cfg); });
  throws(PACELINE_EIO, "nothing.paceline", [&] { paceline::Policy p("nothing.paceline"); });
  // A text with a NUL byte inside is refused, not cut.
  const std::string cut("8\0 16", 5), path("/tmp\0/x", 7);
  throws(PACELINE_EINVAL, "value: a NUL byte inside", [&] { cfg.set("num_envs", cut); });
  throws(PACELINE_EINVAL, "key: a NUL byte inside", [&] { cfg.get(std::string("seed\0", 5)); });
  throws(PACELINE_EINVAL, "path: a NUL byte inside", [&] { paceline::Config::load(path); });
  throws(PACELINE_EINVAL, "env_options: a NUL byte inside", [&] {
    paceline::VecOptions o;
    o.env_options = std::string("{}\0", 3);
    paceline::VecEnv("CartPole-v1", 1, o);
  });
  throws(PACELINE_EINVAL, "optimizer: a NUL byte inside", [&] {
    paceline::StoreOptions o;
    o.optimizer = std::string("adam\0", 5);
    paceline::Store({1.0f}, o);
  });

  CHECK(paceline::environments<Counter>().table.flags == 0);
  auto moved = paceline::environments<Counter>();
  paceline::Trainer(cfg, std::move(moved));
  throws(PACELINE_EINVAL, "envs: moved from", [&] { paceline::Trainer(cfg, std::move(moved)); });
  CHECK(paceline::environments<Image>([](uint32_t, uint64_t) { return std::make_unique<Image>(1); }).table.flags ==
        PACELINE_ENV_WAITS);
  {
    paceline::Trainer t(cfg, paceline::environments<Masked>());
    t.run(500);
    CHECK(t.config().get("action_masks") == "true");
    const std::vector<uint8_t> masks = {0, 1, 0, 0, 0, 1};
    paceline::ActOptions options;
    options.action_masks = masks.data();
    CHECK(t.policy().act(std::vector<float>(4), options) == std::vector<int32_t>({1, 2}));
  }
  {
    paceline::Trainer together(cfg, paceline::environments<Joined>()), alone(cfg, paceline::environments<Counter>());
    together.run(400);
    alone.run(400);
    CHECK(Joined::calls == 100 && together.hash("q_net") == alone.hash("q_net"));
    fault = in_step;
    throws(PACELINE_ECALLBACK, "step: index 7 of 5", [&] { together.run(100); });
    fault = none;
    together.run(100);
  }
  // A race is repeated from the file of its order.
  {
    const std::string order =
        std::string(std::getenv("TMPDIR") == nullptr ? "/tmp" : std::getenv("TMPDIR")) + "/hpp.order";
    paceline::Config a3c("a3c");
    a3c.set("num_envs", 4).set("learners", 4).set("schedule", "race");
    paceline::Trainer race(a3c, paceline::environments<Counter>());
    race.run(1000);
    race.save_order(order);
    a3c.set("schedule", "recorded").set("order", order);
    paceline::Trainer again(a3c, paceline::environments<Counter>());
    again.run(1000);
    CHECK(again.hash("policy") == race.hash("policy"));
    throws(PACELINE_EINVAL, "order: learners is 0",
           [&] { paceline::Trainer(cfg, paceline::environments<Counter>()).save_order(order); });
  }
  // The proposals of GA3C's tuner are written, and only where there is a tuner.
  {
    const std::string trace =
        std::string(std::getenv("TMPDIR") == nullptr ? "/tmp" : std::getenv("TMPDIR")) + "/hpp.csv";
    paceline::Config ga3c("ga3c");
    ga3c.set("num_envs", 8).set("tuner", "ladder").set("tuner_period", 0.05).set("tuner_pairs", 2);
    paceline::Trainer t(ga3c, paceline::environments<Counter>());
    t.run(1200);
    t.save_trace(trace);
    std::ifstream file(trace);
    std::string line;
    int lines = 0;
    while (std::getline(file, line)) {
      CHECK(lines > 0 ? line.rfind(std::to_string(lines) + ",", 0) == 0
                      : line == "period,time,predictors,trainers,agents,old,new,statistic,kept");
      lines++;
    }
    CHECK(lines > 2 && lines == 1 + static_cast<int>(t.metric("ga3c/tuner_periods")));
    throws(PACELINE_EIO, "no such file or directory", [&] { t.save_trace("/nowhere/trace.csv"); });
    throws(PACELINE_EINVAL, "trace: dqn adjusts nothing",
           [&] { paceline::Trainer(cfg, paceline::environments<Counter>()).save_trace(trace); });
  }
  // A family is made and saved, and all its environments are freed.
  const std::string folder = std::getenv("TMPDIR") == nullptr ? "/tmp" : std::getenv("TMPDIR");
  {
    paceline::Trainer t(cfg, paceline::environments<Counter>());
    CHECK(alive == 4);
    t.begin(1000);
    CHECK(t.run(333).num_timesteps >= 333);
    t.save(folder + "/hpp.paceline", true);
    t.run();
    paceline::Trainer u(cfg, paceline::environments<Counter>());
    u.load(folder + "/hpp.paceline");
    u.run();
    for (const char *part : {"replay", "q_net", "q_net_target"})
      CHECK(t.hash(part) == u.hash(part) && t.hash(part).size() == 64);
    throws(PACELINE_EINVAL, "part: \"weights\"", [&] { t.hash("weights"); });
    CHECK(paceline::Config::load(folder + "/hpp.paceline").method() == "dqn");
    CHECK(paceline::Config::load(folder + "/hpp.paceline").get("seed") == "5" && t.config().get("actor") == "snapshot");
    CHECK(t.metric("replay_size") > 0 && t.metrics().size() > 3 &&
          t.describe().find("\"method\":\"dqn\"") != std::string::npos);
    throws(PACELINE_EINVAL, "metric: \"speed\"", [&] { t.metric("speed"); });
    int64_t updates = -1;
    std::vector<float> theta = t.parameters("q_net", &updates);
    CHECK(theta.size() == 2 * 16 + 16 + 16 * 3 + 3 && updates == t.stats().updates);
    theta[0] = 5;
    u.set_parameters("q_net", theta);
    CHECK(u.parameters("q_net") == theta && u.parameters("q_net_target") == t.parameters("q_net_target"));
    u.set_parameters("q_net", t.parameters("q_net"));
    throws(PACELINE_EINVAL, "set: \"pi\"", [&] { t.parameters("pi"); });
    paceline::Trainer moved = std::move(t);
    CHECK(t.get() == nullptr && moved.stats().num_timesteps == 1000 && moved.notice().empty() &&
          !moved.proposal().empty());
    throws(PACELINE_EINVAL, "t: NULL", [&] { t.metrics(); });
    u = std::move(moved);
    CHECK(alive == 4);
    paceline::Policy p = u.policy();
    const float obs[] = {0, 1, 0.5f, 2};
    CHECK(p.size() == 2 && p.act(obs) >= 0 && p.act(std::vector<float>(obs, obs + 4)).size() == 2);
    throws(PACELINE_EINVAL, "multiple of 2", [&] { p.act(std::vector<float>(3)); });
    CHECK(p.outputs().size() == 1 && p.outputs()[0].name == "q" && p.outputs()[0].len == 3);
    const std::vector<float> rows(obs, obs + 4);
    paceline::ActOptions drawn;
    drawn.epsilon = 1, drawn.seed = 3;
    CHECK(p.act(rows, drawn) == p.act(rows, drawn));
    bool differs = false;
    for (drawn.counter = 1; drawn.counter < 20; drawn.counter++)
      differs |= p.act(rows, drawn) != p.act(rows, {false, 1, 3, 0});
    CHECK(differs);
    const paceline::Policy same = paceline::Policy::from_bytes(p.to_bytes());
    float q[2][6], *first[] = {q[0]}, *second[] = {q[1]};
    int32_t chosen[2];
    p.act(2, obs, chosen, first);
    same.act(2, obs, chosen, second);
    CHECK(std::memcmp(q[0], q[1], sizeof q[0]) == 0 && q[0][0] != 0);
    throws(PACELINE_EIO, "", [] { paceline::Policy::from_bytes("nothing"); });
    throws(PACELINE_EINVAL, "env", [&] { p.evaluate("Nope-v0"); });
    const uint8_t bytes[2] = {0, 0};
    throws(PACELINE_EINVAL, "uint8_t, must be float", [&] { p.act(bytes); });
  }
  CHECK(alive == 0);

  // Exceptions keep their text and do not cross C code.
  fault = in_constructor;
  throws(PACELINE_ECALLBACK, "no memory for another counter",
         [&] { paceline::Trainer t(cfg, paceline::environments<Counter>()); });
  CHECK(alive == 0);
  fault = in_reset;
  throws(PACELINE_ECALLBACK, "reset: refused",
         [&] { paceline::Trainer(cfg, paceline::environments<Counter>()).run(100); });
  try {
    paceline::Trainer(cfg, paceline::environments<Counter>()).run(100);
    CHECK(false);
  } catch (const paceline::Error &e) {
    CHECK(e.index() == 0 && std::strncmp(e.what(), "environment 0: ", 15) == 0);
  }
  fault = in_step;
  throws(PACELINE_ECALLBACK, "step: index 7 of 5",
         [&] { paceline::Trainer(cfg, paceline::environments<Counter>()).run(100); });
  fault = odd_type;
  throws(PACELINE_ECALLBACK, "not a std::exception",
         [&] { paceline::Trainer(cfg, paceline::environments<Counter>()).run(100); });
  fault = none;
  throws(PACELINE_ECALLBACK, "no environment was made", [&] {
    paceline::Trainer t(cfg, paceline::environments<Counter>([](uint32_t, uint64_t) { return nullptr; }));
  });
  CHECK(alive == 0);
  {
    auto unused = paceline::environments<Counter>();
  }

  int shade = 7;
  cfg.set("train_freq", 50);
  paceline::Trainer images(cfg, paceline::environments<Image>([shade](uint32_t i, uint64_t) {
                             return std::make_unique<Image>(shade + static_cast<int>(i));
                           }));
  CHECK(images.run(200).episodes > 20);

  // Environments that the program steps: all together,
  paceline::VecOptions options;
  options.num_threads = 1, options.autoreset = PACELINE_SAME_STEP;
  paceline::VecEnv vec("CartPole-v1", 4, options);
  CHECK(vec.num_envs() == 4 && vec.rows().size() == 4 && vec.observation().shape[0] == 4 && vec.action().n == 2);
  throws(PACELINE_EINVAL, "seeds: 2, must be 4", [&] { vec.reset({1, 2}); });
  throws(PACELINE_EINVAL, "mask: 1, must be 4", [&] { vec.reset({}, {1}); });
  const std::vector<uint64_t> seeds = {1, 2, 3, 4};
  const float first = vec.reset(seeds).obs<float>(2)[1];
  CHECK(vec.rows().started[3] == 1 && first != 0);
  const paceline::Rows &rows = vec.rows();
  paceline::VecEnv other = std::move(vec);  // arrays stay where they are
  CHECK(&rows == &other.rows() && rows.obs<float>()[9] == first && vec.get() == nullptr);
  throws(PACELINE_EHANDLE, "moved", [&] { vec.reset(); });
  other.step(std::vector<int32_t>{1, 0, 1, 0});
  CHECK(rows.rewards[0] == 1 && rows.started[3] == 0 && !rows.ended(0) && rows.env_ids[3] == 3);
  other.reset({}, {0, 1, 0, 0});
  CHECK(rows.rewards[0] == 1 && rows.rewards[1] == 0 && rows.started[1] == 1);
  throws(PACELINE_EINVAL, "actions: 3, must be 4", [&] { other.step(std::vector<int32_t>(3)); });
  throws(PACELINE_EINVAL, "actions: float, must be int32_t", [&] { other.step(std::vector<float>(4)); });
  throws(PACELINE_EINVAL, "obs: uint8, must be float32", [&] { rows.obs<uint8_t>(); });
  throws(PACELINE_EINVAL, "row: 4, must be below 4", [&] { rows.obs<float>(4); });
  throws(PACELINE_EINVAL, "\"lives\" is not reported", [&] { rows.info<int32_t>("lives", 0); });
  CHECK(other.columns().empty() && other.describe().find("CartPole-v1") != std::string::npos);
  const std::vector<uint8_t> state = other.save(2);
  options.env_options = "{\"gravity\": 9}";
  throws(PACELINE_EINVAL, "gravity", [&] { paceline::VecEnv("CartPole-v1", 1, options); });
  CHECK(other.render(0).rgb.size() == 3u * other.render(0).height * other.render(0).width &&
        other.render(0).width == 600);

  // and asynchronously: in any order, the rows are those of a vector stepped in lockstep.
  options = {};
  options.batch_size = 3, options.num_threads = 2, options.autoreset = PACELINE_SAME_STEP;
  paceline::VecEnv async("CartPole-v1", 8, options);
  throws(PACELINE_EINVAL, "0 environments are under way", [&] { async.recv(); });
  std::vector<paceline::VecEnv> single;
  std::vector<int32_t> all;
  std::vector<uint64_t> each;
  for (int32_t i = 0; i < 8; i++) {
    all.push_back(i), each.push_back(static_cast<uint64_t>(50 + i));
    single.emplace_back("CartPole-v1", 1, paceline::VecOptions{0, 1, PACELINE_SAME_STEP});
    single.back().reset({each.back()});
  }
  throws(PACELINE_EINVAL, "seeds: 4, must be 8", [&] { async.send_reset(all, seeds); });
  async.send_reset(all, each);
  throws(PACELINE_EINVAL, "must be received first", [&] { async.step(std::vector<int32_t>(8)); });
  int ends = 0;
  for (int i = 0; i < 1000; i++) {
    if (i == 500) {  // moved while some are under way
      paceline::VecEnv moved = std::move(async);
      async = std::move(moved);
    }
    const paceline::Rows &got = async.recv();
    CHECK(got.size() == 3);
    std::vector<int32_t> actions;
    for (std::size_t k = 0; k < 3; k++) {
      paceline::VecEnv &same = single[static_cast<std::size_t>(got.env_ids[k])];
      CHECK(std::memcmp(got.obs<float>(k), same.rows().obs<float>(), 16) == 0 && got.ended(k) == same.rows().ended(0));
      if (got.ended(k)) CHECK(std::memcmp(got.final_obs<float>(k), same.rows().final_obs<float>(), 16) == 0);
      CHECK(got.started[k] == same.rows().started[0] && got.rewards[k] == same.rows().rewards[0]);
      ends += got.ended(k);
      actions.push_back((i + got.env_ids[k]) % 2);
      same.step(std::vector<int32_t>{actions.back()});
    }
    async.send(got.env_ids, actions);
  }
  CHECK(ends > 20 && async.under_way() == 8);
  async.drain();
  CHECK(async.under_way() == 0);
  async.reset(each);
  async.restore(5, state);
  async.send_reset(all);
  async = paceline::VecEnv("CartPole-v1", 1);  // some of the old ones are under way

  // A first send that is refused changes nothing.
  options = {};
  options.batch_size = 2, options.num_threads = 1, options.env_options = R"({"decorrelation_steps": 10000000})";
  paceline::VecEnv busy("CartPole-v1", 4, options);
  const auto is_busy = [](auto &&f) {
    try {
      f();
    } catch (const paceline::Error &e) {
      return e.code() == PACELINE_EBUSY;
    }
    return false;
  };
  std::thread reset([&] {
    while (is_busy([&] { busy.reset(); })) std::this_thread::yield();
  });
  while (!is_busy([&] { busy.step(std::vector<int32_t>(4)); })) std::this_thread::yield();
  throws(PACELINE_EBUSY, "in progress", [&] { busy.send_reset({0, 1, 2, 3}); });
  reset.join();
  options.env_options = {};
  busy.send_reset({0, 1, 2, 3}, {1, 2, 3, 4});
  for (int32_t k = 0; k < 4; k += 2) {
    const paceline::Rows &got = busy.recv();
    CHECK(got.started[0] && got.started[1] && got.env_ids[0] + got.env_ids[1] == 2 * k + 1);
  }

  // Columns of infos, from the library's description.
  const auto columns = paceline::detail::columns(
      R"({"env":"x","infos":[{"dtype":"int32","len":0,"name":"lives"},{"name":"ram","len":128,"dtype":"uint8"}],"max_steps":0})");
  CHECK(columns.size() == 2 && columns[0].name == "lives" && columns[0].bytes() == 4 && columns[1].len == 128 &&
        columns[1].dtype == "uint8");
  if (const char *roms = std::getenv("PACELINE_ROMS_DIR"); roms != nullptr && *roms != 0) {
    paceline::VecEnv pong("Pong", 2, {0, 2, PACELINE_NEXT_STEP, -1, R"({"continuous": true, "ram_info": true})"});
    pong.reset();
    pong.step(std::vector<float>(6));
    CHECK(pong.rows().info<int32_t>("episode_frame_number", 1)[0] > 0 &&
          pong.rows().info<uint8_t>("game_over", 0)[0] == 0);
    CHECK(pong.columns().back().name == "ram" &&
          pong.rows().info<uint8_t>("ram", 1) - pong.rows().info<uint8_t>("ram", 0) == 128);
    throws(PACELINE_EINVAL, "info lives: float32, must be int32", [&] { pong.rows().info<float>("lives", 0); });
    CHECK(pong.rows().obs<uint8_t>(1) - pong.rows().obs<uint8_t>() == 4 * 84 * 84);
  }
  throws(PACELINE_EIO, "nothing.so", [] { paceline::load_env("nothing.so"); });

  paceline::Trainer push(small(), other.observation(), other.action());
  other.reset();
  std::vector<int32_t> actions(4);
  push.begin(100);
  push.act(other.arrays(), actions.data());
  other.step(actions);
  push.observe(other.arrays(), 1000);
  CHECK(push.stats().num_timesteps == 4);
  throws(PACELINE_EINVAL, "rows.rewards: NULL", [&] {
    paceline_rows least = other.arrays();
    least.rewards = nullptr;
    push.act(least, actions.data());
    push.observe(least);
  });
  return second_unit();
}
