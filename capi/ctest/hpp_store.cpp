// paceline::Store, and a Trainer whose updates come from outside.
#include "check.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

static paceline::Trainer trainer(const char *updates) {
  paceline::Config cfg("a2c");
  cfg.set("env", "CartPole-v1").set("num_envs", 4).set("seed", 2).set("net_arch_pi", "16").set("net_arch_vf", "16");
  cfg.set("use_rms_prop", false).set("updates", updates);
  paceline::Trainer made(cfg);
  made.begin(400);
  return made;
}

// A replay memory of one trainer, and a gradient of another one.
static void decoupled() {
  paceline::Config cfg("dqn");
  cfg.set("env", "CartPole-v1")
      .set("num_envs", 2)
      .set("net_arch", "16")
      .set("updates", "outside")
      .set("clock", "updates");
  cfg.set("concurrent", "false").set("batch_size", 2).set("prioritized", "dqn_zoo").set("buffer_size", 100);
  paceline::Trainer memory(cfg), learner(cfg);
  float obs[4][4] = {}, seen[2][4], after[2][4], rewards[3] = {1, 2, 3}, paid[2], discounts[2], weights[2];
  int32_t actions[3] = {0, 1, 0}, taken[2];
  for (int i = 0; i < 16; i++) obs[i / 4][i % 4] = static_cast<float>(i);
  paceline_steps steps = {sizeof steps, 3, 1, PACELINE_TERMINATED, obs, actions, rewards, nullptr};
  memory.add_steps(1, steps);
  throws(PACELINE_EINVAL, "env: 2, must be 0 to 1", [&] { memory.add_steps(2, steps); });
  steps.begins = 0;
  throws(PACELINE_EINVAL, "begins: 0, must be 1", [&] { memory.add_steps(1, steps); });
  steps.begins = 1, steps.num_steps = 1u << 31;
  throws(PACELINE_EINVAL, "steps.num_steps: 2147483648, must be at most", [&] { memory.add_steps(1, steps); });
  std::vector<int64_t> identities(2);
  std::vector<float> errors(2), grad;
  paceline_minibatch batch = {sizeof batch, 2, seen, after, taken, paid, discounts, weights, nullptr, identities.data(),
                              errors.data()};
  memory.draw(batch, 1);
  for (int row = 0; row < 2; row++) {
    const int step = static_cast<int>(paid[row]) - 1;
    CHECK(seen[row][0] == obs[step][0] && taken[row] == actions[step] && discounts[row] == (step == 2 ? 0 : 0.99f));
  }
  const paceline_gradient g = learner.gradient_of(batch, grad);
  CHECK(g.state == PACELINE_GRADIENT_READY && g.number == 1 && g.rows == 2 && errors[0] > 0 && grad.size() == 114);
  memory.set_errors(identities, errors);
  throws(PACELINE_EINVAL, "errors: 1, must be 2, one for each identity",
         [&] { memory.set_errors(identities, {1.0f}); });
  throws(PACELINE_EINVAL, "errors: 2, must be 1, one for each identity", [&] { memory.set_errors({0}, errors); });
  batch.num_rows = 1;
  throws(PACELINE_EINVAL, "minibatch.num_rows: 1, must be batch_size (2)", [&] { memory.draw(batch); });
  batch.num_rows = 1u << 31;
  throws(PACELINE_EINVAL, "minibatch.num_rows: 2147483648, must be at most", [&] { learner.gradient_of(batch, grad); });
}

int main() {
  decoupled();
  paceline::Trainer own = trainer("own"), outside = trainer("outside");
  own.run();
  throws(PACELINE_EINVAL, "run: the updates of this trainer come from outside", [&] { outside.run(); });
  paceline::StoreOptions options;
  options.optimizer = "adam", options.eps = 1e-5, options.first = 7, options.max_staleness = 2;
  paceline::Store store(outside.parameters("policy"), options);
  std::vector<float> grad, theta;
  int64_t seen = 0, updates = 0;
  for (;;) {
    const paceline_gradient g = outside.gradient(grad);
    if (g.state == PACELINE_GRADIENT_NONE) break;
    const paceline::Answer a = store.push(grad, g.learning_rate, seen, {3, 0, g.number});
    CHECK(grad.size() == store.size() && g.number == ++updates && a.version == updates && a.lag == 0 && !a.stale &&
          !a.duplicate);
    seen = store.pull(theta);
    outside.adopt(theta, seen);
  }
  CHECK(updates > 10 && own.hash("policy") == outside.hash("policy"));

  const paceline::Answer again = store.push(grad, 0.1, seen, {3, 0, 5});
  CHECK(again.duplicate && !again.stale && again.version == 5);
  const paceline::Answer late = store.push(grad, 0.1, 0, {4, 0, 1});
  CHECK(late.stale && !late.duplicate && late.lag == updates);
  throws(PACELINE_EINVAL, "must be ", [&] { store.push(grad.data(), 3, 0.1, seen, {4, 0, 2}); });
  grad[1] = NAN;
  throws(PACELINE_ENAN, "grad: number 1 is NaN", [&] { store.push(grad, 0.1, seen, {4, 0, 2}); });
  throws(PACELINE_ENAN, "parameters: number 1 is NaN", [&] { outside.adopt(grad, 0); });

  const char *folder = std::getenv("TMPDIR");
  const std::string path = std::string(folder == nullptr ? "/tmp" : folder) + "/hpp.store";
  store.save(path);
  paceline::Store loaded = paceline::Store::load(path), copy = paceline::Store::from_bytes(store.to_bytes());
  CHECK(loaded.describe() == store.describe() && copy.describe() == store.describe() && copy.size() == store.size());
  copy = std::move(loaded);
  CHECK(copy.pull(grad) == seen && grad == theta && loaded.get() == nullptr);
  throws(PACELINE_EIO, "not a whole checkpoint", [] { paceline::Store::from_bytes("x"); });
  std::remove(path.c_str());
  return 0;
}
