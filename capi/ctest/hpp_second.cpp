#include <paceline.h>
#include <paceline.h>
#include <paceline.hpp>
#include <paceline.hpp>

int second_unit() {
  paceline::Config cfg("dqn");
  cfg.preset("tuned", "CartPole-v1");
  paceline::Trainer t(cfg);
  t.settle();
  const paceline::Policy p = t.policy();
  if (p.evaluate("CartPole-v1", {2}).episodes != 2) return 1;
  // CartPole has no frames and no start states.
  paceline::EvalOptions limited, started;
  limited.max_frames = 9, started.starts = {{1, 2}, {3}};
  for (const auto &o : {limited, started}) {
    try {
      p.evaluate("CartPole-v1", o);
      return 1;
    } catch (const paceline::Error &err) {
      const std::string says = o.starts.empty() ? "max_frames: 9, must be 0" : "starts: 2, must be none";
      if (std::string(err.what()).find(says) == std::string::npos) return 1;
    }
  }
  return 0;
}
