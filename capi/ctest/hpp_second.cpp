#include <paceline.h>
#include <paceline.h>
#include <paceline.hpp>
#include <paceline.hpp>

int second_unit() {
  paceline::Config cfg("dqn");
  cfg.preset("tuned", "CartPole-v1");
  paceline::Trainer t(cfg);
  t.settle();
  return t.policy().evaluate("CartPole-v1", {2}).episodes == 2 ? 0 : 1;
}
