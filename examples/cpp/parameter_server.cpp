/*
 * Learners and a parameter server in processes of their own, as in A3C and Gorila, with nothing but
 * socket pairs between them: the library computes, this file carries.
 *
 *     parameter_server [learners [steps of each]]
 *
 * The program starts itself again, by exec, as one server and as learners (2), and connects each
 * learner to the server by a socket pair. A learner computes gradients of A2C on CartPole. The server
 * has the parameters in a paceline::Store, applies the gradients with RMSProp, and refuses those that
 * are more than 20 updates old. Every 20th gradient is sent twice, as by a transport that is not sure:
 * the server applies it once.
 */
#include <paceline.hpp>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ------------------------------------------------------------ messages */

/* What a learner sends: a gradient of n floats follows, or, with n 0, nothing: it only pulls. */
struct Request {
  uint64_t n;
  double learning_rate;
  int64_t seen, learner, life, step;
};

/* What it gets: n floats of parameters follow. */
struct Reply {
  uint64_t n;
  int64_t version, lag;
  uint32_t stale, duplicate;
};

/* Reads or writes all bytes; false: the process at the other side has ended. */
static bool all(bool out, int fd, void *bytes, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    char *at = static_cast<char *>(bytes) + done;
    const ssize_t n = out ? send(fd, at, size - done, MSG_NOSIGNAL) : recv(fd, at, size - done, 0);
    if (n == 0 || (n < 0 && (errno == EPIPE || errno == ECONNRESET))) return false;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::runtime_error(std::string("socket: ") + std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  return true;
}

/* -------------------------------------------------------- the processes */

static paceline::Config config(int learners, int learner) {
  paceline::Config cfg("a2c");
  cfg.preset("tuned", "CartPole-v1").set("num_threads", 1);
  cfg.set("updates", "outside").set("outside_learners", learners).set("outside_learner", learner);
  return cfg;
}

/* Answers one request; false: the learner has ended, and what it sent of a message is not used. */
static bool answer(int socket, paceline::Store &store, std::vector<float> &grad, std::vector<float> &theta) {
  Request r;
  if (!all(false, socket, &r, sizeof r)) return false;
  Reply reply{};
  if (r.n > 0) {
    if (r.n != store.size()) throw std::runtime_error("a gradient of another network");
    grad.resize(r.n);
    if (!all(false, socket, grad.data(), r.n * sizeof(float))) return false;
    const paceline::Answer a = store.push(grad, r.learning_rate, r.seen, {r.learner, r.life, r.step});
    reply.lag = a.lag, reply.stale = a.stale, reply.duplicate = a.duplicate;
  }
  reply.version = store.pull(theta), reply.n = theta.size();
  return all(true, socket, &reply, sizeof reply) && all(true, socket, theta.data(), theta.size() * sizeof(float));
}

/* Answers the learners until all have ended. */
static void serve(const std::vector<int> &sockets, const std::string &file) {
  paceline::Trainer trainer(config(1, 0)); /* for the first parameters, which all learners have, too */
  paceline::StoreOptions options;
  options.optimizer = "rmsprop", options.eps = 1e-5, options.max_staleness = 20;
  paceline::Store store(trainer.parameters("policy"), options);
  std::vector<float> grad, theta;
  std::vector<pollfd> open;
  for (int fd : sockets) open.push_back({fd, POLLIN, 0});
  while (!open.empty()) {
    if (poll(open.data(), open.size(), -1) < 0) continue; /* a signal */
    for (std::size_t i = 0; i < open.size(); i++) {
      if (open[i].revents == 0 || answer(open[i].fd, store, grad, theta)) continue;
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  const std::string says = store.describe(); /* counts, then the ledgers of the learners */
  std::printf("server: %s}\n", says.substr(0, says.find(",\"learners\"")).c_str());
  store.save(file);
}

/* Sends a request, and reads the reply and the parameters. */
static Reply ask(int socket, Request r, std::vector<float> &grad, std::vector<float> &theta) {
  Reply reply;
  r.n = grad.size();
  bool answered = all(true, socket, &r, sizeof r) && all(true, socket, grad.data(), grad.size() * sizeof(float)) &&
                  all(false, socket, &reply, sizeof reply);
  if (answered) {
    theta.resize(reply.n);
    answered = all(false, socket, theta.data(), theta.size() * sizeof(float));
  }
  if (!answered) throw std::runtime_error("the server has ended");
  return reply;
}

static void learn(int socket, int learners, int learner, int64_t steps) {
  paceline::Trainer trainer(config(learners, learner));
  std::vector<float> grad, theta;
  Request r{};
  r.learner = learner;
  int64_t gradients = 0, stale = 0, lag = 0, repeated = 0;
  r.seen = ask(socket, r, grad, theta).version;
  trainer.begin(steps);
  trainer.adopt(theta, r.seen);
  for (;;) {
    const paceline_gradient g = trainer.gradient(grad);
    if (g.state == PACELINE_GRADIENT_NONE) break;
    r.learning_rate = g.learning_rate, r.step = g.number;
    Reply reply = ask(socket, r, grad, theta);
    gradients++, stale += reply.stale, lag += reply.lag;
    if (g.number % 20 == 0) {
      reply = ask(socket, r, grad, theta);
      if (reply.duplicate == 0) throw std::runtime_error("the server has applied a gradient twice");
      repeated++;
    }
    r.seen = reply.version;
    trainer.adopt(theta, r.seen);
  }
  std::printf("learner %d: %lld steps, %lld gradients, %lld sent twice, %lld stale, mean lag %.2f, mean return %.0f\n",
              learner, static_cast<long long>(trainer.stats().num_timesteps), static_cast<long long>(gradients),
              static_cast<long long>(repeated), static_cast<long long>(stale),
              static_cast<double>(lag) / static_cast<double>(gradients), trainer.stats().mean_return);
}

/* ------------------------------------------------------------- starting */

/* Starts this program again, with the sockets that it needs; exec closes the others. */
static pid_t start(const std::vector<std::string> &arguments, const std::vector<int> &sockets) {
  std::vector<char *> argv;
  for (const std::string &a : arguments) argv.push_back(const_cast<char *>(a.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("a process could not be started");
  if (child > 0) return child;
  /* A child of fork() cannot use the library, and need not: exec comes next. */
  for (int fd : sockets) fcntl(fd, F_SETFD, 0);
  execv("/proc/self/exe", argv.data());
  _exit(127);
}

/* A new empty file, which the server writes and the launcher reads. */
static std::string new_file() {
  const char *folder = std::getenv("TMPDIR");
  std::string file = std::string(folder == nullptr ? "/tmp" : folder) + "/parameters.XXXXXX";
  const int fd = mkstemp(&file[0]);
  if (fd < 0) throw std::runtime_error(file + ": " + std::strerror(errno));
  close(fd);
  return file;
}

/* Starts the server and the learners and waits for them; returns how many failed. */
static int run(int learners, const std::string &steps, const std::string &file) {
  const std::string n = std::to_string(learners);
  std::vector<std::string> server = {"parameter_server", "server", file};
  std::vector<int> of_server;
  std::vector<pid_t> processes;
  for (int k = 0; k < learners; k++) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("no socket pair");
    processes.push_back(
        start({"parameter_server", "learner", std::to_string(pair[1]), n, std::to_string(k), steps}, {pair[1]}));
    close(pair[1]);
    of_server.push_back(pair[0]);
    server.push_back(std::to_string(pair[0]));
  }
  processes.push_back(start(server, of_server));
  for (int fd : of_server) close(fd);
  int failed = 0;
  for (pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    failed += status != 0;
  }
  return failed;
}

/* Evaluates what was learnt. */
static void evaluate(const std::string &file) {
  const paceline::Store store = paceline::Store::load(file);
  std::vector<float> theta;
  store.pull(theta);
  paceline::Trainer trainer(config(1, 0));
  trainer.set_parameters("policy", theta);
  paceline::EvalOptions options;
  options.episodes = 20;
  std::printf("greedy policy: mean return %.1f of 20 episodes\n",
              trainer.policy().evaluate("CartPole-v1", options).mean_return);
}

/* A whole number of at least 1. */
static int counted(const std::string &what, const std::string &text) {
  char *end = nullptr;
  errno = 0;
  const long n = std::strtol(text.c_str(), &end, 10);
  if (end == text.c_str() || *end != '\0' || errno != 0 || n < 1 || n > INT_MAX)
    throw std::runtime_error(what + ": " + text + ", must be a whole number of at least 1");
  return static_cast<int>(n);
}

static int launch(int learners, int steps_of_each) {
  const std::string steps = std::to_string(steps_of_each);
  const std::string file = new_file();
  const int failed = run(learners, steps, file);
  if (failed == 0) evaluate(file);
  std::remove(file.c_str());
  return failed == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
  try {
    const std::vector<std::string> a(argv, argv + argc);
    if (argc > 3 && a[1] == "server") {
      std::vector<int> sockets;
      for (std::size_t i = 3; i < a.size(); i++) sockets.push_back(std::stoi(a[i]));
      serve(sockets, a[2]);
      return 0;
    }
    if (argc == 6 && a[1] == "learner") {
      learn(std::stoi(a[2]), std::stoi(a[3]), std::stoi(a[4]), std::stoll(a[5]));
      return 0;
    }
    return launch(argc > 1 ? counted("learners", a[1]) : 2, argc > 2 ? counted("steps", a[2]) : 150000);
  } catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
