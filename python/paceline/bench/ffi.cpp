/*
 * What calls of the library cost from C++: ffi.c over paceline.hpp.
 *
 *     ffi mlp.policy cnn.policy
 */
#include <paceline.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

template <class Call>
static double stretch(Call &call, int calls) {
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; i++) call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
}

template <class Call>
static void measure(const char *name, std::size_t rows, Call call) {
  int calls = 1;
  while (stretch(call, calls) < 1000) calls *= 2; /* a millisecond */
  std::vector<double> times(21);
  for (double &time : times) time = stretch(call, calls) / calls;
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  std::printf("%s,%zu,%.4f\n", name, rows, times[10]);
}

int main(int argc, char **argv) try {
  if (argc != 3) return std::fprintf(stderr, "ffi mlp.policy cnn.policy\n"), 2;
  const paceline::Policy mlp(argv[1]), cnn(argv[2]);
  std::vector<float> states(64 * 4);
  std::vector<uint8_t> images(4 * 84 * 84);
  std::vector<int32_t> actions(64);
  for (std::size_t i = 0; i < states.size(); i++) states[i] = static_cast<float>(i % 7) / 7;
  for (std::size_t i = 0; i < images.size(); i++) images[i] = static_cast<uint8_t>(i * 31);

  const auto act = [&](const auto &policy, const auto &obs, std::size_t rows) {
    return [&policy, &obs, &actions, rows] { policy.act(rows, obs.data(), actions.data()); };
  };
  measure("empty", 0, act(mlp, states, 0));
  for (uint32_t n : {1u, 8u, 64u}) {
    paceline::VecOptions options;
    options.num_threads = 1;
    paceline::VecEnv envs("CartPole-v1", n, options);
    const std::vector<int32_t> zeros(n);
    envs.reset();
    measure("vec_step", n, [&] { envs.step(zeros); });
  }
  for (std::size_t rows : {1, 8, 64}) measure("act mlp", rows, act(mlp, states, rows));
  measure("act cnn", 1, act(cnn, images, 1));
} catch (const paceline::Error &e) {
  std::fprintf(stderr, "%s: %s\n", paceline_status_str(e.code()), e.what());
  return 1;
}
