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

int main() {
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
